// Programs of the register machine as Python objects: they know the arguments they were made for, take tensors of any
// stride straight from the caller's structure of tuples and dicts, and run in a few microseconds.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "arrays.h"
#include "isa.h"
#include "pool.h"

namespace steady {

namespace {

constexpr int MAX_DIMS = Array::MAX_DIMS;
constexpr int64_t CONSTANTS = 0, ARENA = 1, FIRST_INPUT = 2;

// A tensor of any strides, in elements.
struct Strided {
    const void* data;
    Dtype dtype;
    int dims;
    int64_t shape[MAX_DIMS], stride[MAX_DIMS];
};

std::string text(nb::handle object) { return nb::str(object).c_str(); }

bool dtype_of(dlpack::DataType type, Dtype& dtype) {
    if (type.lanes != 1) return false;
    if (type.code == dlpack::FLOAT && type.bits == 32) dtype = Dtype::float32;
    else if (type.code == dlpack::INT && type.bits == 64) dtype = Dtype::int64;
    else if (type.code == dlpack::UINT && type.bits == 8) dtype = Dtype::uint8;
    else if (type.code == dlpack::BOOL && type.bits == 8) dtype = Dtype::boolean;
    else return false;
    return true;
}

// False where it is not a tensor that programs know: another device, dtype, layout.
bool read_exchanged(const dlpack::ExchangeApi& api, nb::handle object, Strided& out) {
    dlpack::Tensor tensor;
    if (api.tensor_from_object(object.ptr(), &tensor) != 0) {
        PyErr_Clear();
        return false;
    }
    if (tensor.device.type != dlpack::CPU || tensor.dims > MAX_DIMS || !dtype_of(tensor.dtype, out.dtype)) return false;
    out.data = static_cast<char*>(tensor.data) + (tensor.data != nullptr ? tensor.byte_offset : 0);
    out.dims = tensor.dims;
    int64_t contiguous = 1;
    for (int i = tensor.dims - 1; i >= 0; i--) {
        out.shape[i] = tensor.shape[i];
        out.stride[i] = tensor.strides != nullptr ? tensor.strides[i] : contiguous;
        contiguous *= tensor.shape[i];
    }
    return true;
}

bool read_attributes(nb::handle object, Strided& out) {
    if (text(object.attr("device").attr("type")) != "cpu") return false;
    if (text(object.attr("layout")) != "torch.strided") return false;
    const std::string dtype = text(object.attr("dtype"));
    if (dtype == "torch.float32") out.dtype = Dtype::float32;
    else if (dtype == "torch.int64") out.dtype = Dtype::int64;
    else if (dtype == "torch.uint8") out.dtype = Dtype::uint8;
    else if (dtype == "torch.bool") out.dtype = Dtype::boolean;
    else return false;
    const nb::object shape = object.attr("shape"), stride = object.attr("stride")();
    out.dims = static_cast<int>(nb::len(shape));
    if (out.dims > MAX_DIMS) return false;
    for (int i = 0; i < out.dims; i++) {
        out.shape[i] = nb::cast<int64_t>(shape[i]);
        out.stride[i] = nb::cast<int64_t>(stride[i]);
    }
    out.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(object.attr("data_ptr")()));
    return true;
}

bool read_strided(nb::handle object, Strided& out) {
    const dlpack::ExchangeApi* api = dlpack::exchange_api(object);
    return (api != nullptr && read_exchanged(*api, object, out)) || read_attributes(object, out);
}

// One step of walking the arguments in order.
struct Token {
    enum class Kind { sequence, mapping, tensor, number, fixed } kind;
    nb::object object;  // the type of a sequence, the keys of a mapping, a fixed object
    Py_ssize_t count = 0;
    int dims = 0;
    int64_t shape[MAX_DIMS] = {};
    Dtype dtype = Dtype::float32;
};

Token make_token(nb::tuple description) {
    const std::string kind = text(description[0]);
    Token token{};
    if (kind == "sequence") {
        token.kind = Token::Kind::sequence;
        token.object = description[1];
        token.count = nb::cast<Py_ssize_t>(description[2]);
    } else if (kind == "mapping") {
        token.kind = Token::Kind::mapping;
        token.object = description[1];
        token.count = nb::len(token.object);
    } else if (kind == "tensor") {
        token.kind = Token::Kind::tensor;
        token.dtype = static_cast<Dtype>(nb::cast<int>(description[1]));
        const nb::tuple shape = nb::borrow<nb::tuple>(description[2]);
        token.dims = static_cast<int>(nb::len(shape));
        for (int i = 0; i < token.dims; i++) token.shape[i] = nb::cast<int64_t>(shape[i]);
    } else if (kind == "number") {
        token.kind = Token::Kind::number;
    } else {
        token.kind = Token::Kind::fixed;
        token.object = description[1];
    }
    return token;
}

bool same_object(PyObject* known, PyObject* given) {
    if (known == given) return true;
    if (Py_TYPE(known) != Py_TYPE(given)) return false;
    const int equal = PyObject_RichCompareBool(known, given, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
}

// How an input reaches the machine: in place where its memory already lies as wanted, else copied to the arena.
struct Input {
    bool used = false;
    int64_t arena_offset = 0;
    int64_t stride[MAX_DIMS] = {};  // as the program wants it
};

enum class Fault { none, mismatch, inexact };

template <class T>
Fault copy_values(const Strided& from, const Input& input, float* to) {
    // The loop whose elements lie together in the arena goes innermost.
    int order[MAX_DIMS], dims = 0;
    for (int d = 0; d < from.dims; d++) {
        if (from.shape[d] == 1) continue;
        int at = dims++;
        for (; at > 0 && input.stride[order[at - 1]] < input.stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    const T* base = static_cast<const T*>(from.data);
    int64_t at[MAX_DIMS] = {}, source = 0, target = 0;
    const int inner = dims > 0 ? order[dims - 1] : -1;
    const int64_t count = inner >= 0 ? from.shape[inner] : 1;
    const int64_t source_step = inner >= 0 ? from.stride[inner] : 0, target_step = inner >= 0 ? input.stride[inner] : 0;
    for (;;) {
        for (int64_t i = 0; i < count; i++) {
            const T x = base[source + i * source_step];
            if constexpr (sizeof(T) == 8) {
                if (x <= -16777216 || x >= 16777216) return Fault::inexact;
            }
            to[target + i * target_step] = static_cast<float>(x);
        }
        int d = dims - 2;
        for (; d >= 0; d--) {
            const int dim = order[d];
            source += from.stride[dim];
            target += input.stride[dim];
            if (++at[dim] < from.shape[dim]) break;
            source -= from.stride[dim] * from.shape[dim];
            target -= input.stride[dim] * from.shape[dim];
            at[dim] = 0;
        }
        if (d < 0) return Fault::none;
    }
}

bool lies_as_wanted(const Strided& tensor, const Input& input) {
    if (tensor.dtype != Dtype::float32) return false;
    for (int d = 0; d < tensor.dims; d++) {
        if (tensor.shape[d] != 1 && tensor.stride[d] != input.stride[d]) return false;
    }
    return true;
}

// Values between instructions; shared, since one program runs at a time (kernels hold the GIL).
FloatBuffer& arena() {
    static FloatBuffer* buffer = new FloatBuffer;
    return *buffer;
}

class Tape {
public:
    // tokens: of the arguments. inputs: for each tensor or number among them None (unused) or (arena offset, strides).
    // code: rows of 64-bit integers, as `decode` reads them. kept: outputs whose memory stays the same between calls.
    Tape(nb::list tokens, nb::list inputs, nb::bytes constants, nb::bytes code, int64_t arena_size, int64_t outputs,
         nb::list kept, nb::handle tensor_type)
        : arena_size_(arena_size), tensor_type_(nb::borrow(tensor_type)), kept_(kept) {
        for (nb::handle token : tokens) tokens_.push_back(make_token(nb::borrow<nb::tuple>(token)));
        for (nb::handle input : inputs) inputs_.push_back(make_input(input));
        constants_.resize(constants.size() / sizeof(float) + 1);
        std::memcpy(constants_.data(), constants.c_str(), constants.size());
        bases_.assign(FIRST_INPUT + inputs_.size() + outputs, nullptr);
        bases_[CONSTANTS] = constants_.data();
        first_kept_ = FIRST_INPUT + inputs_.size() + outputs - nb::len(kept);
        for (size_t k = 0; k < nb::len(kept); k++) {
            bases_[first_kept_ + k] = static_cast<float*>(read_any(kept[k], "kept").data);
        }
        decode(constants_from(code));
    }

    // Runs on `arguments`, into `outputs`; false where the arguments are not those that this program was made for.
    bool run(nb::handle arguments, nb::tuple outputs) {
        bases_[ARENA] = arena().reserve(arena_size_ + 16);
        Walk walk{0, 0};
        const Fault fault = take(arguments.ptr(), walk);
        if (fault == Fault::mismatch) return false;
        if (fault == Fault::inexact) throw nb::value_error("an integer of 2^24 or more in a traced function.");
        const size_t fresh = nb::len(outputs), first = FIRST_INPUT + inputs_.size();
        if (first + fresh != first_kept_) throw nb::value_error("the number of outputs is not the program's.");
        for (size_t k = 0; k < fresh; k++) bases_[first + k] = static_cast<float*>(read_any(outputs[k], "output").data);
        switch (isa().tape->run(code_.data(), static_cast<int64_t>(code_.size()), bases_.data())) {
            case TapeResult::good: return true;
            case TapeResult::bad_index: throw nb::index_error("index out of range in a traced function.");
            default: throw nb::value_error("an integer result of 2^24 or more, or NaN, in a traced function.");
        }
    }

    size_t instructions() const { return code_.size(); }

private:
    struct Walk {
        size_t token, input;
    };

    static std::vector<int64_t> constants_from(const nb::bytes& code) {
        std::vector<int64_t> words(code.size() / sizeof(int64_t));
        std::memcpy(words.data(), code.c_str(), words.size() * sizeof(int64_t));
        return words;
    }

    static Input make_input(nb::handle description) {
        Input input;
        if (description.is_none()) return input;
        const nb::tuple pair = nb::borrow<nb::tuple>(description);
        input.used = true;
        input.arena_offset = nb::cast<int64_t>(pair[0]);
        const nb::tuple strides = nb::borrow<nb::tuple>(pair[1]);
        for (size_t d = 0; d < nb::len(strides); d++) input.stride[d] = nb::cast<int64_t>(strides[d]);
        return input;
    }

    // A row: operation, bits of the double `value`, sizes, along, then of each operand base, offset, strides, along.
    void decode(const std::vector<int64_t>& words) {
        constexpr size_t operand = 2 + TAPE_LOOPS + TAPE_ALONG;
        constexpr size_t row = 2 + TAPE_LOOPS + TAPE_ALONG + (1 + TAPE_ARGUMENTS) * operand;
        for (size_t first = 0; first + row <= words.size(); first += row) {
            const int64_t* word = words.data() + first;
            TapeInstruction t{};
            t.op = static_cast<TapeOp>(*word++);
            double value;
            std::memcpy(&value, word++, sizeof(value));
            t.value = static_cast<float>(value);
            for (int64_t& size : t.size) size = *word++;
            for (int64_t& size : t.along) size = *word++;
            for (TapeOperand* each : {&t.out, &t.in[0], &t.in[1], &t.in[2]}) {
                each->base = *word++;
                each->offset = *word++;
                for (int64_t& stride : each->stride) stride = *word++;
                for (int64_t& stride : each->along) stride = *word++;
            }
            code_.push_back(t);
        }
    }

    Fault take(PyObject* object, Walk& walk) {
        const Token& token = tokens_[walk.token++];
        switch (token.kind) {
            case Token::Kind::tensor: return take_tensor(object, token, walk);
            case Token::Kind::sequence: return take_sequence(object, token, walk);
            case Token::Kind::mapping: return take_mapping(object, token, walk);
            case Token::Kind::number: {
                if (!PyFloat_Check(object)) return Fault::mismatch;
                const size_t k = walk.input++;
                bases_[FIRST_INPUT + k] = bases_[ARENA] + inputs_[k].arena_offset;
                if (inputs_[k].used) *bases_[FIRST_INPUT + k] = static_cast<float>(PyFloat_AS_DOUBLE(object));
                return Fault::none;
            }
            default: return same_object(token.object.ptr(), object) ? Fault::none : Fault::mismatch;
        }
    }

    Fault take_sequence(PyObject* object, const Token& token, Walk& walk) {
        if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != token.object.ptr()) return Fault::mismatch;
        const bool tuple = PyTuple_Check(object);
        if ((tuple ? PyTuple_GET_SIZE(object) : PyList_GET_SIZE(object)) != token.count) return Fault::mismatch;
        for (Py_ssize_t i = 0; i < token.count; i++) {
            const Fault fault = take(tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i), walk);
            if (fault != Fault::none) return fault;
        }
        return Fault::none;
    }

    Fault take_mapping(PyObject* object, const Token& token, Walk& walk) {
        if (!PyDict_CheckExact(object) || PyDict_GET_SIZE(object) != token.count) return Fault::mismatch;
        Py_ssize_t at = 0, i = 0;
        PyObject *key, *value;
        while (PyDict_Next(object, &at, &key, &value)) {
            if (!same_object(PyTuple_GET_ITEM(token.object.ptr(), i++), key)) return Fault::mismatch;
            const Fault fault = take(value, walk);
            if (fault != Fault::none) return fault;
        }
        return Fault::none;
    }

    Fault take_tensor(PyObject* object, const Token& token, Walk& walk) {
        if (!PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(tensor_type_.ptr()))) return Fault::mismatch;
        Strided tensor;
        if (!read_strided(object, tensor)) return Fault::mismatch;
        if (tensor.dtype != token.dtype || tensor.dims != token.dims) return Fault::mismatch;
        for (int d = 0; d < tensor.dims; d++) {
            if (tensor.shape[d] != token.shape[d]) return Fault::mismatch;
        }
        const size_t k = walk.input++;
        const Input& input = inputs_[k];
        if (!input.used) return Fault::none;
        float* const slot = bases_[ARENA] + input.arena_offset;
        if (lies_as_wanted(tensor, input)) {
            bases_[FIRST_INPUT + k] = static_cast<float*>(const_cast<void*>(tensor.data));
            return Fault::none;
        }
        bases_[FIRST_INPUT + k] = slot;
        switch (tensor.dtype) {
            case Dtype::float32: return copy_values<float>(tensor, input, slot);
            case Dtype::int64: return copy_values<int64_t>(tensor, input, slot);
            default: return copy_values<uint8_t>(tensor, input, slot);
        }
    }

    std::vector<Token> tokens_;
    std::vector<Input> inputs_;
    std::vector<float> constants_;
    std::vector<TapeInstruction> code_;
    std::vector<float*> bases_;
    int64_t arena_size_;
    size_t first_kept_ = 0;
    nb::object tensor_type_;
    nb::list kept_;  // keeps the memory behind the last bases alive
};

}  // namespace

void bind_tape(nb::module_& module) {
    module.def("tape_operations", [] {
        nb::dict arguments;
#define STEADY_ENTRY(name, count) arguments[#name] = count;
        STEADY_TAPE_ELEMENTWISE(STEADY_ENTRY) STEADY_TAPE_OTHERS(STEADY_ENTRY)
#undef STEADY_ENTRY
        return arguments;
    });
    nb::class_<Tape>(module, "Tape")
        .def(nb::init<nb::list, nb::list, nb::bytes, nb::bytes, int64_t, int64_t, nb::list, nb::handle>(),
             nb::arg("tokens"), nb::arg("inputs"), nb::arg("constants"), nb::arg("code"), nb::arg("arena_size"),
             nb::arg("outputs"), nb::arg("kept"), nb::arg("tensor_type"))
        .def("run", &Tape::run, nb::arg("arguments"), nb::arg("outputs"))
        .def_prop_ro("instructions", &Tape::instructions);
}

}  // namespace steady
