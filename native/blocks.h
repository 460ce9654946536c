// Blocks of sparse rows with their dropout masks.
#pragma once

#include "arguments.h"
#include "dropout.h"
#include "simd.h"

namespace graphconv {
namespace GRAPHCONV_VARIANT {

constexpr std::int64_t kBlock = 64;     // rows whose masks are made at once
constexpr std::int64_t kRowsAhead = 8;  // rows between a prefetch and its use

// Up to kBlock rows, and for each which of its first 64 entries dropout keeps. Masks are made well
// before their use: where the walk over a row's mask ends is anyone's guess, and the sooner the
// processor knows the mask the less a wrong guess costs.
template <class T, class I>
class Block {
public:
    std::int64_t n;  // rows

    // Rows first .. last.
    Block(const Rows<T, I>& rows, std::int64_t first, std::int64_t last)
        : n(last - first), begin_(rows.begin + first), end_(rows.end + first), first_row_(first) {}

    // Leaves out all entries but those with columns from .. to.
    void restrict_columns(const I* indices, std::int64_t from, std::int64_t to, bool drop) {
        for (std::int64_t k = 0; k < n; ++k) {
            const I* row = indices + begin_[k];
            const std::int64_t size = end_[k] - begin_[k];
            std::int64_t before = 0, upto = size;
            if (size == 0 || row[0] >= to || row[size - 1] < from) {
                upto = 0;  // columns are sorted: none of the row is in the range
            } else if (row[0] < from || row[size - 1] >= to) {
                upto = 0;
                for (std::int64_t e = 0; e < size; ++e) {
                    before += row[e] < from;
                    upto += row[e] < to;
                }
            }
            // Hashes serve four entries, so masks begin at a multiple of four.
            skipped_[k] = drop && before < upto ? int(before % 4) : 0;
            quads_[k] = before / 4;
            low_[k] = I(begin_[k] + before - skipped_[k]);
            high_[k] = I(begin_[k] + upto);
        }
        begin_ = low_;
        end_ = high_;
        restricted_ = true;
    }

    void make_masks(const Dropout& dropout, int key) {
        for (std::int64_t k = 0; k < n; ++k) {
            const std::int64_t size = end_[k] - begin_[k];
            if (size <= 0) {
                bits_[k] = 0;
                continue;
            }
            counters_[k] = row_counter(dropout, key, first_row_ + k);
            if (restricted_) counters_[k] += std::uint64_t(quads_[k]) * kGolden;
            bits_[k] = kept_bits(counters_[k], dropout.threshold, size < 64 ? size : 64);
            if (restricted_) bits_[k] &= ~std::uint64_t(0) << skipped_[k];
        }
    }

    // A walk over the kept entries of a row, in order. Taking the set bits of a mask one by
    // one mispredicts once in a row, not at every other entry as a branch on each would.
    template <bool Drop>
    struct Walk {
        std::int64_t entry, end;
        std::uint64_t kept, counter;  // mask of the 64 entries at `entry`, and its hash argument

        // Calls take(entry) for what the mask has left, or for all entries if none is dropped.
        template <class Take>
        GRAPHCONV_INLINE void take_mask(Take take) {
            if (Drop) {
                for (; kept; kept &= kept - 1) take(entry + lowest_bit(kept));
            } else {
                for (; entry < end; ++entry) take(entry);
            }
        }
        // On to the next 64 entries; false if there are none.
        GRAPHCONV_INLINE bool advance(std::uint32_t threshold) {
            entry += 64;
            if (!Drop || entry >= end) return false;
            counter += 16 * kGolden;
            kept = next_kept_bits(counter, threshold, end - entry);
            return true;
        }
        template <class Take>
        GRAPHCONV_INLINE void finish(std::uint32_t threshold, Take take) {
            do {
                take_mask(take);
            } while (advance(threshold));
        }
        GRAPHCONV_INLINE bool more() const { return Drop ? kept != 0 : entry < end; }
        // How many are left of the mask, or of all entries if none is dropped.
        GRAPHCONV_INLINE std::int64_t count() const {
            return Drop ? count_bits(kept) : end - entry;
        }
        GRAPHCONV_INLINE std::int64_t next() {
            if (!Drop) return entry++;
            const std::int64_t e = entry + lowest_bit(kept);
            kept &= kept - 1;
            return e;
        }
    };

    template <bool Drop>
    GRAPHCONV_INLINE Walk<Drop> walk(std::int64_t k) const {
        return {begin_[k], end_[k], Drop ? bits_[k] : 0, Drop ? counters_[k] : 0};
    }

    // Calls fetch(entry) for entries that are used soon, some rows after row k; `fetched` counts
    // the rows that are done.
    template <class Fetch>
    GRAPHCONV_INLINE void look_ahead(std::int64_t k, std::int64_t& fetched, Fetch fetch) const {
        for (; fetched < n && fetched <= k + kRowsAhead; ++fetched) {
            const std::int64_t begin = begin_[fetched];
            for (std::uint64_t kept = bits_[fetched]; kept; kept &= kept - 1) {
                fetch(begin + lowest_bit(kept));
            }
        }
    }

private:
    const I* begin_;
    const I* end_;
    std::int64_t first_row_;
    bool restricted_ = false;
    std::uint64_t counters_[kBlock];  // hash argument of the four entries at begin_
    std::uint64_t bits_[kBlock];
    I low_[kBlock], high_[kBlock];  // begin_ and end_ when restricted
    std::int64_t quads_[kBlock];    // low_ in its row, in fours
    int skipped_[kBlock];           // entries at low_ that are not in the range
};

}  // namespace GRAPHCONV_VARIANT
}  // namespace graphconv
