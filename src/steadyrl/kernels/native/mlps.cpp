// Divides the passes of several networks among threads: by network first, for whoever has a whole one packs its weights
// once, then by rows as mlp.cpp does. Neither changes a bit.
#include "mlps.h"

#include <algorithm>

namespace steady {

double Mlps::operations(int64_t batch) const {
    double sum = 0;
    for (const Mlp* each : networks_) sum += each->operations(batch);
    return sum;
}

template <class Body>
void Mlps::pieces(Region& region, int64_t batch, Body&& body) const {
    const int count = static_cast<int>(size());
    double largest = 0;
    for (const Mlp* each : networks_) largest = std::max(largest, each->operations(batch));
    // Networks of about the same size share the threads evenly whole; a large one beside a small one must be cut.
    const bool even = largest * count <= 1.25 * operations(batch);
    const int64_t cuts = even ? (region.threads() + count - 1) / count : region.threads();
    const int64_t rows = (batch + cuts - 1) / cuts;
    region.tasks(static_cast<int>(cuts) * count, [&](int task) {
        const int64_t first = task / count * rows, last = std::min(first + rows, batch);
        if (first < last) body(static_cast<size_t>(task % count), first, last);
    });
}

void Mlps::forward(
    const float* params, const Rows& x, int64_t batch, const std::vector<float*>& outs, size_t slot) {
    for (Mlp* each : networks_) each->prepare_forward(params, batch, slot);
    if (batch == 0) return;
    Pool::get().run(threads_for(operations(batch)), [&](Region& region) {
        pieces(region, batch, [&](size_t i, int64_t first, int64_t last) {
            networks_[i]->forward_piece(params, x, {}, outs[i], slot, first, last, region.scratch());
        });
    });
}

void Mlps::backward(const float* params, const std::vector<const float*>& out_grads, float* grads, size_t slot) {
    for (Mlp* each : networks_) each->gather_heads(params);
    const int64_t batch = networks_.front()->batch(slot);
    Pool::get().run(threads_for(operations(batch)), [&](Region& region) {
        pieces(region, batch, [&](size_t i, int64_t first, int64_t last) {
            networks_[i]->backward_piece(params, out_grads[i], slot, first, last, region.scratch());
        });
        int tasks = 0;
        for (const Mlp* each : networks_) tasks += each->weight_tasks();
        region.tasks(tasks, [&](int task) {
            size_t i = 0;
            for (; task >= networks_[i]->weight_tasks(); i++) task -= networks_[i]->weight_tasks();
            networks_[i]->weight_task(grads, slot, task);
        });
    });
}

}  // namespace steady
