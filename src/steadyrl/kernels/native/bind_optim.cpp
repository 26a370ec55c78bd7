// Optimiser steps on flat buffers: the norm first, and nothing is touched where it is not finite.
//
// The norm is summed in blocks of fixed size, the blocks in order, so its bits do not depend on the threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "arrays.h"
#include "isa.h"
#include "pool.h"

namespace steady {

namespace {

constexpr int64_t GRAIN = 64;
constexpr double OPERATIONS_A_NUMBER = 24;  // what a step costs, in operations that could be done instead

int threads_for_sweep(int64_t count) { return threads_for(OPERATIONS_A_NUMBER * static_cast<double>(count)); }

std::vector<double>& partial_sums(int64_t count) {
    static std::vector<double> sums;
    sums.resize((count + NORM_BLOCK - 1) / NORM_BLOCK);
    return sums;
}

void sum_blocks(Region& region, const float* x, int64_t count, std::vector<double>& sums) {
    region.chunks(count, NORM_BLOCK, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i += NORM_BLOCK) {
            sums[i / NORM_BLOCK] = isa().ops->sum_of_squares(x + i, std::min(NORM_BLOCK, last - i));
        }
    });
}

float norm_of(const std::vector<double>& sums) {
    double total = 0;
    for (double each : sums) total += each;
    return static_cast<float>(std::sqrt(total));
}

// The factor of clip_grad_norm.
float clip_scale(float norm, double max_grad_norm) {
    if (max_grad_norm <= 0) return 1.f;
    const float scale = static_cast<float>(max_grad_norm) / (norm + 1e-6f);
    return scale < 1.f ? scale : 1.f;
}

// Runs step(scale, first, last) over all numbers unless the norm of the gradient is not finite; returns the norm.
template <class Step>
float clipped_step(const float* grad, int64_t count, double max_grad_norm, Step&& step) {
    std::vector<double>& sums = partial_sums(count);
    Pool::get().run(threads_for_sweep(count), [&](Region& region) {
        sum_blocks(region, grad, count, sums);
        const float norm = norm_of(sums);
        if (!std::isfinite(norm)) return;
        const float scale = clip_scale(norm, max_grad_norm);
        region.chunks(count, GRAIN, [&](int64_t first, int64_t last) { step(scale, first, last); });
    });
    return norm_of(sums);
}

float* read_flat(nb::handle object, const char* name, int64_t size) {
    const Array array = read_floats(object, name);
    expect_shape(array, name, size);
    return array.floats();
}

// With `moments`, a pair of arrays, the new moments are written there and the old ones stay as they are, and so do the
// old parameters, in the place of the gradient.
float adam(nb::handle params, nb::handle grad, nb::handle mean, nb::handle square, int64_t step, double lr,
           double max_grad_norm, double beta1, double beta2, double eps, nb::handle moments) {
    if (step < 1) refuse_value("step", "must be at least 1, the number of this step.");
    const Array flat = read_floats(params, "params");
    expect_shape(flat, "params", -1);
    const double correction1 = 1 - std::pow(beta1, static_cast<double>(step));
    const double correction2 = 1 - std::pow(beta2, static_cast<double>(step));
    AdamStep a{};
    a.params = flat.floats();
    a.grad = read_flat(grad, "grad", flat.size);
    a.mean = a.new_mean = read_flat(mean, "mean", flat.size);
    a.square = a.new_square = read_flat(square, "square", flat.size);
    if (!moments.is_none()) {
        if (!nb::isinstance<nb::tuple>(moments)) refuse_type("moments", "must be a tuple.");
        const nb::tuple pair = nb::borrow<nb::tuple>(moments);
        if (pair.size() != 2) refuse_value("moments", "must be two arrays.");
        a.new_mean = read_flat(pair[0], "moments[0]", flat.size);
        a.new_square = read_flat(pair[1], "moments[1]", flat.size);
        a.params_before = a.grad;
    }
    a.one_minus_beta1 = static_cast<float>(1 - beta1);
    a.beta2 = static_cast<float>(beta2);
    a.one_minus_beta2 = static_cast<float>(1 - beta2);
    a.inverse_root_correction2 = static_cast<float>(1 / std::sqrt(correction2));
    a.eps = static_cast<float>(eps);
    a.minus_step = static_cast<float>(-lr / correction1);
    return clipped_step(a.grad, flat.size, max_grad_norm, [a](float scale, int64_t first, int64_t last) {
        AdamStep scaled = a;
        scaled.grad_scale = scale;
        isa().ops->adam(scaled, first, last);
    });
}

float rmsprop(nb::handle params, nb::handle grad, nb::handle square, double lr, double max_grad_norm, double alpha,
              double eps) {
    const Array flat = read_floats(params, "params");
    expect_shape(flat, "params", -1);
    RmspropStep r{};
    r.params = flat.floats();
    r.grad = read_flat(grad, "grad", flat.size);
    r.square = read_flat(square, "square", flat.size);
    r.alpha = static_cast<float>(alpha);
    r.one_minus_alpha = static_cast<float>(1 - alpha);
    r.eps = static_cast<float>(eps);
    r.minus_lr = static_cast<float>(-lr);
    return clipped_step(r.grad, flat.size, max_grad_norm, [r](float scale, int64_t first, int64_t last) {
        RmspropStep scaled = r;
        scaled.grad_scale = scale;
        isa().ops->rmsprop(scaled, first, last);
    });
}

void polyak(nb::handle target, nb::handle online, double tau) {
    const Array to = read_floats(target, "target");
    const Array from = read_floats(online, "online");
    expect_size(from, "online", to.size);
    if (tau == 1.0) {
        if (to.size > 0) std::memcpy(to.data, from.data, to.size * sizeof(float));
        return;
    }
    Pool::get().run(threads_for(8.0 * static_cast<double>(to.size)), [&](Region& region) {
        region.chunks(to.size, GRAIN, [&](int64_t first, int64_t last) {
            isa().ops->lerp(to.floats(), from.floats(), static_cast<float>(tau), first, last);
        });
    });
}

}  // namespace

void bind_optim(nb::module_& module) {
    module.def("adam", adam, nb::arg("params"), nb::arg("grad"), nb::arg("mean"), nb::arg("square"), nb::arg("step"),
               nb::arg("lr"), nb::arg("max_grad_norm"), nb::arg("beta1"), nb::arg("beta2"), nb::arg("eps"),
               nb::arg("moments").none() = nb::none());
    module.def("rmsprop", rmsprop, nb::arg("params"), nb::arg("grad"), nb::arg("square"), nb::arg("lr"),
               nb::arg("max_grad_norm"), nb::arg("alpha"), nb::arg("eps"));
    module.def("polyak", polyak, nb::arg("target"), nb::arg("online"), nb::arg("tau"));
}

}  // namespace steady
