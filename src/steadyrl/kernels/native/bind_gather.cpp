// Moving transitions: rows of several arrays at once, and advantages of a rollout.
//
// Compiled without contraction: every operation of GAE rounds as torch's does, so both give the same bits.
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <vector>

#include "arrays.h"
#include "pool.h"

namespace steady {

namespace {

struct Copy {
    const char* from;
    char* to;
    int64_t bytes;  // of a row
};

template <int64_t BYTES>
void copy_fixed(const Copy& copy, const int64_t* index, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) std::memcpy(copy.to + i * BYTES, copy.from + index[i] * BYTES, BYTES);
}

void copy_rows(const Copy& copy, const int64_t* index, int64_t first, int64_t last) {
    switch (copy.bytes) {  // a size known to the compiler is one instruction instead of a call
        case 1: return copy_fixed<1>(copy, index, first, last);
        case 4: return copy_fixed<4>(copy, index, first, last);
        case 8: return copy_fixed<8>(copy, index, first, last);
        case 16: return copy_fixed<16>(copy, index, first, last);
        default: break;
    }
    for (int64_t i = first; i < last; i++) {
        std::memcpy(copy.to + i * copy.bytes, copy.from + index[i] * copy.bytes, copy.bytes);
    }
}

Copy checked_copy(nb::handle source, nb::handle out, size_t at, const Array& index) {
    const std::string from_name = "sources[" + std::to_string(at) + "]", to_name = "outs[" + std::to_string(at) + "]";
    const Array from = read_any(source, from_name.c_str());
    const Array to = read_array(out, to_name.c_str(), from.dtype);
    if (from.dims < 1) refuse_value(from_name.c_str(), "must have rows, but it is a scalar.");
    bool same = to.dims == from.dims && to.shape[0] == index.size;
    for (int i = 1; same && i < from.dims; i++) same = to.shape[i] == from.shape[i];
    if (!same) {
        const std::string rows = std::to_string(index.size);
        const std::string wanted = rows + " rows of " + from.shape_text();
        refuse_value(to_name.c_str(), "has the shape " + to.shape_text() + ", which does not fit " + wanted + ".");
    }
    const int64_t* rows = index.as<int64_t>();
    for (int64_t i = 0; i < index.size; i++) {
        if (rows[i] < 0 || rows[i] >= from.shape[0]) {
            throw nb::index_error(("index names the row " + std::to_string(rows[i]) + " of the " +
                                   std::to_string(from.shape[0]) + " of " + from_name + ".")
                                      .c_str());
        }
    }
    return {from.as<char>(), to.as<char>(), from.trailing() * dtype_bytes(from.dtype)};
}

constexpr double OPERATIONS_A_BYTE = 0.5;  // copying, in operations that could be done instead

void gather(nb::handle index, const std::vector<nb::object>& sources, const std::vector<nb::object>& outs) {
    const Array rows = read_array(index, "index", Dtype::int64);
    expect_shape(rows, "index", -1);
    if (sources.size() != outs.size()) refuse_value("outs", "must be as many as sources.");
    std::vector<Copy> copies;
    int64_t bytes = 0;
    for (size_t i = 0; i < sources.size(); i++) {
        copies.push_back(checked_copy(sources[i], outs[i], i, rows));
        bytes += copies.back().bytes * rows.size;
    }
    Pool::get().run(threads_for(OPERATIONS_A_BYTE * static_cast<double>(bytes)), [&](Region& region) {
        region.chunks(rows.size, 16, [&](int64_t first, int64_t last) {
            for (const Copy& copy : copies) {
                if (copy.bytes > 0) copy_rows(copy, rows.as<int64_t>(), first, last);
            }
        });
    });
}

void gae(nb::handle rewards, nb::handle values, nb::handle next_values, nb::handle terminated, nb::handle done,
         nb::handle valid, double gamma, double gae_lambda, nb::handle advantages, nb::handle returns) {
    const Array r = read_floats(rewards, "rewards");
    expect_shape(r, "rewards", -1, -1);
    const int64_t steps = r.shape[0], envs = r.shape[1];
    const auto floats = [&](nb::handle object, const char* name) {
        const Array array = read_floats(object, name);
        expect_shape(array, name, steps, envs);
        return array.floats();
    };
    const auto flags = [&](nb::handle object, const char* name) {
        const Array array = read_array(object, name, Dtype::boolean);
        expect_shape(array, name, steps, envs);
        return array.as<const uint8_t>();
    };
    const float *reward = r.floats(), *value = floats(values, "values"), *next = floats(next_values, "next_values");
    const uint8_t *ended = flags(terminated, "terminated"), *cut = flags(done, "done"), *real = flags(valid, "valid");
    float *advantage = floats(advantages, "advantages"), *target = floats(returns, "returns");
    const float discount = static_cast<float>(gamma), decay = static_cast<float>(gamma * gae_lambda);
    std::vector<float> trace(envs, 0.f);
    for (int64_t t = steps - 1; t >= 0; t--) {
        for (int64_t n = 0; n < envs; n++) {
            const int64_t i = t * envs + n;
            const float delta = reward[i] + discount * (ended[i] ? 0.f : next[i]) - value[i];
            const float carried = delta + (cut[i] ? decay * 0.f : decay) * trace[n];
            trace[n] = real[i] ? carried : 0.f;
            advantage[i] = trace[n];
            target[i] = trace[n] + value[i];
        }
    }
}

}  // namespace

void bind_gather(nb::module_& module) {
    module.def("gather", gather, nb::arg("index"), nb::arg("sources"), nb::arg("outs"));
    module.def("gae", gae, nb::arg("rewards"), nb::arg("values"), nb::arg("next_values"), nb::arg("terminated"),
               nb::arg("done"), nb::arg("valid"), nb::arg("gamma"), nb::arg("gae_lambda"), nb::arg("advantages"),
               nb::arg("returns"));
}

}  // namespace steady
