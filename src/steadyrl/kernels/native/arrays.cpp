// The three ways of arrays.h to an object's memory.
#include "arrays.h"

namespace steady {

namespace {

bool exchange_forbidden = false;

[[noreturn]] void refuse_dtype(const char* name, const std::string& dtype) {
    refuse_type(name, "must be float32, int64, uint8 or bool, but it is " + dtype + ".");
}

[[noreturn]] void refuse_object(nb::handle object, const char* name) {
    refuse_type(name, std::string("must be a tensor, but it is ") + Py_TYPE(object.ptr())->tp_name + ".");
}

void set_shape(Array& array, int dims, const int64_t* shape, const char* name) {
    if (dims > Array::MAX_DIMS) refuse_value(name, "has too many dimensions: " + std::to_string(dims) + ".");
    array.dims = dims;
    for (int i = 0; i < dims; i++) {
        array.shape[i] = shape[i];
        array.size *= shape[i];
    }
}

// Strides in elements; null means contiguous.
void expect_contiguous(const Array& array, const int64_t* strides, int64_t unit, const char* name) {
    if (strides == nullptr || array.size == 0) return;
    int64_t expected = unit;
    for (int i = array.dims - 1; i >= 0; i--) {
        if (array.shape[i] != 1 && strides[i] != expected) refuse_value(name, "must be contiguous.");
        expected *= array.shape[i];
    }
}

Dtype dtype_of(dlpack::DataType type, const char* name) {
    if (type.lanes == 1) {
        if (type.code == dlpack::FLOAT && type.bits == 32) return Dtype::float32;
        if (type.code == dlpack::INT && type.bits == 64) return Dtype::int64;
        if (type.code == dlpack::UINT && type.bits == 8) return Dtype::uint8;
        if (type.code == dlpack::BOOL && type.bits == 8) return Dtype::boolean;
    }
    const char* kind = type.code == dlpack::FLOAT  ? "float"
                       : type.code == dlpack::INT  ? "int"
                       : type.code == dlpack::UINT ? "uint"
                                                   : "another kind of ";
    refuse_dtype(name, kind + std::to_string(type.bits));
}

// False where the API has no words for this tensor (sparse, no memory): the slow way says what is wrong.
bool exchange(const dlpack::ExchangeApi& api, nb::handle object, dlpack::Tensor& tensor) {
    if (api.tensor_from_object(object.ptr(), &tensor) == 0) return true;
    PyErr_Clear();
    return false;
}

Array read_exchanged(const dlpack::Tensor& tensor, const char* name) {
    if (tensor.device.type != dlpack::CPU) refuse_type(name, "must be on the CPU.");
    Array array;
    array.dtype = dtype_of(tensor.dtype, name);
    set_shape(array, tensor.dims, tensor.shape, name);
    expect_contiguous(array, tensor.strides, 1, name);
    array.data = static_cast<char*>(tensor.data) + (tensor.data != nullptr ? tensor.byte_offset : 0);
    return array;
}

// Buffer format characters: native sizes, so long and long long are told apart by the item size.
Dtype dtype_of_format(const char* format, Py_ssize_t bytes, const char* name) {
    const bool native_order = format != nullptr && (format[0] == '@' || format[0] == '=' || format[0] == '<');
    const char kind = format == nullptr ? 'B' : format[native_order ? 1 : 0];
    if (kind == 'f' && bytes == 4) return Dtype::float32;
    if ((kind == 'l' || kind == 'q') && bytes == 8) return Dtype::int64;
    if (kind == 'B' && bytes == 1) return Dtype::uint8;
    if (kind == '?' && bytes == 1) return Dtype::boolean;
    refuse_dtype(name, std::string("of the buffer format '") + (format == nullptr ? "B" : format) + "'");
}

Array read_buffer(nb::handle object, const char* name) {
    Py_buffer view;
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw nb::python_error();
    // The memory belongs to the object, which the caller holds during the call, so the view need not stay open.
    struct Closing {
        Py_buffer& view;
        ~Closing() { PyBuffer_Release(&view); }
    } const closing{view};
    Array array;
    array.dtype = dtype_of_format(view.format, view.itemsize, name);
    int64_t shape[Array::MAX_DIMS + 1] = {}, strides[Array::MAX_DIMS + 1] = {};
    for (int i = 0; i < view.ndim && i <= Array::MAX_DIMS; i++) {
        shape[i] = view.shape[i];
        strides[i] = view.strides[i];
    }
    set_shape(array, view.ndim, shape, name);
    expect_contiguous(array, strides, view.itemsize, name);
    array.data = view.buf;
    return array;
}

std::string text_of(const nb::object& object) { return nb::str(object).c_str(); }

Array read_attributes(nb::handle object, const char* name) {
    if (!nb::hasattr(object, "data_ptr") || !nb::hasattr(object, "is_contiguous")) refuse_object(object, name);
    if (text_of(object.attr("device").attr("type")) != "cpu") {
        refuse_type(name, "must be on the CPU.");
    }
    const std::string dtype = text_of(object.attr("dtype"));
    Array array;
    if (dtype == "torch.float32") {
        array.dtype = Dtype::float32;
    } else if (dtype == "torch.int64") {
        array.dtype = Dtype::int64;
    } else if (dtype == "torch.uint8") {
        array.dtype = Dtype::uint8;
    } else if (dtype == "torch.bool") {
        array.dtype = Dtype::boolean;
    } else {
        refuse_dtype(name, dtype);
    }
    if (text_of(object.attr("layout")) != "torch.strided") refuse_type(name, "must be dense.");
    if (!nb::cast<bool>(object.attr("is_contiguous")())) refuse_value(name, "must be contiguous.");
    const nb::object sizes = object.attr("shape");
    int64_t shape[Array::MAX_DIMS + 1] = {};
    const int dims = static_cast<int>(nb::len(sizes));
    for (int i = 0; i < dims && i <= Array::MAX_DIMS; i++) shape[i] = nb::cast<int64_t>(sizes[i]);
    set_shape(array, dims, shape, name);
    array.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(object.attr("data_ptr")()));
    return array;
}

}  // namespace

namespace dlpack {

namespace {

const ExchangeApi* look_up(PyTypeObject* type) {
    const nb::object capsule =
        nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__"));
    if (!capsule.is_valid()) PyErr_Clear();
    if (!capsule.is_valid() || !PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
    const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (api != nullptr && api->header.major != 1) api = reinterpret_cast<const ExchangeApi*>(api->header.previous);
    return api != nullptr && api->tensor_from_object != nullptr ? api : nullptr;
}

}  // namespace

const ExchangeApi* exchange_api(nb::handle object) {
    static struct {
        PyTypeObject* type;
        const ExchangeApi* api;
    } known[4] = {};
    static int next = 0;
    PyTypeObject* type = Py_TYPE(object.ptr());
    for (const auto& entry : known) {
        if (entry.type == type) return entry.api;
    }
    const ExchangeApi* api = look_up(type);
    // What is remembered is kept alive, so that its address is never another type's later.
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    Py_XDECREF(reinterpret_cast<PyObject*>(known[next].type));
    known[next] = {type, api};
    next = (next + 1) % 4;
    return api;
}

}  // namespace dlpack

void forbid_exchange_api(bool forbid) { exchange_forbidden = forbid; }

Array read_any(nb::handle object, const char* name) {
    if (!exchange_forbidden) {
        dlpack::Tensor tensor;
        const dlpack::ExchangeApi* api = dlpack::exchange_api(object);
        if (api != nullptr && exchange(*api, object, tensor)) return read_exchanged(tensor, name);
    }
    if (PyObject_CheckBuffer(object.ptr())) return read_buffer(object, name);
    return read_attributes(object, name);
}

}  // namespace steady
