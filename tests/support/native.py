"""Networks on the kernels beside the same ones in PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import torch
from gymnasium import spaces as gs

from steadyrl.nn.policy import Policy
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from support.policies import sample


def inputs_of(policy: Policy, part: str, space: gs.Space[Any], n: int) -> tuple[Any, ...]:
    obs = policy.tensors(policy.obs_spec.store(sample(space, n, seed=n), batch=True))
    if part == "q" and policy.action_spec.kind == "continuous":
        return obs, torch.from_numpy(2 * Stream(n, "actions").uniform((n, policy.action_spec.size)) - 1)
    return (obs,)


def twin(part: Trainable) -> Trainable:
    return Trainable(copy.deepcopy(part.module), native=True)


def check(part: Trainable, inputs: tuple[Any, ...]) -> None:
    native = twin(part)
    expected, found = part.forward(*inputs), native.forward(*inputs)
    weights = tuple(torch.from_numpy(Stream(i, "weights").normal(tuple(x.shape))) for i, x in enumerate(expected))
    for ours, theirs, looked in zip(found, expected, native.evaluate(*inputs), strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)
        assert torch.equal(looked, ours)
    native.flat.grad.fill_(7.0)
    part.backward(weights)
    native.backward(weights)
    for p, q in zip(native.module.parameters(), part.module.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)
    if len(inputs) == 2:
        part.forward(*inputs)
        native.forward(*inputs)
        native.evaluate(*inputs_of_other_size(inputs))  # a look keeps nothing of a learning pass away
        before = native.flat.grad.clone()
        torch.testing.assert_close(native.input_gradient(weights), part.input_gradient(weights), rtol=1e-4, atol=1e-5)
        assert torch.equal(native.flat.grad, before)


def inputs_of_other_size(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    obs, actions = inputs
    return {path: leaf[:1] for path, leaf in obs.items()}, actions[:1]
