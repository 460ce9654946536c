#include "checked_rows.h"

#include <string>
#include <utility>

#include "dispatch.h"

namespace graphconv {
namespace {

// The object that a weak reference refers to, or null if it is gone.
PyObject* referent(PyObject* reference) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* object = nullptr;
    if (PyWeakref_GetRef(reference, &object) == 1) Py_DECREF(object);  // the caller has it, too
    return object;
#else
    PyObject* const object = PyWeakref_GetObject(reference);
    return object == Py_None ? nullptr : object;
#endif
}

bool is_readonly(nb::handle object) {
    Py_buffer view;
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) {
        PyErr_Clear();
        return false;
    }
    const bool readonly = view.readonly != 0;
    PyBuffer_Release(&view);
    return readonly;
}

// Whether nobody can write to what the array shows: neither through it nor through what it is a view
// of, nor once its flag is changed. An array that owns its memory can be made writable again by whoever
// has it, so there must be a read-only memoryview, bytes or a file on the way to the memory.
bool is_fixed(nb::handle array) {
    bool is_sealed = false;
    for (nb::object each = nb::borrow(array);;) {
        const char* behind = "obj";
        if (PyMemoryView_Check(each.ptr())) {
            if (!is_readonly(each)) return false;
            is_sealed = true;
        } else if (nb::hasattr(each, "flags") && nb::hasattr(each, "base")) {
            if (nb::cast<bool>(nb::getattr(nb::getattr(each, "flags"), "writeable"))) return false;
            behind = "base";
        } else {
            return is_readonly(each);
        }
        each = nb::getattr(each, behind);
        if (each.is_none()) return is_sealed;
    }
}

constexpr int kArrays = 3;  // begin, end, indices

// The checks of rows whose arrays are fixed. They are told by the three objects, to which there are
// weak references only: an array that is gone is never taken for another at its place. Guarded by the
// interpreter lock.
class Remembered {
public:
    const RowCheck* find(nb::handle const (&arrays)[kArrays]) const {
        for (std::size_t k = 0; k < kWays; ++k) {
            const Slot& slot = slots_[(place(arrays) + k) % kSlots];
            if (slot.is_of(arrays)) return &slot.found;
        }
        return nullptr;
    }

    void add(nb::handle const (&arrays)[kArrays], const RowCheck& found) {
        nb::object references[kArrays];
        for (int k = 0; k < kArrays; ++k) {
            references[k] = nb::steal(PyWeakref_NewRef(arrays[k].ptr(), nullptr));
            if (!references[k].is_valid()) return PyErr_Clear();
        }
        Slot* to = &slots_[place(arrays)];
        for (std::size_t k = 0; k < kWays; ++k) {
            Slot& slot = slots_[(place(arrays) + k) % kSlots];
            if (slot.is_free()) {
                to = &slot;
                break;
            }
        }
        for (int k = 0; k < kArrays; ++k) to->references[k] = std::move(references[k]);
        to->found = found;
    }

private:
    struct Slot {
        nb::object references[kArrays];
        RowCheck found;

        bool is_of(nb::handle const (&arrays)[kArrays]) const {
            for (int k = 0; k < kArrays; ++k) {
                if (!references[k].is_valid() || referent(references[k].ptr()) != arrays[k].ptr())
                    return false;
            }
            return true;
        }
        bool is_free() const {
            for (const nb::object& each : references) {
                if (!each.is_valid() || referent(each.ptr()) == nullptr) return true;
            }
            return false;
        }
    };

    // Some ten rows take part in an epoch; here is room for those of several trainings.
    static constexpr std::size_t kSlots = 512, kWays = 4;
    Slot slots_[kSlots];

    static std::size_t place(nb::handle const (&arrays)[kArrays]) {
        std::uint64_t mixed = 0;
        for (const nb::handle& each : arrays) {
            mixed = (mixed ^ reinterpret_cast<std::uintptr_t>(each.ptr())) * 0x9E3779B97F4A7C15u;
        }
        return std::size_t(mixed >> 32) % kSlots;
    }
};

// Never destroyed: what it holds would be, after the interpreter is gone.
Remembered& remembered() {
    static Remembered& only = *new Remembered;
    return only;
}

template <class I>
RowCheck look_at(const Array& begin, const Array& end, const Array& indices) {
    return kernels<float, I>().check_rows(begin.data<const I>(), end.data<const I>(),
                                          indices.data<const I>(), begin.size(0), indices.size(0));
}

template <class I>
std::string bounds(const Array& begin, const Array& end, std::int64_t row) {
    return std::to_string(row) + " from " + std::to_string(begin.data<const I>()[row]) + " to " +
           std::to_string(end.data<const I>()[row]);
}

[[noreturn]] void fail(const std::string& message) { throw nb::value_error(message.c_str()); }

}  // namespace

void require_rows(const Array& begin, const Array& end, const Array& indices,
                  std::int64_t n_columns) {
    const bool wide = begin.kind() == Kind::int64;
    const nb::handle arrays[] = {begin.source(), end.source(), indices.source()};
    const bool readonly = begin.readonly() && end.readonly() && indices.readonly();
    const RowCheck* known = readonly ? remembered().find(arrays) : nullptr;
    RowCheck found;
    if (known == nullptr) {
        found = wide ? look_at<std::int64_t>(begin, end, indices)
                     : look_at<std::int32_t>(begin, end, indices);
        if (found.wrong_row >= 0) {
            fail("rows must lie within the " + std::to_string(indices.size(0)) +
                 " entries, got row " +
                 (wide ? bounds<std::int64_t>(begin, end, found.wrong_row)
                       : bounds<std::int32_t>(begin, end, found.wrong_row)));
        }
        const bool fixed =
            readonly && is_fixed(arrays[0]) && is_fixed(arrays[1]) && is_fixed(arrays[2]);
        if (fixed) remembered().add(arrays, found);
        known = &found;
    }
    if (known->empty || known->greatest < std::uint64_t(n_columns)) return;
    const std::int64_t column = wide ? std::int64_t(known->greatest)
                                     : std::int64_t(std::int32_t(std::uint32_t(known->greatest)));
    fail("rows.indices must be in 0 .. " + std::to_string(n_columns) + ", the columns, got " +
         std::to_string(column));
}

void require_below(const Array& numbers, std::int64_t limit) {
    const auto* values = numbers.data<const std::int64_t>();
    for (std::int64_t k = 0; k < numbers.n_elements(); ++k) {
        if (values[k] < 0 || values[k] >= limit) {
            fail(std::string(numbers.argument()) + " must be in 0 .. " + std::to_string(limit) +
                 ", got " + std::to_string(values[k]));
        }
    }
}

}  // namespace graphconv
