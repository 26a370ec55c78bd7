// The table of kernels that exists once for each instruction set, and which of them this process uses.
//
// Plain structs and function pointers only: this header is seen by objects compiled for different instruction sets.
#pragma once
#include <cstdint>

#include "tape.h"

namespace steady {

enum class Activation : int { none, tanh, relu, elu, silu };

// C[rows, columns] = activation(A[rows, inner] W^T + bias), with W [columns, inner].
struct ForwardLayer {
    int64_t rows, inner, columns;
    const float* a;
    int64_t a_stride;
    const float* weight;
    const float* bias;
    Activation activation;
    float* c;
    int64_t c_stride;
    float* before;  // what the activation was applied to, laid out as c; only where its derivative needs it, else null
};

// C[rows, columns] (+)= (D[rows, inner] W[inner, first column...]) * activation'(H).
struct InputGradient {
    int64_t rows, inner, columns;
    const float* d;
    int64_t d_stride;
    const float* weight;
    int64_t weight_stride;
    bool accumulate;
    Activation activation;
    const float* h;  // output of the activation, or what went into it (SiLU); strides as c
    float* c;
    int64_t c_stride;
};

// Normalises rows [rows, width] in place, then out = activation(gain * row + bias); all rows `stride` apart.
struct NormLayer {
    int64_t rows, width, stride;
    float* x;
    const float* gain;
    const float* bias;
    Activation activation;
    float* out;
    float* before;  // as in ForwardLayer
    float* scales;  // [rows], what the distances from the mean were multiplied by
};

// From the gradient of gain * row + bias to that of what was normalised; all rows `stride` apart.
struct NormGradient {
    int64_t rows, width, stride;
    const float* outer;
    const float* normalised;
    const float* gain;
    const float* scales;
    float* inner;
};

// One tile G[first_row..., first_column...] = D^T X over the whole batch, in one fixed order of summation.
struct WeightTile {
    int64_t batch, rows, columns;
    const float* d;
    int64_t d_stride;
    const float* x;
    int64_t x_stride;
    float* gradient;
    int64_t gradient_stride;
};

struct AdamStep {
    float *params, *grad;
    const float *mean, *square;
    float *new_mean, *new_square;  // may be the old ones
    float* params_before;          // may be the gradient; null: what was there is not kept
    float grad_scale, one_minus_beta1, beta2, one_minus_beta2, inverse_root_correction2, eps, minus_step;
};

struct RmspropStep {
    float *params, *grad, *square;
    float grad_scale, alpha, one_minus_alpha, eps, minus_lr;
};

constexpr int64_t NORM_BLOCK = 2048;

struct Ops {
    int64_t panel;     // columns of a weight tile
    int64_t tile_rows;  // most rows of a weight tile
    void (*forward_layer)(const ForwardLayer&, float* scratch);
    void (*input_gradient)(const InputGradient&, float* scratch);
    void (*weight_tile)(const WeightTile&);
    void (*column_sums)(const float* d, int64_t stride, int64_t rows, int64_t columns, float* sums);
    void (*norm_layer)(const NormLayer&);
    void (*norm_gradient)(const NormGradient&);
    void (*column_products)(
        const float* a, const float* b, int64_t stride, int64_t rows, int64_t columns, float* sums);
    void (*tanh_gradient)(const float* grad, const float* out, float* result, int64_t count);
    double (*sum_of_squares)(const float* x, int64_t count);  // of at most NORM_BLOCK numbers
    void (*adam)(const AdamStep&, int64_t first, int64_t last);
    void (*rmsprop)(const RmspropStep&, int64_t first, int64_t last);
    void (*lerp)(float* target, const float* online, float weight, int64_t first, int64_t last);
};

struct Isa {
    const char* name;
    const Ops* ops;
    const TapeOps* tape;
};

// Chosen once: the best this CPU has, or the one that the environment variable STEADYRL_ISA names.
const Isa& isa();

}  // namespace steady
