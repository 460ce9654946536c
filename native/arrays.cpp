#include "arrays.h"

#include <initializer_list>
#include <utility>
#include <vector>

namespace graphconv {
namespace {

Kind kind_of(const Py_buffer& view) {
    const char* format = view.format;
    if (format == nullptr || format[0] == '\0' || format[1] != '\0') return Kind::other;
    switch (format[0]) {
        case 'f':
            return Kind::float32;
        case 'd':
            return Kind::float64;
        case 'i':
        case 'l':
        case 'q':
            return view.itemsize == 4 ? Kind::int32 : Kind::int64;
        default:
            return Kind::other;
    }
}

std::string shape(const Py_buffer& view) {
    std::string text = "(";
    for (int k = 0; k < view.ndim; ++k) {
        text += (k ? ", " : "") + std::to_string(view.shape[k]);
    }
    return text + (view.ndim == 1 ? ",)" : ")");
}

PyObject* numpy(const char* attribute) {
    return nb::getattr(nb::module_::import_("numpy"), attribute).release().ptr();
}

nb::object call(PyObject* function, std::initializer_list<PyObject*> arguments) {
    nb::object result =
        nb::steal(PyObject_Vectorcall(function, arguments.begin(), arguments.size(), nullptr));
    if (!result.is_valid()) throw nb::python_error();
    return result;
}

constexpr std::int64_t kLargeBytes = 1 << 20;
constexpr std::int64_t kSmallBytes = 1 << 14;  // whose beginning does not matter

// The memory of recent large results. An epoch makes the same few again and again; fresh memory
// would cost a page fault every 4 KiB, which took as long as the products of 16 replicas on Cora.
// A piece is free once nobody but this list refers to it. Guarded by the interpreter lock.
class Recycled {
public:
    // The smallest free piece of that size or up to half as much again: validation needs arrays a
    // little smaller than training, at another time, and would keep memory of its own for them.
    nb::object find(std::int64_t n_bytes) const {
        const Piece* found = nullptr;
        for (const Piece& piece : pieces_) {
            if (piece.n_bytes < n_bytes || piece.n_bytes > n_bytes + n_bytes / 2) continue;
            if (found != nullptr && piece.n_bytes >= found->n_bytes) continue;
            if (Py_REFCNT(piece.memory.ptr()) == 1) found = &piece;
        }
        return found == nullptr ? nb::object() : found->memory;
    }
    void add(nb::object memory, std::int64_t n_bytes) {
        pieces_.push_back({std::move(memory), n_bytes});
        total_ += n_bytes;
    }
    // Forgets the oldest pieces until no more than that is kept.
    void trim(std::int64_t n_bytes) {
        std::size_t n_gone = 0;
        for (; total_ > n_bytes && n_gone < pieces_.size(); ++n_gone)
            total_ -= pieces_[n_gone].n_bytes;
        pieces_.erase(pieces_.begin(), pieces_.begin() + std::ptrdiff_t(n_gone));
    }

private:
    struct Piece {
        nb::object memory;
        std::int64_t n_bytes;
    };
    std::vector<Piece> pieces_;
    std::int64_t total_ = 0;
};

[[noreturn]] void fail(nb::exception_type type, const std::string& message) {
    throw nb::builtin_exception(type, message.c_str());
}

// Rounded up to one of eight sizes from a power of two to the next. Mini-batches are all of about
// the same size but seldom of the very same; without this, each would leave its memory behind.
// What is added is never touched, so it takes no memory.
std::int64_t rounded_up(std::int64_t n_bytes) {
    std::int64_t step = kLargeBytes / 8;
    while (n_bytes > 16 * step) step *= 2;
    return (n_bytes + step - 1) / step * step;
}

// Never destroyed: what it holds would be, after the interpreter is gone.
Recycled& recycled() {
    static Recycled& only = *new Recycled;
    return only;
}

nb::object new_array(const nb::object& shape, std::int64_t n_elements, Kind kind) {
    // Never released: a static object would be, after the interpreter is gone.
    static PyObject* const empty = numpy("empty");
    static PyObject* const ndarray = numpy("ndarray");
    static PyObject* const bytes = numpy("uint8");
    static PyObject* const float32 = numpy("float32");
    static PyObject* const float64 = numpy("float64");
    static PyObject* const int64 = numpy("int64");
    const std::int64_t itemsize = kind == Kind::float32 ? 4 : 8;
    PyObject* const type = kind == Kind::float32   ? float32
                           : kind == Kind::float64 ? float64
                                                   : int64;
    if (n_elements * itemsize < kSmallBytes) return call(empty, {shape.ptr(), type});
    // numpy aligns to 16 bytes, so that a row of 64 takes two cache lines: products and sums that
    // read and write whole lines take up to twice as long.
    const bool is_large = n_elements * itemsize >= kLargeBytes;
    const std::int64_t n_bytes = n_elements * itemsize + 63;
    const std::int64_t n_kept = is_large ? rounded_up(n_bytes) : n_bytes;
    nb::object raw;
    if (is_large) raw = recycled().find(n_kept);
    if (!raw.is_valid()) {
        raw = call(empty, {nb::int_(n_kept).ptr(), bytes});
        if (is_large) recycled().add(raw, n_kept);
    }
    const Array memory(raw, "memory");
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data<char>());
    const nb::object offset = nb::int_((64 - address % 64) % 64);
    return call(ndarray, {shape.ptr(), type, raw.ptr(), offset.ptr()});
}

}  // namespace

const char* name(Kind kind) {
    switch (kind) {
        case Kind::float32:
            return "float32";
        case Kind::float64:
            return "float64";
        case Kind::int32:
            return "int32";
        case Kind::int64:
            return "int64";
        default:
            return "another type";
    }
}

Array::Array(nb::handle source, const char* name, bool optional) : source_(source), name_(name) {
    view_.obj = nullptr;
    if (optional && source.is_none()) return;
    if (!PyObject_CheckBuffer(source.ptr())) {
        fail(nb::exception_type::type_error,
             std::string(name) + " must be a numpy array, got " + nb::inst_name(source).c_str());
    }
    if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT) != 0) {
        PyErr_Clear();
        view_.obj = nullptr;
        fail(nb::exception_type::value_error, std::string(name) + " must be C-contiguous numbers");
    }
    kind_ = kind_of(view_);
}

Array::~Array() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

void Array::require_kind(Kind kind, const char* why) const {
    if (none() || kind_ == kind) return;
    fail(nb::exception_type::type_error, std::string(name_) + " must be " + name(kind) + why +
                                             ", got " + name(kind_) + " (format '" +
                                             (view_.format ? view_.format : "") + "')");
}

void Array::require_dimensions(int n) const {
    static const char* const words[] = {"no", "one", "two", "three", "four"};
    if (none() || n_dimensions() == n) return;
    fail(nb::exception_type::value_error,
         std::string(name_) + " must have " + words[n] + " dimensions, got shape " + shape(view_));
}

void Array::require_elements(std::int64_t n, const char* like) const {
    if (none() || n_elements() == n) return;
    fail(nb::exception_type::value_error, std::string(name_) + " must have " + std::to_string(n) +
                                              " elements" + like + ", got shape " + shape(view_));
}

void Array::require_vector(std::int64_t expected, const char* of) const {
    if (none() || (n_dimensions() == 1 && (expected < 0 || size(0) == expected))) return;
    fail(nb::exception_type::value_error,
         std::string(name_) + " must have shape (" +
             (expected < 0 ? std::string("n") : std::to_string(expected)) + ",)" + of +
             ", got shape " + shape(view_));
}

void Array::require_writable() const {
    if (none() || !view_.readonly) return;
    fail(nb::exception_type::value_error, std::string(name_) + " must be writable");
}

void Array::require_apart(const Array& other) const {
    if (this == &other || none() || other.none()) return;
    const auto* own = data<const char>();
    const auto* its = other.data<const char>();
    if (own + view_.len <= its || its + other.view_.len <= own) return;
    fail(nb::exception_type::value_error,
         std::string(name_) + " must not share memory with " + other.name_);
}

nb::object new_matrix(std::int64_t n_rows, std::int64_t n_columns, Kind kind) {
    return new_array(nb::make_tuple(n_rows, n_columns), n_rows * n_columns, kind);
}

void trim_memory(std::int64_t n_bytes) { recycled().trim(n_bytes); }

nb::object new_like(const Array& other) {
    nb::object shape = nb::steal(PyTuple_New(other.n_dimensions()));
    for (int k = 0; k < other.n_dimensions(); ++k) {
        PyTuple_SET_ITEM(shape.ptr(), k, PyLong_FromLongLong(other.size(k)));
    }
    return new_array(shape, other.n_elements(), other.kind());
}

}  // namespace graphconv
