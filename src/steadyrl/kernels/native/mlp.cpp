// Forward and backward passes of an MLP, divided among threads so that their number never changes a bit.
//
// Rows of the batch are independent until gradients of weights are summed over them; those are then divided by tile of
// the weight, never by rows.
#include "mlp.h"

#include <algorithm>
#include <cstring>

namespace steady {

namespace {

// An odd number of cache lines, and room for a whole panel behind the last column.
int64_t padded(int64_t width) {
    const int64_t lines = (width + 15) / 16;
    return (lines % 2 == 0 ? lines + 1 : lines) * 16;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t ROWS_IN_ONE_TILE = 320;  // so many rows of a weight still fit L2 as one tile

int64_t row_tiles(int64_t rows) { return rows <= ROWS_IN_ONE_TILE ? 1 : ceil_div(rows, isa().ops->tile_rows); }

}  // namespace

Mlp::Mlp(int64_t inputs, std::vector<Member> members, Activation activation, Activation output_activation)
    : members_(std::move(members)), activation_(activation), output_activation_(output_activation), widths_{inputs} {
    const Member& first = members_.front();
    for (const Linear& layer : first.hidden) widths_.push_back(layer.width);
    int64_t outputs = 0;
    for (const Linear& head : first.heads) outputs += head.width;
    widths_.push_back(outputs);
    for (int64_t width : widths_) strides_.push_back(padded(width));
    for (size_t i = 0; i < layers(); i++) operations_ += 2.0 * widths_[i] * widths_[i + 1] * this->members();
    for (const Member& member : members_) {
        std::vector<Block>& blocks = blocks_.emplace_back();
        for (size_t i = 0; i < member.hidden.size(); i++) blocks.push_back({i, 0, member.hidden[i]});
        int64_t column = 0;
        for (const Linear& head : member.heads) {
            blocks.push_back({layers() - 1, column, head});
            column += head.width;
        }
        for (const Block& block : blocks) {
            const int64_t weight_end = block.linear.weight + block.linear.width * widths_[block.layer];
            buffer_size_ = std::max({buffer_size_, weight_end, block.linear.bias + block.linear.width});
        }
        for (const Linear& norm : member.norms) {
            buffer_size_ = std::max({buffer_size_, norm.weight + norm.width, norm.bias + norm.width});
        }
    }
    for (const Block& block : blocks_.front()) {
        const int64_t panels = ceil_div(widths_[block.layer], isa().ops->panel);
        block_tasks_.push_back(static_cast<int>(panels * row_tiles(block.linear.width)) + 1 + normed(block.layer));
        tasks_ += block_tasks_.back();
    }
    tasks_ *= static_cast<int>(members_.size());
    if (first.heads.size() > 1) {
        head_weights_.resize(members_.size());
        head_biases_.resize(members_.size());
    }
}

float* Mlp::rows_of(std::vector<FloatBuffer>& buffers, size_t layer, size_t member, int64_t batch, int64_t row) {
    return buffers[layer].data() + (static_cast<int64_t>(member) * batch + row) * stride(layer + 1);
}

const float* Mlp::inputs_of(Slot& slot, size_t layer, size_t member, int64_t row) {
    if (layer == 0) return slot.inputs.data() + row * stride(0);
    return rows_of(slot.outputs, layer - 1, member, slot.batch, row);
}

const float* Mlp::weight(const float* params, size_t layer, size_t member) {
    if (!is_last(layer)) return params + members_[member].hidden[layer].weight;
    return head_weights_.empty() ? params + members_[member].heads.front().weight : head_weights_[member].data();
}

const float* Mlp::bias(const float* params, size_t layer, size_t member) {
    if (!is_last(layer)) return params + members_[member].hidden[layer].bias;
    return head_biases_.empty() ? params + members_[member].heads.front().bias : head_biases_[member].data();
}

int Mlp::threads(int64_t batch) const { return threads_for(operations(batch)); }

// Several heads are multiplied as one matrix. They are narrow, so copying them costs less than products of their own.
void Mlp::gather_heads(const float* params) {
    if (head_weights_.empty()) return;
    const int64_t inner = widths_[layers() - 1];
    for (size_t m = 0; m < members_.size(); m++) {
        float* weights = head_weights_[m].reserve(outputs() * inner);
        float* biases = head_biases_[m].reserve(outputs());
        for (const Linear& head : members_[m].heads) {
            std::memcpy(weights, params + head.weight, head.width * inner * sizeof(float));
            std::memcpy(biases, params + head.bias, head.width * sizeof(float));
            weights += head.width * inner;
            biases += head.width;
        }
    }
}

Slot& Mlp::prepare(size_t index, int64_t batch) {
    if (index >= slots_.size()) slots_.resize(index + 1);
    Slot& slot = slots_[index];
    slot.outputs.resize(layers());
    slot.gradients.resize(layers());
    slot.before.resize(layers());
    slot.normalised.resize(layers());
    slot.norm_gradients.resize(layers());
    slot.scales.resize(layers());
    // Vectors are loaded whole, also where a row's last columns begin within a vector.
    constexpr size_t SLACK = 64;
    slot.inputs.reserve(batch * stride(0) + SLACK);
    for (size_t i = 0; i < layers(); i++) {
        const size_t size = members() * batch * stride(i + 1) + SLACK;
        slot.outputs[i].reserve(size);
        slot.gradients[i].reserve(size);
        if (activation_ == Activation::silu && !is_last(i)) slot.before[i].reserve(size);
        if (normed(i)) {
            slot.normalised[i].reserve(size);
            slot.norm_gradients[i].reserve(size);
            slot.scales[i].reserve(members() * batch);
        }
    }
    slot.batch = batch;
    return slot;
}

void Mlp::load_rows(Slot& slot, const Rows& x, const Rows& x2, int64_t first, int64_t last) const {
    for (int64_t row = first; row < last; row++) {
        float* to = slot.inputs.data() + row * stride(0);
        if (x.width > 0) std::memcpy(to, x.data + row * x.width, x.width * sizeof(float));
        if (x2.width > 0) std::memcpy(to + x.width, x2.data + row * x2.width, x2.width * sizeof(float));
    }
}

void Mlp::forward_rows(Slot& slot, const float* params, int64_t first, int64_t last, float* scratch) {
    for (size_t m = 0; m < members_.size(); m++) {
        for (size_t i = 0; i < layers(); i++) {
            ForwardLayer layer{};
            layer.rows = last - first;
            layer.inner = widths_[i];
            layer.columns = widths_[i + 1];
            layer.a = inputs_of(slot, i, m, first);
            layer.a_stride = stride(i);
            layer.weight = weight(params, i, m);
            layer.bias = bias(params, i, m);
            layer.activation = is_last(i) ? output_activation_ : normed(i) ? Activation::none : activation_;
            layer.c = rows_of(normed(i) ? slot.normalised : slot.outputs, i, m, slot.batch, first);
            layer.c_stride = stride(i + 1);
            if (layer.activation == Activation::silu) layer.before = rows_of(slot.before, i, m, slot.batch, first);
            isa().ops->forward_layer(layer, scratch);
            if (normed(i)) norm_forward(slot, params, i, m, first, last);
        }
    }
}

void Mlp::norm_forward(
    Slot& slot, const float* params, size_t layer, size_t member, int64_t first, int64_t last) {
    NormLayer n{};
    n.rows = last - first;
    n.width = widths_[layer + 1];
    n.stride = stride(layer + 1);
    n.x = rows_of(slot.normalised, layer, member, slot.batch, first);
    n.gain = params + members_[member].norms[layer].weight;
    n.bias = params + members_[member].norms[layer].bias;
    n.activation = activation_;
    n.out = rows_of(slot.outputs, layer, member, slot.batch, first);
    if (activation_ == Activation::silu) n.before = rows_of(slot.before, layer, member, slot.batch, first);
    n.scales = slot.scales[layer].data() + static_cast<int64_t>(member) * slot.batch + first;
    isa().ops->norm_layer(n);
}

void Mlp::norm_backward(
    Slot& slot, const float* params, size_t layer, size_t member, int64_t first, int64_t last) {
    NormGradient g{};
    g.rows = last - first;
    g.width = widths_[layer + 1];
    g.stride = stride(layer + 1);
    g.outer = rows_of(slot.norm_gradients, layer, member, slot.batch, first);
    g.normalised = rows_of(slot.normalised, layer, member, slot.batch, first);
    g.gain = params + members_[member].norms[layer].weight;
    g.scales = slot.scales[layer].data() + static_cast<int64_t>(member) * slot.batch + first;
    g.inner = rows_of(slot.gradients, layer, member, slot.batch, first);
    isa().ops->norm_gradient(g);
}

void Mlp::store_rows(Slot& slot, float* out, int64_t first, int64_t last) {
    for (size_t m = 0; m < members_.size(); m++) {
        float* to = out + static_cast<int64_t>(m) * slot.batch * outputs();
        for (int64_t row = first; row < last; row++) {
            const float* from = rows_of(slot.outputs, layers() - 1, m, slot.batch, row);
            std::memcpy(to + row * outputs(), from, outputs() * sizeof(float));
        }
    }
}

void Mlp::forward(const float* params, const Rows& x, const Rows& x2, int64_t batch, float* out, size_t index) {
    prepare_forward(params, batch, index);
    if (batch == 0) return;
    Pool::get().run(threads(batch), [&](Region& region) {
        region.chunks(batch, 1, [&](int64_t first, int64_t last) {
            forward_piece(params, x, x2, out, index, first, last, region.scratch());
        });
    });
}

void Mlp::prepare_forward(const float* params, int64_t batch, size_t index) {
    prepare(index, batch);
    if (batch > 0) gather_heads(params);
}

void Mlp::forward_piece(const float* params, const Rows& x, const Rows& x2, float* out, size_t index, int64_t first,
                        int64_t last, float* scratch) {
    Slot& slot = slots_[index];
    load_rows(slot, x, x2, first, last);
    forward_rows(slot, params, first, last, scratch);
    store_rows(slot, out, first, last);
}

void Mlp::load_out_grad(Slot& slot, const float* out_grad, int64_t first, int64_t last) {
    for (size_t m = 0; m < members_.size(); m++) {
        for (int64_t row = first; row < last; row++) {
            const float* from = out_grad + (static_cast<int64_t>(m) * slot.batch + row) * outputs();
            float* to = rows_of(slot.gradients, layers() - 1, m, slot.batch, row);
            if (output_activation_ == Activation::tanh) {
                const float* out = rows_of(slot.outputs, layers() - 1, m, slot.batch, row);
                isa().ops->tanh_gradient(from, out, to, outputs());
            } else {
                std::memcpy(to, from, outputs() * sizeof(float));
            }
        }
    }
}

void Mlp::backward_rows(Slot& slot, const float* params, int64_t first, int64_t last, float* scratch) {
    for (size_t m = 0; m < members_.size(); m++) {
        for (size_t i = layers() - 1; i >= 1; i--) {
            InputGradient g{};
            g.rows = last - first;
            g.inner = widths_[i + 1];
            g.columns = widths_[i];
            g.d = rows_of(slot.gradients, i, m, slot.batch, first);
            g.d_stride = stride(i + 1);
            g.weight = weight(params, i, m);
            g.weight_stride = widths_[i];
            g.activation = activation_;
            std::vector<FloatBuffer>& kept = activation_ == Activation::silu ? slot.before : slot.outputs;
            g.h = rows_of(kept, i - 1, m, slot.batch, first);
            g.c = rows_of(normed(i - 1) ? slot.norm_gradients : slot.gradients, i - 1, m, slot.batch, first);
            g.c_stride = stride(i);
            isa().ops->input_gradient(g, scratch);
            if (normed(i - 1)) norm_backward(slot, params, i - 1, m, first, last);
        }
    }
}

void Mlp::input_rows(
    Slot& slot, const float* params, float* x2_grad, int64_t width, int64_t first, int64_t last, float* scratch) {
    // Tiles store whole panels, so they need rows with room behind them: a strip of the scratch memory, cut to size.
    constexpr int64_t STRIP = 240;
    float* packed = scratch;
    float* strip = scratch + Pool::SCRATCH / 2;
    for (int64_t row = first; row < last; row += STRIP) {
        const int64_t rows = std::min(STRIP, last - row);
        for (int64_t column = 0; column < width; column += isa().ops->panel) {
            const int64_t columns = std::min(isa().ops->panel, width - column);
            for (size_t m = 0; m < members_.size(); m++) {
                InputGradient g{};
                g.rows = rows;
                g.inner = widths_[1];
                g.columns = columns;
                g.d = rows_of(slot.gradients, 0, m, slot.batch, row);
                g.d_stride = stride(1);
                g.weight = weight(params, 0, m) + inputs() - width + column;
                g.weight_stride = inputs();
                g.accumulate = m > 0;
                g.activation = Activation::none;
                g.c = strip;
                g.c_stride = isa().ops->panel;
                isa().ops->input_gradient(g, packed);
            }
            for (int64_t r = 0; r < rows; r++) {
                float* to = x2_grad + (row + r) * width + column;
                std::memcpy(to, strip + r * isa().ops->panel, columns * sizeof(float));
            }
        }
    }
}

void Mlp::weight_task(Slot& slot, float* grads, int task) {
    const int each = tasks_ / static_cast<int>(members_.size());
    const size_t m = task / each;
    task %= each;
    size_t b = 0;
    for (; task >= block_tasks_[b]; b++) task -= block_tasks_[b];
    const Block& block = blocks_[m][b];
    const float* d = rows_of(slot.gradients, block.layer, m, slot.batch, 0) + block.column;
    const int64_t d_stride = stride(block.layer + 1);
    if (normed(block.layer) && task == block_tasks_[b] - 1) {
        const Linear& norm = members_[m].norms[block.layer];
        const float* outer = rows_of(slot.norm_gradients, block.layer, m, slot.batch, 0);
        const float* normalised = rows_of(slot.normalised, block.layer, m, slot.batch, 0);
        isa().ops->column_products(outer, normalised, d_stride, slot.batch, norm.width, grads + norm.weight);
        isa().ops->column_sums(outer, d_stride, slot.batch, norm.width, grads + norm.bias);
        return;
    }
    if (task == block_tasks_[b] - 1 - normed(block.layer)) {
        isa().ops->column_sums(d, d_stride, slot.batch, block.linear.width, grads + block.linear.bias);
        return;
    }
    const int64_t inner = widths_[block.layer], panel = isa().ops->panel, panels = ceil_div(inner, panel);
    const int64_t column = task % panels * panel;
    const bool whole = row_tiles(block.linear.width) == 1;
    const int64_t row = whole ? 0 : task / panels * isa().ops->tile_rows;
    WeightTile tile{};
    tile.batch = slot.batch;
    tile.rows = whole ? block.linear.width : std::min(isa().ops->tile_rows, block.linear.width - row);
    tile.columns = std::min(panel, inner - column);
    tile.d = d + row;
    tile.d_stride = d_stride;
    tile.x = inputs_of(slot, block.layer, m, 0) + column;
    tile.x_stride = stride(block.layer);
    tile.gradient = grads + block.linear.weight + row * inner + column;
    tile.gradient_stride = inner;
    isa().ops->weight_tile(tile);
}

void Mlp::backward(
    const float* params, const float* out_grad, float* grads, size_t index, float* x2_grad, int64_t x2_width) {
    Slot& slot = slots_[index];
    gather_heads(params);
    Pool::get().run(threads(slot.batch), [&](Region& region) {
        region.chunks(slot.batch, 1, [&](int64_t first, int64_t last) {
            backward_piece(params, out_grad, index, first, last, region.scratch());
            if (x2_grad != nullptr) input_rows(slot, params, x2_grad, x2_width, first, last, region.scratch());
        });
        if (grads == nullptr) return;
        region.tasks(weight_tasks(), [&](int task) { weight_task(slot, grads, task); });
    });
}

void Mlp::backward_piece(
    const float* params, const float* out_grad, size_t index, int64_t first, int64_t last, float* scratch) {
    Slot& slot = slots_[index];
    load_out_grad(slot, out_grad, first, last);
    backward_rows(slot, params, first, last, scratch);
}

}  // namespace steady
