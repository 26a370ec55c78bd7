// Runs every kernel on numbers of a fixed generator and prints what came out, to compare one processor with another.
//
// Each line is the name of a case, then the bits of its floats in hexadecimal.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "mlp.h"

using namespace steady;

namespace {

using Floats = std::vector<float>;

uint64_t state = 1;

// Uniform in [-1, 1), the same everywhere: integers alone decide.
float next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
}

Floats numbers(int64_t count, float scale = 1.f) {
    Floats found(count);
    for (float& each : found) each = next() * scale;
    return found;
}

void show(const std::string& name, const Floats& values) {
    std::printf("%s", name.c_str());
    for (float each : values) std::printf(" %08x", std::bit_cast<uint32_t>(each));
    std::printf("\n");
}

// Two members of two hidden layers with heads of 3 and 1, so that widths are odd and panels are cut.
void mlp(Activation activation, bool normed, int64_t batch, int64_t width) {
    constexpr int64_t INPUTS = 7, APPENDED = 2;
    int64_t end = 0;
    const auto linear = [&](int64_t inputs, int64_t outputs) {
        const Linear found{end, end + inputs * outputs, outputs};
        end += inputs * outputs + outputs;
        return found;
    };
    std::vector<Member> members(2);
    for (Member& each : members) {
        each.hidden = {linear(INPUTS + APPENDED, width), linear(width, width + 3)};
        if (normed) each.norms = {linear(1, width), linear(1, width + 3)};
        each.heads = {linear(width + 3, 3), linear(width + 3, 1)};
    }
    Mlp net(INPUTS + APPENDED, members, activation, Activation::none);
    const Floats params = numbers(end, 0.4f), x = numbers(batch * INPUTS, 2.f), x2 = numbers(batch * APPENDED);
    Floats out(2 * batch * 4), grads(end), x2_grad(batch * APPENDED);
    net.forward(params.data(), {x.data(), INPUTS}, {x2.data(), APPENDED}, batch, out.data(), 0);
    const Floats out_grad = numbers(2 * batch * 4);
    net.backward(params.data(), out_grad.data(), grads.data(), 0, x2_grad.data(), APPENDED);
    const std::string name = "mlp/" + std::to_string(static_cast<int>(activation)) + (normed ? "n" : "") + "/" +
                             std::to_string(batch) + "x" + std::to_string(width);
    show(name + "/out", out);
    show(name + "/grads", grads);
    show(name + "/x2_grad", x2_grad);
}

void optimisers(int64_t count) {
    const Ops& ops = *isa().ops;
    Floats params = numbers(count), grad = numbers(count, 3.f), mean = numbers(count), square = numbers(count);
    for (float& each : square) each = each * each;
    const Floats out = numbers(count), online = numbers(count);
    const std::string size = "/" + std::to_string(count);
    show("sum_of_squares" + size, {static_cast<float>(ops.sum_of_squares(grad.data(), count))});
    Floats slope(count);
    ops.tanh_gradient(grad.data(), out.data(), slope.data(), count);
    show("tanh_gradient" + size, slope);
    const AdamStep adam{params.data(), grad.data(), mean.data(), square.data(), mean.data(), square.data(), nullptr,
                        0.5f, 0.1f, 0.999f, 0.001f, 1.1f, 1e-8f, -3e-4f};
    ops.adam(adam, 0, count);
    show("adam" + size, params);
    show("adam/mean" + size, mean);
    show("adam/square" + size, square);
    ops.rmsprop({params.data(), grad.data(), square.data(), 0.7f, 0.99f, 0.01f, 1e-5f, -7e-4f}, 0, count);
    show("rmsprop" + size, params);
    ops.lerp(params.data(), online.data(), 0.005f, 0, count);
    show("lerp" + size, params);
}

// One instruction on rows [3, count]: contiguous, strided by 2, and a broadcast last operand.
void instruction(TapeOp op, const std::string& name, int arguments, bool reduces, int64_t count) {
    constexpr int64_t ROWS = 3;
    for (const int64_t stride : {1, 2}) {
        TapeInstruction it{};
        it.op = op;
        it.value = 1.f;
        for (int64_t& size : it.size) size = 1;
        for (int64_t& size : it.along) size = 1;
        it.size[2] = ROWS;
        (reduces ? it.along[2] : it.size[3]) = count;
        std::vector<Floats> inputs;
        for (int i = 0; i < arguments; i++) {
            Floats each = numbers(ROWS * count * stride, op == TapeOp::log1p ? 0.9f : 4.f);
            for (float& x : each) {
                if (op == TapeOp::log || op == TapeOp::sqrt) x = std::fabs(x);
                if (i == 0 && op == TapeOp::where) x = x > 0.f;
            }
            if (i == 1 && op == TapeOp::div) each[0] = 0.f;
            if (i == 0 && !each.empty()) each.back() = op == TapeOp::exp ? -100.f : each.back();
            inputs.push_back(std::move(each));
        }
        Floats out(ROWS * count * stride, -1.f);
        std::vector<float*> bases;
        for (Floats& each : inputs) bases.push_back(each.data());
        bases.push_back(out.data());
        for (int i = 0; i < arguments; i++) {
            TapeOperand& in = it.in[i];
            in.base = i;
            in.stride[2] = count * stride;
            (reduces ? in.along[2] : in.stride[3]) = i == 2 ? 0 : stride;
        }
        it.out.base = arguments;
        it.out.stride[2] = count * stride;
        if (op == TapeOp::cumsum) it.out.along[2] = stride;
        it.out.stride[3] = reduces ? 0 : stride;
        isa().tape->run(&it, 1, bases.data());
        show("tape/" + name + "/" + std::to_string(count) + "/" + std::to_string(stride), out);
    }
}

}  // namespace

int main() {
    std::printf("isa %s\n", isa().name);
    for (const Activation each : {Activation::tanh, Activation::relu, Activation::elu, Activation::silu}) {
        for (const bool normed : {false, true}) {
            for (const int64_t batch : {1, 5, 33}) mlp(each, normed, batch, 19);
        }
        mlp(each, false, 150, 64);
    }
    for (const int64_t count : {1, 3, 16, 61, 2048}) optimisers(count);
    for (const int64_t count : {1, 4, 7, 37}) {
#define STEADY_CASE(name, arguments) instruction(TapeOp::name, #name, arguments, false, count);
        STEADY_TAPE_ELEMENTWISE(STEADY_CASE)
#undef STEADY_CASE
#define STEADY_CASE(name, arguments) instruction(TapeOp::name, #name, arguments, true, count);
        STEADY_CASE(sum, 1) STEADY_CASE(sum_product, 2) STEADY_CASE(amax, 1) STEADY_CASE(amin, 1)
        STEADY_CASE(argmax, 1) STEADY_CASE(argmin, 1) STEADY_CASE(cumsum, 1)
#undef STEADY_CASE
    }
    return 0;
}
