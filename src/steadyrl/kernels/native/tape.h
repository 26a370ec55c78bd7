// Instructions of the register machine that runs traced losses.
//
// A program is a list of loops over float32 arrays. An operand is a base (constants, arena, an input or an output), an
// offset and a stride for each loop, all in elements, so that views, broadcasts and transpositions cost nothing.
// Plain structs only: this header is seen by objects compiled for different instruction sets.
#pragma once
#include <cstdint>

namespace steady {

// Elementwise: size[0..3] are nested loops.
#define STEADY_TAPE_ELEMENTWISE(X)                                                                                  \
    X(copy, 1) X(neg, 1) X(exp, 1) X(expm1, 1) X(log, 1) X(log1p, 1) X(tanh, 1) X(abs, 1) X(sqrt, 1) X(sign, 1)     \
    X(sigmoid, 1) X(softplus, 1) X(trunc, 1) X(floor, 1)                                                            \
    X(add, 2) X(sub, 2) X(mul, 2) X(div, 2) X(max, 2) X(min, 2) X(gt, 2) X(ge, 2) X(lt, 2) X(le, 2) X(eq, 2)        \
    X(ne, 2) X(logical_and, 2) X(logical_or, 2) X(where, 3) X(clamp, 3)

// Reductions: `size` are the loops that are kept, `along` those that go; a sum is divided by `value`. A running sum
// goes along[2] and keeps it; argmax and argmin know that loop only. gather and scatter_add: in[1] holds indices below
// along[2], by which in[0], or `out`, is addressed. The last two store in another type, whose elements strides of `out`
// count.
#define STEADY_TAPE_OTHERS(X)                                                                                       \
    X(sum, 1) X(sum_product, 2) X(amax, 1) X(amin, 1) X(argmax, 1) X(argmin, 1) X(cumsum, 1) X(gather, 2)           \
    X(scatter_add, 2) X(to_int64, 1) X(to_bool, 1)

enum class TapeOp : int32_t {
#define STEADY_NAME(name, arguments) name,
    STEADY_TAPE_ELEMENTWISE(STEADY_NAME) STEADY_TAPE_OTHERS(STEADY_NAME)
#undef STEADY_NAME
        count_
};

constexpr int TAPE_LOOPS = 4, TAPE_ALONG = 3, TAPE_ARGUMENTS = 3;

struct TapeOperand {
    int64_t base, offset;
    int64_t stride[TAPE_LOOPS];
    int64_t along[TAPE_ALONG];
};

struct TapeInstruction {
    TapeOp op;
    float value;
    int64_t size[TAPE_LOOPS];
    int64_t along[TAPE_ALONG];
    TapeOperand out, in[TAPE_ARGUMENTS];
};

enum class TapeResult : int { good, bad_index, inexact };

struct TapeOps {
    // Runs the instructions in order; `bases` holds the address of every base. Stops at an index out of range, and at
    // an integer result that float32 cannot hold exactly.
    TapeResult (*run)(const TapeInstruction* instructions, int64_t count, float* const* bases);
};

}  // namespace steady
