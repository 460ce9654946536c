// Python arrays as pointers and shapes, through the buffer protocol, and what can be wrong with
// them.
//
// nanobind's ndarray would do, but costs several times as much a call: a Cora epoch has ten calls
// of a few arrays each and should take well under a millisecond.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

namespace graphconv {

namespace nb = nanobind;

enum class Kind { float32, float64, int32, int64, other };

const char* name(Kind kind);

// A view of a C-contiguous array, or of None where that is allowed.
class Array {
public:
    // Throws TypeError if `source` is no array of numbers, ValueError if it is not C-contiguous.
    Array(nb::handle source, const char* name, bool optional = false);
    ~Array();
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    bool none() const { return view_.obj == nullptr; }
    nb::handle source() const { return source_; }
    const char* argument() const { return name_; }  // what it is called in messages
    bool readonly() const { return view_.readonly != 0; }
    int n_dimensions() const { return view_.ndim; }
    // 0 for a dimension that is not there: what is asked before the checks must not read beyond.
    std::int64_t size(int dimension) const {
        return dimension < view_.ndim ? view_.shape[dimension] : 0;
    }
    std::int64_t n_elements() const { return view_.len / view_.itemsize; }
    Kind kind() const { return kind_; }
    template <class T>
    T* data() const {
        return static_cast<T*>(view_.buf);
    }

    // Each throws with a one-line message if the array, unless None, is not as stated.
    void require_kind(Kind kind, const char* why) const;
    void require_dimensions(int n) const;
    void require_elements(std::int64_t n, const char* like) const;
    void require_vector(std::int64_t size, const char* of) const;
    void require_writable() const;
    void require_apart(const Array& other) const;  // no memory in common

private:
    nb::handle source_;
    Py_buffer view_;
    const char* name_;
    Kind kind_ = Kind::other;
};

// A new numpy array of shape (n_rows, n_columns), contents not set.
nb::object new_matrix(std::int64_t n_rows, std::int64_t n_columns, Kind kind);

// Lets go of the memory of earlier results but for so much of it.
void trim_memory(std::int64_t n_bytes);

// A new numpy array of the shape and kind of another, contents not set.
nb::object new_like(const Array& other);

}  // namespace graphconv
