// Reads the memory of tensors without linking to torch, and refuses what a kernel cannot work on.
//
// Three ways, quickest first: the DLPack C exchange API that a type offers (torch >= 2.9; 0.2 us a tensor), the buffer
// protocol (NumPy), and Python attributes (any torch). Every refusal is one sentence that names the argument.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace steady {

namespace nb = nanobind;

enum class Dtype { float32, int64, uint8, boolean };

inline const char* dtype_name(Dtype dtype) {
    constexpr const char* names[] = {"float32", "int64", "uint8", "bool"};
    return names[static_cast<int>(dtype)];
}

inline int64_t dtype_bytes(Dtype dtype) {
    constexpr int64_t bytes[] = {4, 8, 1, 1};
    return bytes[static_cast<int>(dtype)];
}

// A contiguous array in this machine's memory.
struct Array {
    static constexpr int MAX_DIMS = 8;
    void* data = nullptr;
    Dtype dtype = Dtype::float32;
    int dims = 0;
    int64_t shape[MAX_DIMS] = {};
    int64_t size = 1;

    template <class T>
    T* as() const {
        return static_cast<T*>(data);
    }
    float* floats() const { return as<float>(); }
    int64_t rows() const { return dims > 0 ? shape[0] : 1; }
    int64_t row_size() const { return rows() > 0 ? size / rows() : trailing(); }
    int64_t trailing() const {
        int64_t count = 1;
        for (int i = 1; i < dims; i++) count *= shape[i];
        return count;
    }
    std::string shape_text() const {
        std::string text = "[";
        for (int i = 0; i < dims; i++) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
        return text + "]";
    }
};

[[noreturn]] inline void refuse_type(const char* name, const std::string& what) {
    throw nb::type_error((std::string(name) + " " + what).c_str());
}

[[noreturn]] inline void refuse_value(const char* name, const std::string& what) {
    throw nb::value_error((std::string(name) + " " + what).c_str());
}

namespace dlpack {

// The stable part of DLPack 1.x's dlpack.h, field by field.
struct Device {
    int32_t type, index;
};
struct DataType {
    uint8_t code, bits;
    uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    int32_t dims;
    DataType dtype;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
};
struct Header {
    uint32_t major, minor;
    Header* previous;
};
struct ExchangeApi {
    Header header;
    void* allocate;
    void* managed_from_object;
    void* managed_to_object;
    int (*tensor_from_object)(void* object, Tensor* out);
    void* current_stream;
};
constexpr int32_t CPU = 1;
constexpr uint8_t INT = 0, UINT = 1, FLOAT = 2, BOOL = 6;

// The exchange API of this object's type, or null. Types are few, so the last few are remembered.
const ExchangeApi* exchange_api(nb::handle object);

}  // namespace dlpack

// For tests: leave the exchange API out, as with an older torch.
void forbid_exchange_api(bool forbid);

// The array behind `object`, of one of the known dtypes.
//
// Raises TypeError: not an array, another dtype, not on the CPU. ValueError: not contiguous, too many dimensions.
Array read_any(nb::handle object, const char* name);

// The same, of this dtype.
inline Array read_array(nb::handle object, const char* name, Dtype dtype) {
    const Array array = read_any(object, name);
    if (array.dtype != dtype) {
        refuse_type(name, std::string("must be ") + dtype_name(dtype) + ", but it is " + dtype_name(array.dtype) + ".");
    }
    return array;
}

inline Array read_floats(nb::handle object, const char* name) { return read_array(object, name, Dtype::float32); }

// Raises ValueError unless the array has exactly this shape; -1 stands for any length.
template <class... Sizes>
void expect_shape(const Array& array, const char* name, Sizes... sizes) {
    const int64_t wanted[] = {static_cast<int64_t>(sizes)...};
    constexpr int dims = sizeof...(sizes);
    bool same = array.dims == dims;
    for (int i = 0; same && i < dims; i++) same = wanted[i] < 0 || wanted[i] == array.shape[i];
    if (same) return;
    std::string text = "[";
    for (int i = 0; i < dims; i++) text += (i > 0 ? ", " : "") + (wanted[i] < 0 ? "any" : std::to_string(wanted[i]));
    refuse_value(name, "must have the shape " + text + "], but it has " + array.shape_text() + ".");
}

inline void expect_size(const Array& array, const char* name, int64_t size) {
    if (array.size == size) return;
    const std::string wanted = std::to_string(size), found = std::to_string(array.size);
    refuse_value(name, "must hold " + wanted + " numbers, but it holds " + found + ".");
}

}  // namespace steady
