// Mlp for Python: everything is checked here, so that mlp.cpp may trust what it gets.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "mlps.h"

namespace steady {

namespace {

using LinearTuple = std::tuple<int64_t, int64_t, int64_t>;
using MemberPair = std::pair<std::vector<LinearTuple>, std::vector<LinearTuple>>;

constexpr int64_t MOST_SLOTS = 64;

Activation activation_named(const std::string& name, const char* argument) {
    if (name == "none") return Activation::none;
    if (name == "tanh") return Activation::tanh;
    if (name == "relu") return Activation::relu;
    if (name == "elu") return Activation::elu;
    if (name == "silu") return Activation::silu;
    refuse_value(argument, "is '" + name + "', which is not known.");
}

std::vector<Linear> linears(const std::vector<LinearTuple>& tuples, const char* argument) {
    std::vector<Linear> found;
    for (const auto& [weight, bias, width] : tuples) {
        if (weight < 0 || bias < 0 || width < 1) refuse_value(argument, "hold a negative offset or a width below 1.");
        found.push_back({weight, bias, width});
    }
    return found;
}

bool same_shape(const std::vector<Linear>& a, const std::vector<Linear>& b) {
    bool same = a.size() == b.size();
    for (size_t i = 0; same && i < a.size(); i++) same = a[i].width == b[i].width;
    return same;
}

void construct(
    Mlp* self, int64_t inputs, const std::vector<MemberPair>& pairs, const std::string& activation,
    const std::string& output_activation, const std::vector<std::vector<LinearTuple>>& norms) {
    if (inputs < 1) refuse_value("inputs", "must be at least 1.");
    if (pairs.empty()) refuse_value("members", "must not be empty.");
    if (!norms.empty() && norms.size() != pairs.size()) refuse_value("norms", "must be given for each member.");
    std::vector<Member> members;
    for (const MemberPair& pair : pairs) {
        Member member{linears(pair.first, "members"), linears(pair.second, "members"), {}};
        if (!norms.empty()) {
            member.norms = linears(norms[members.size()], "norms");
            if (!same_shape(member.hidden, member.norms)) refuse_value("norms", "must be as wide as hidden layers are.");
        }
        if (member.heads.empty()) refuse_value("members", "must have at least one head each.");
        const Member& first = members.empty() ? member : members.front();
        if (!same_shape(first.hidden, member.hidden) || !same_shape(first.heads, member.heads)) {
            refuse_value("members", "must all have the same widths.");
        }
        members.push_back(std::move(member));
    }
    const Activation output = activation_named(output_activation, "output_activation");
    if (output != Activation::none && output != Activation::tanh) {
        refuse_value("output_activation", "must be 'none' or 'tanh'.");
    }
    new (self) Mlp(inputs, std::move(members), activation_named(activation, "activation"), output);
}

size_t checked_slot(int64_t slot) {
    if (slot < 0 || slot >= MOST_SLOTS) {
        refuse_value("slot", "must be from 0 to " + std::to_string(MOST_SLOTS - 1) + ".");
    }
    return static_cast<size_t>(slot);
}

Array read_flat(const Mlp& mlp, nb::handle object, const char* name) {
    const Array array = read_floats(object, name);
    expect_shape(array, name, -1);
    if (array.size < mlp.buffer_size()) {
        refuse_value(name, "must hold at least " + std::to_string(mlp.buffer_size()) + " numbers, but it holds " +
                               std::to_string(array.size) + ".");
    }
    return array;
}

// [members, batch, outputs], or without the first where there is one member.
Array read_outputs(const Mlp& mlp, nb::handle object, const char* name, int64_t batch) {
    const Array array = read_floats(object, name);
    if (mlp.members() == 1 && array.dims == 2) {
        expect_shape(array, name, batch, mlp.outputs());
    } else {
        expect_shape(array, name, mlp.members(), batch, mlp.outputs());
    }
    return array;
}

Rows read_rows(nb::handle object, const char* name, int64_t& count) {
    const Array array = read_floats(object, name);
    expect_shape(array, name, -1, -1);
    count = array.shape[0];
    return {array.floats(), array.shape[1]};
}

void forward(Mlp& mlp, nb::handle params, nb::handle x, nb::handle out, int64_t slot, nb::handle x2) {
    int64_t batch, extra_rows = 0;
    const Rows first = read_rows(x, "x", batch);
    Rows second;
    if (!x2.is_none()) {
        second = read_rows(x2, "x2", extra_rows);
        if (extra_rows != batch) refuse_value("x2", "must have " + std::to_string(batch) + " rows, as x.");
    }
    if (first.width + second.width != mlp.inputs()) {
        const std::string wanted = std::to_string(mlp.inputs()), found = std::to_string(first.width + second.width);
        const char* names = x2.is_none() ? "x" : "x and x2";
        refuse_value(names, "must have " + wanted + " columns, but there are " + found + ".");
    }
    const float* parameters = read_flat(mlp, params, "params").floats();
    mlp.forward(parameters, first, second, batch, read_outputs(mlp, out, "out", batch).floats(), checked_slot(slot));
}

void backward(Mlp& mlp, nb::handle params, nb::handle out_grad, nb::handle grads, int64_t slot, nb::handle x2_grad) {
    const size_t index = checked_slot(slot);
    const int64_t batch = mlp.batch(index);
    if (batch < 0) refuse_value("slot", "has no forward pass to go back from.");
    const float* parameters = read_flat(mlp, params, "params").floats();
    const float* outer = read_outputs(mlp, out_grad, "out_grad", batch).floats();
    float* gradients = grads.is_none() ? nullptr : read_flat(mlp, grads, "grads").floats();
    Array inner;
    if (!x2_grad.is_none()) {
        inner = read_floats(x2_grad, "x2_grad");
        expect_shape(inner, "x2_grad", batch, -1);
        if (inner.shape[1] > mlp.inputs()) refuse_value("x2_grad", "has more columns than the network has inputs.");
    }
    mlp.backward(parameters, outer, gradients, index, inner.floats(), inner.dims == 2 ? inner.shape[1] : 0);
}

void construct_group(Mlps* self, const std::vector<Mlp*>& networks) {
    if (networks.empty()) refuse_value("networks", "must not be empty.");
    for (const Mlp* each : networks) {
        const bool fits = each->members() == 1 && each->inputs() == networks.front()->inputs();
        if (!fits) refuse_value("networks", "must have one member each and the same number of inputs.");
    }
    new (self) Mlps(networks);
}

// One array for each network, [batch, outputs], or [batch] where there is one output.
std::vector<float*> read_each(const Mlps& group, nb::handle objects, const char* name, int64_t batch) {
    const nb::object items = nb::steal(PySequence_Fast(objects.ptr(), "must be a sequence of arrays."));
    if (!items.is_valid()) throw nb::python_error();
    const size_t count = static_cast<size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
    if (count != group.size()) refuse_value(name, "must be one for each network.");
    std::vector<float*> found;
    for (size_t i = 0; i < count; i++) {
        const Array array = read_floats(PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)), name);
        const int64_t width = group.network(i).outputs();
        if (width == 1 && array.dims == 1) {
            expect_shape(array, name, batch);
        } else {
            expect_shape(array, name, batch, width);
        }
        found.push_back(array.floats());
    }
    return found;
}

float* read_group_flat(const Mlps& group, nb::handle object, const char* name) {
    float* numbers = nullptr;
    for (size_t i = 0; i < group.size(); i++) numbers = read_flat(group.network(i), object, name).floats();
    return numbers;
}

void forward_group(Mlps& group, nb::handle params, nb::handle x, nb::handle outs, int64_t slot) {
    int64_t batch;
    const Rows rows = read_rows(x, "x", batch);
    if (rows.width != group.inputs()) {
        const std::string wanted = std::to_string(group.inputs()), found = std::to_string(rows.width);
        refuse_value("x", "must have " + wanted + " columns, but there are " + found + ".");
    }
    const float* parameters = read_group_flat(group, params, "params");
    group.forward(parameters, rows, batch, read_each(group, outs, "outs", batch), checked_slot(slot));
}

void backward_group(Mlps& group, nb::handle params, nb::handle out_grads, nb::handle grads, int64_t slot) {
    const size_t index = checked_slot(slot);
    const int64_t batch = group.network(0).batch(index);
    bool forwarded = batch >= 0;
    for (size_t i = 0; i < group.size(); i++) forwarded &= group.network(i).batch(index) == batch;
    if (!forwarded) refuse_value("slot", "has no forward pass to go back from.");
    const float* parameters = read_group_flat(group, params, "params");
    const std::vector<float*> outer = read_each(group, out_grads, "out_grads", batch);
    group.backward(parameters, {outer.begin(), outer.end()}, read_group_flat(group, grads, "grads"), index);
}

}  // namespace

void bind_mlp(nb::module_& module) {
    nb::class_<Mlp>(module, "Mlp")
        .def("__init__", construct, nb::arg("inputs"), nb::arg("members"), nb::arg("activation"),
             nb::arg("output_activation"), nb::arg("norms") = std::vector<std::vector<LinearTuple>>{})
        .def("forward", forward, nb::arg("params"), nb::arg("x"), nb::arg("out"), nb::arg("slot") = 0,
             nb::arg("x2").none() = nb::none())
        .def("backward", backward, nb::arg("params"), nb::arg("out_grad"), nb::arg("grads").none() = nb::none(),
             nb::arg("slot") = 0, nb::arg("x2_grad").none() = nb::none())
        .def_prop_ro("buffer_size", &Mlp::buffer_size);
    nb::class_<Mlps>(module, "Mlps")
        .def("__init__", construct_group, nb::arg("networks"), nb::keep_alive<1, 2>())
        .def("forward", forward_group, nb::arg("params"), nb::arg("x"), nb::arg("outs"), nb::arg("slot") = 0)
        .def("backward", backward_group, nb::arg("params"), nb::arg("out_grads"), nb::arg("grads"),
             nb::arg("slot") = 0);
}

}  // namespace steady
