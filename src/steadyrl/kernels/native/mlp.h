// A multilayer perceptron, or several of one shape, whose parameters lie at given offsets of one flat buffer.
#pragma once
#include <cstdint>
#include <vector>

#include "isa.h"
#include "pool.h"

namespace steady {

// One torch.nn.Linear: where its weight [width, inputs] and its bias [width] start in the flat buffer.
struct Linear {
    int64_t weight, bias, width;
};

// One network: hidden layers in order, then heads that share the last hidden layer. Where there are norms, each hidden
// layer is linear, normalised, then the activation; a norm's `weight` and `bias` are its gain and its shift.
struct Member {
    std::vector<Linear> hidden;
    std::vector<Linear> heads;
    std::vector<Linear> norms;
};

// What a forward pass leaves for the backward pass.
struct Slot {
    int64_t batch = -1;  // -1 before the first forward pass
    FloatBuffer inputs;
    // One entry for each layer, the heads counting as one; members one after the other.
    std::vector<FloatBuffer> outputs, gradients, before;
    // The same where layers are normalised: rows before gain and shift, gradients of what came out, [members, batch].
    std::vector<FloatBuffer> normalised, norm_gradients, scales;
};

struct Rows {
    const float* data = nullptr;
    int64_t width = 0;
};

class Mlp {
public:
    Mlp(int64_t inputs, std::vector<Member> members, Activation activation, Activation output_activation);
    Mlp(const Mlp&) = delete;
    Mlp& operator=(const Mlp&) = delete;

    int64_t inputs() const { return widths_.front(); }
    int64_t outputs() const { return widths_.back(); }
    int64_t members() const { return static_cast<int64_t>(members_.size()); }
    int64_t buffer_size() const { return buffer_size_; }  // least length of a flat buffer that holds all parameters
    int64_t batch(size_t slot) const { return slot < slots_.size() ? slots_[slot].batch : -1; }

    // out [members, batch, outputs]; the inputs are x and x2 side by side.
    void forward(const float* params, const Rows& x, const Rows& x2, int64_t batch, float* out, size_t slot);

    // Both passes in pieces, for `Mlps`: what comes before the first, and rows [first, last) of it on one thread.
    void prepare_forward(const float* params, int64_t batch, size_t slot);
    void forward_piece(const float* params, const Rows& x, const Rows& x2, float* out, size_t slot, int64_t first,
                       int64_t last, float* scratch);
    void gather_heads(const float* params);
    void backward_piece(
        const float* params, const float* out_grad, size_t slot, int64_t first, int64_t last, float* scratch);
    int weight_tasks() const { return tasks_; }
    void weight_task(float* grads, size_t slot, int task) { weight_task(slots_[slot], grads, task); }
    double operations(int64_t batch) const { return operations_ * static_cast<double>(batch); }

    // Overwrites the gradient of every parameter in `grads` (null: of none) and, if x2_grad is not null, that of the
    // last x2_width inputs, summed over members, [batch, x2_width].
    void backward(
        const float* params, const float* out_grad, float* grads, size_t slot, float* x2_grad, int64_t x2_width);

private:
    // Columns [column, column + width) of a layer's outputs belong to this Linear.
    struct Block {
        size_t layer;
        int64_t column;
        Linear linear;
    };

    size_t layers() const { return widths_.size() - 1; }
    bool is_last(size_t layer) const { return layer + 1 == layers(); }
    int64_t stride(size_t layer) const { return strides_[layer]; }
    float* rows_of(std::vector<FloatBuffer>& buffers, size_t layer, size_t member, int64_t batch, int64_t row);
    const float* inputs_of(Slot& slot, size_t layer, size_t member, int64_t row);
    const float* weight(const float* params, size_t layer, size_t member);
    const float* bias(const float* params, size_t layer, size_t member);
    bool normed(size_t layer) const { return !members_.front().norms.empty() && !is_last(layer); }
    int threads(int64_t batch) const;
    Slot& prepare(size_t slot, int64_t batch);
    void load_rows(Slot& slot, const Rows& x, const Rows& x2, int64_t first, int64_t last) const;
    void forward_rows(Slot& slot, const float* params, int64_t first, int64_t last, float* scratch);
    void norm_forward(Slot& slot, const float* params, size_t layer, size_t member, int64_t first, int64_t last);
    void norm_backward(Slot& slot, const float* params, size_t layer, size_t member, int64_t first, int64_t last);
    void store_rows(Slot& slot, float* out, int64_t first, int64_t last);
    void load_out_grad(Slot& slot, const float* out_grad, int64_t first, int64_t last);
    void backward_rows(Slot& slot, const float* params, int64_t first, int64_t last, float* scratch);
    void input_rows(
        Slot& slot, const float* params, float* x2_grad, int64_t width, int64_t first, int64_t last, float* scratch);
    void weight_task(Slot& slot, float* grads, int task);

    std::vector<Member> members_;
    Activation activation_, output_activation_;
    std::vector<int64_t> widths_, strides_;  // of the inputs, then of each layer's outputs
    std::vector<std::vector<Block>> blocks_;  // by member
    std::vector<int> block_tasks_;            // tasks of each block, the same for every member
    int tasks_ = 0;
    int64_t buffer_size_ = 0;
    double operations_ = 0;  // of one row
    std::vector<FloatBuffer> head_weights_, head_biases_;  // by member, where heads are several
    std::vector<Slot> slots_;
};

}  // namespace steady
