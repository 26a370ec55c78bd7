// What happens between two steps of the environments: running statistics in float64, normalised rows, actions mapped
// to the environment's bounds. All of it on NumPy arrays.
//
// Compiled without contraction, and summed as NumPy sums, so both paths give the same bits.
#include <nanobind/nanobind.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "arrays.h"

namespace steady {

namespace {

// A contiguous NumPy array of float64. Raises TypeError: something else. ValueError: not contiguous, or read-only.
struct Doubles {
    double* data = nullptr;
    int dims = 0;
    int64_t size = 0;
};

Doubles read_doubles(nb::handle object, const char* name, bool writable) {
    Py_buffer view;
    if (!PyObject_CheckBuffer(object.ptr())) refuse_type(name, "must be a NumPy array.");
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw nb::python_error();
    // As in arrays.cpp, the caller keeps the memory alive during the call.
    struct Closing {
        Py_buffer& view;
        ~Closing() { PyBuffer_Release(&view); }
    } const closing{view};
    const std::string format = view.format == nullptr ? "B" : view.format;
    if (format != "d" && format != "<d" && format != "=d") {
        refuse_type(name, "must be float64, but it is of the buffer format '" + format + "'.");
    }
    if (!PyBuffer_IsContiguous(&view, 'C')) refuse_value(name, "must be contiguous.");
    if (writable && view.readonly) refuse_value(name, "must be writable.");
    return {static_cast<double*>(view.buf), view.ndim, view.len / static_cast<Py_ssize_t>(sizeof(double))};
}

double* read_doubles(nb::handle object, const char* name, int64_t size, bool writable) {
    const Doubles found = read_doubles(object, name, writable);
    if (found.size != size) {
        const std::string wanted = std::to_string(size), there = std::to_string(found.size);
        refuse_value(name, "must hold " + wanted + " numbers, but it holds " + there + ".");
    }
    return found.data;
}

const uint8_t* read_flags(nb::handle object, const char* name, int64_t size) {
    const Array array = read_array(object, name, Dtype::boolean);
    expect_shape(array, name, size);
    return array.as<const uint8_t>();
}

// NumPy's sum of up to 128 numbers; longer ones it halves.
double pairwise_sum(const double* x, int64_t count) {
    if (count < 8) {
        double sum = count > 0 ? x[0] : 0;
        for (int64_t i = 1; i < count; i++) sum += x[i];
        return sum;
    }
    if (count > 128) {
        int64_t half = count / 2;
        half -= half % 8;
        return pairwise_sum(x, half) + pairwise_sum(x + half, count - half);
    }
    double r[8];
    for (int k = 0; k < 8; k++) r[k] = x[k];
    int64_t i = 8;
    for (; i < count - count % 8; i += 8) {
        for (int k = 0; k < 8; k++) r[k] += x[i + k];
    }
    double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < count; i++) sum += x[i];
    return sum;
}

// Sums [width] of rows [count, width], in NumPy's order: one column is summed pairwise, several row by row.
void column_sums(const std::vector<double>& rows, int64_t count, int64_t width, std::vector<double>& sums) {
    if (width == 1) {
        sums[0] = pairwise_sum(rows.data(), count);
        return;
    }
    for (int64_t j = 0; j < width; j++) sums[j] = rows[j];
    for (int64_t i = 1; i < count; i++) {
        for (int64_t j = 0; j < width; j++) sums[j] += rows[i * width + j];
    }
}

// Merges rows [count, width] into mean and m2 [width] of `before` rows (Chan, Golub, LeVeque 1979); leaves `rows` in
// ruins. Returns how many there are now.
int64_t merge(std::vector<double>& rows, int64_t count, int64_t width, double* mean, double* m2, int64_t before) {
    if (count == 0) return before;
    static std::vector<double> means, squares;
    means.resize(width);
    squares.resize(width);
    column_sums(rows, count, width, means);
    for (double& each : means) each /= static_cast<double>(count);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < width; j++) {
            const double distance = rows[i * width + j] - means[j];
            rows[i * width + j] = distance * distance;
        }
    }
    column_sums(rows, count, width, squares);
    const int64_t total = before + count;
    const double n = static_cast<double>(count), all = static_cast<double>(total);
    const double weight = static_cast<double>(before * count) / all, share = n / all;
    for (int64_t j = 0; j < width; j++) {
        const double delta = means[j] - mean[j];
        m2[j] = m2[j] + squares[j] + delta * delta * weight;
        mean[j] = mean[j] + delta * share;
    }
    return total;
}

double variance(double m2, int64_t count) { return count >= 2 ? m2 / static_cast<double>(count) : 1.0; }

// NaN passes.
double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

std::vector<double>& room(int64_t size) {
    static std::vector<double> numbers;
    numbers.resize(size);
    return numbers;
}

int64_t standardise(nb::handle rows, nb::handle valid, nb::handle mean, nb::handle m2, int64_t count, double eps,
                    double clip, nb::handle out) {
    const Array x = read_floats(rows, "rows");
    if (x.dims < 1) refuse_value("rows", "must have rows, but it is a scalar.");
    if (count < 0) refuse_value("count", "must not be negative.");
    const int64_t n = x.shape[0], width = x.trailing();
    const bool learns = !valid.is_none();
    const uint8_t* real = learns ? read_flags(valid, "valid", n) : nullptr;
    double* means = read_doubles(mean, "mean", width, learns);
    double* squares = read_doubles(m2, "m2", width, learns);
    const Array to = read_floats(out, "out");
    expect_size(to, "out", x.size);
    if (learns) {
        std::vector<double>& taken = room(x.size);
        int64_t used = 0;
        for (int64_t i = 0; i < n; i++) {
            if (!real[i]) continue;
            for (int64_t j = 0; j < width; j++) taken[used * width + j] = x.floats()[i * width + j];
            used++;
        }
        count = merge(taken, used, width, means, squares, count);
    }
    std::vector<double>& deviations = room(width);
    for (int64_t j = 0; j < width; j++) deviations[j] = std::sqrt(variance(squares[j], count) + eps);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < width; j++) {
            const double scaled = (x.floats()[i * width + j] - means[j]) / deviations[j];
            to.floats()[i * width + j] = static_cast<float>(clamped(scaled, -clip, clip));
        }
    }
    return count;
}

int64_t scale_rewards(nb::handle rewards, nb::handle done, nb::handle valid, nb::handle returns, double gamma,
                      nb::handle mean, nb::handle m2, int64_t count, double eps, double clip, nb::handle out) {
    const Doubles given = read_doubles(rewards, "rewards", false);
    if (given.dims != 1) refuse_value("rewards", "must have one dimension.");
    if (count < 0) refuse_value("count", "must not be negative.");
    const int64_t n = given.size;
    const uint8_t *over = read_flags(done, "done", n), *real = read_flags(valid, "valid", n);
    double* sums = read_doubles(returns, "returns", n, true);
    double *average = read_doubles(mean, "mean", 1, true), *squares = read_doubles(m2, "m2", 1, true);
    const Array to = read_floats(out, "out");
    expect_shape(to, "out", n);
    std::vector<double>& taken = room(n);
    int64_t used = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!real[i]) continue;
        sums[i] = sums[i] * gamma + given.data[i];
        taken[used++] = sums[i];
    }
    count = merge(taken, used, 1, average, squares, count);
    const double deviation = std::sqrt(variance(*squares, count) + eps);
    for (int64_t i = 0; i < n; i++) {
        to.floats()[i] = real[i] ? static_cast<float>(clamped(given.data[i] / deviation, -clip, clip)) : 0.f;
        if (over[i]) sums[i] = 0;
    }
    return count;
}

// `ActionSpec.to_env` of float32: clip to [-1, 1] and map to the bounds where there are two, then clip to the limits.
void to_bounds(nb::handle actions, nb::handle low, nb::handle high, nb::handle bounded, nb::handle least,
               nb::handle most, nb::handle out) {
    const Array x = read_floats(actions, "actions");
    expect_shape(x, "actions", -1, -1);
    const int64_t n = x.shape[0], width = x.shape[1];
    const double *from = read_doubles(low, "low", width, false), *until = read_doubles(high, "high", width, false);
    const uint8_t* mapped = read_flags(bounded, "bounded", width);
    const double *smallest = read_doubles(least, "least", width, false);
    const double *largest = read_doubles(most, "most", width, false);
    const Array to = read_floats(out, "out");
    expect_size(to, "out", x.size);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < width; j++) {
            double value = x.floats()[i * width + j];
            if (mapped[j]) {
                const double share = (clamped(value, -1.0, 1.0) + 1.0) * 0.5;
                value = from[j] * (1.0 - share) + until[j] * share;
            }
            to.floats()[i * width + j] = static_cast<float>(clamped(value, smallest[j], largest[j]));
        }
    }
}

}  // namespace

void bind_steps(nb::module_& module) {
    module.def("standardise", standardise, nb::arg("rows"), nb::arg("valid").none(), nb::arg("mean"), nb::arg("m2"),
               nb::arg("count"), nb::arg("eps"), nb::arg("clip"), nb::arg("out"));
    module.def("scale_rewards", scale_rewards, nb::arg("rewards"), nb::arg("done"), nb::arg("valid"),
               nb::arg("returns"), nb::arg("gamma"), nb::arg("mean"), nb::arg("m2"), nb::arg("count"), nb::arg("eps"),
               nb::arg("clip"), nb::arg("out"));
    module.def("to_bounds", to_bounds, nb::arg("actions"), nb::arg("low"), nb::arg("high"), nb::arg("bounded"),
               nb::arg("least"), nb::arg("most"), nb::arg("out"));
}

}  // namespace steady
