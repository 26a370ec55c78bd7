// Several networks on the same inputs, run as one: a policy and a value network, whose passes overlap.
#pragma once
#include <cstdint>
#include <vector>

#include "mlp.h"

namespace steady {

class Mlps {
public:
    // The networks belong to the caller, which keeps them alive. They take the same number of inputs.
    explicit Mlps(std::vector<Mlp*> networks) : networks_(std::move(networks)) {}

    size_t size() const { return networks_.size(); }
    const Mlp& network(size_t i) const { return *networks_[i]; }
    int64_t inputs() const { return networks_.front()->inputs(); }

    // outs[i] [batch, outputs of i].
    void forward(const float* params, const Rows& x, int64_t batch, const std::vector<float*>& outs, size_t slot);

    // Overwrites the gradient of every parameter in `grads`.
    void backward(const float* params, const std::vector<const float*>& out_grads, float* grads, size_t slot);

private:
    // Runs body(network, first, last) over pieces of each network's rows.
    template <class Body>
    void pieces(Region& region, int64_t batch, Body&& body) const;
    double operations(int64_t batch) const;

    std::vector<Mlp*> networks_;
};

}  // namespace steady
