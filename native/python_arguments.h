// What several kernels take from Python: numbers, sparse rows, dropout; checked, as what the kernels
// want. Compiled for the oldest processor only, so inline functions do no harm here.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#if defined(__linux__)
#include <cxxabi.h>
#include <unistd.h>
#endif

#include "arguments.h"
#include "arrays.h"
#include "checked_rows.h"

namespace graphconv {

inline nb::handle item(nb::handle tuple, Py_ssize_t k) { return PyTuple_GET_ITEM(tuple.ptr(), k); }

inline void require_tuple(nb::handle source, Py_ssize_t size, const char* what) {
    if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) != size) {
        throw nb::type_error(what);
    }
}

[[noreturn]] inline void fail(const std::string& message) {
    throw nb::value_error(message.c_str());
}

// Arguments come in as objects, so that a wrong one gets our message and not a list of overloads.
inline std::int64_t integer(nb::handle source, const char* name) {
    const long long value = PyLong_AsLongLong(source.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw nb::type_error((std::string(name) + " must be an integer").c_str());
    }
    return value;
}

inline std::uint64_t sixty_four_bits(nb::handle source, const char* name) {
    const std::uint64_t value = PyLong_AsUnsignedLongLong(source.ptr());
    if (value == std::uint64_t(-1) && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        fail(std::string(name) + " must be an integer of 64 bits, not negative");
    }
    return value;
}

// So many rows, columns or pieces there can be; twice as many of each still fit 64 bits.
constexpr std::int64_t kMostPlaces = std::int64_t(1) << 31;

inline std::int64_t at_least(std::int64_t least, nb::handle source, const char* name) {
    const std::int64_t value = integer(source, name);
    if (value < least) {
        fail(std::string(name) + " must be at least " + std::to_string(least) + ", got " +
             std::to_string(value));
    }
    return value;
}

inline std::int64_t places(std::int64_t least, nb::handle source, const char* name) {
    const std::int64_t value = at_least(least, source, name);
    if (value > kMostPlaces) {
        fail(std::string(name) + " must be at most " + std::to_string(kMostPlaces) + ", got " +
             std::to_string(value));
    }
    return value;
}

// The product of two sizes, which must fit 64 bits: arrays without elements may have any.
inline std::int64_t size_product(std::int64_t a, std::int64_t b) {
    constexpr std::int64_t kMost = std::int64_t(1) << 62;
    if (a > 0 && b > kMost / a) {
        fail("arrays must not be so large: " + std::to_string(a) + " times " + std::to_string(b));
    }
    return a * b;
}

inline double number(nb::handle source, const char* name) {
    const double value = PyFloat_AsDouble(source.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw nb::type_error((std::string(name) + " must be a number").c_str());
    }
    return value;
}

// The four arrays of a graphconv.kernels.Csr.
class CsrArrays {
public:
    explicit CsrArrays(nb::handle csr)
        : begin_(item((require_tuple(csr, 4, "rows must be a Csr"), csr), 0), "rows.begin"),
          end_(item(csr, 1), "rows.end"),
          indices_(item(csr, 2), "rows.indices"),
          values_(item(csr, 3), "rows.values", true) {
        if (begin_.kind() != Kind::int64) begin_.require_kind(Kind::int32, " or int64");
        end_.require_kind(begin_.kind(), " like rows.begin");
        indices_.require_kind(begin_.kind(), " like rows.begin");
        begin_.require_vector(-1, "");
        end_.require_vector(n_rows(), " like rows.begin");
        indices_.require_vector(-1, "");
        values_.require_vector(indices_.size(0), " like rows.indices");
    }

    std::int64_t n_rows() const { return begin_.size(0); }
    std::int64_t n_entries() const { return indices_.size(0); }
    bool wide() const { return begin_.kind() == Kind::int64; }
    bool has_values() const { return !values_.none(); }
    void require_values(Kind kind, const char* like) const { values_.require_kind(kind, like); }
    void require_columns(std::int64_t n) const { require_rows(begin_, end_, indices_, n); }

    // Throws if an array that is written to shares memory with one of these.
    void require_apart(const Array& out) const {
        for (const Array* each : {&begin_, &end_, &indices_, &values_}) out.require_apart(*each);
    }
    std::int64_t n_entries_of(std::int64_t row) const {
        return wide()
                   ? end_.data<const std::int64_t>()[row] - begin_.data<const std::int64_t>()[row]
                   : end_.data<const std::int32_t>()[row] - begin_.data<const std::int32_t>()[row];
    }

    template <class T, class I>
    Rows<T, I> rows() const {
        return {begin_.data<const I>(),
                end_.data<const I>(),
                indices_.data<const I>(),
                values_.none() ? nullptr : values_.data<const T>(),
                n_rows(),
                indices_.size(0)};
    }

private:
    Array begin_, end_, indices_, values_;
};

// A graphconv.kernels.Dropout, or None, and the rows' names in its hash.
class DropoutKeys {
public:
    DropoutKeys(nb::handle dropout, nb::handle row_ids, std::int64_t n_rows, std::int64_t width)
        : row_ids_(row_ids, "row_ids", true) {
        row_ids_.require_kind(Kind::int64, "");
        row_ids_.require_vector(n_rows, ", one for each row");
        if (dropout.is_none()) return;
        require_tuple(dropout, 2, "dropout must be a Dropout or None");
        const nb::handle keys = item(dropout, 0);
        if (!PyTuple_Check(keys.ptr()) || PyTuple_GET_SIZE(keys.ptr()) == 0) {
            throw nb::value_error("dropout.keys must be a tuple of one integer or more");
        }
        const Py_ssize_t n_keys = PyTuple_GET_SIZE(keys.ptr());
        if (width % n_keys != 0) {
            fail("the width must be a multiple of the number of dropout keys, got " +
                 std::to_string(width) + " columns and " + std::to_string(n_keys) + " keys");
        }
        threshold_ = integer(item(dropout, 1), "dropout.threshold");
        if (threshold_ < 1 || threshold_ > 65536) {
            fail("dropout.threshold must be in 1 .. 65536, got " + std::to_string(threshold_));
        }
        for (Py_ssize_t k = 0; k < n_keys; ++k) {
            const std::uint64_t key = PyLong_AsUnsignedLongLong(item(keys, k).ptr());
            if (key == std::uint64_t(-1) && PyErr_Occurred() != nullptr) {
                PyErr_Clear();
                throw nb::value_error("dropout.keys must be integers of 64 bits, none negative");
            }
            keys_.push_back(key);
        }
    }

    // Keeping everything is not dropping out, so the kernels see thresholds below 65536 only.
    Dropout dropout() const {
        const bool keeps_all = threshold_ == 65536;
        return {keys_.data(), keeps_all ? 0 : int(keys_.size()), std::uint32_t(threshold_),
                row_ids_.none() ? nullptr : row_ids_.data<const std::int64_t>()};
    }

    int n_keys() const { return int(keys_.size()); }

private:
    Array row_ids_;
    std::vector<std::uint64_t> keys_;
    std::int64_t threshold_ = 65536;
};

inline void require_float(const Array& array) {
    if (array.kind() != Kind::float64) array.require_kind(Kind::float32, " or float64");
}

inline void require_float_matrix(const Array& array) {
    array.require_dimensions(2);
    require_float(array);
}

// Without the interpreter lock for as long as it lives.
class Unlocked {
public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

    // A daemon thread that comes back when the interpreter is gone is ended by it in here, by an
    // exception of the C library's that must not pass a destructor. It waits for the process's end.
    void lock() {
#if defined(__GLIBC__)
        try {
            PyEval_RestoreThread(state_);
        } catch (abi::__forced_unwind&) {
            for (;;) pause();
        }
#else
        PyEval_RestoreThread(state_);
#endif
    }

private:
    PyThreadState* state_;
};

// Calls f(T(), I()) for the types of the arrays, without the interpreter lock.
template <class F>
void with_types(Kind kind, bool wide, F f) {
    Unlocked unlocked;
    std::exception_ptr failure;
    try {
        if (kind == Kind::float32) {
            wide ? f(float(), std::int64_t()) : f(float(), std::int32_t());
        } else {
            wide ? f(double(), std::int64_t()) : f(double(), std::int32_t());
        }
    } catch (...) {
        failure = std::current_exception();
    }
    unlocked.lock();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace graphconv
