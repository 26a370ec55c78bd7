"""Kernels behind an encoder that PyTorch runs: the outputs and gradients of PyTorch alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor

from steadyrl import kernels
from steadyrl.nn.architecture import Architecture
from steadyrl.nn.policy import Policy
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from support.policies import CPU
from support.trees import ACTION_TREE, LEAVES, VECTOR, drawn

pytestmark = pytest.mark.skipif(not kernels.available(), reason=kernels.reason())
SPACE = gs.Dict({"i": LEAVES["image"], "s": LEAVES["sequence"], "v": VECTOR})
BOX = gs.Box(-1, 1, (2,))
B = 9


def policies(action: gs.Space[Any], architecture: Architecture, space: gs.Space[Any] = SPACE) -> list[Policy]:
    """The same policy on kernels and on PyTorch."""
    spec, found = ObsSpec.of(space), []
    for native in (True, False):
        policy = Policy(spec, ActionSpec.of(action), architecture, None, CPU, native=native)
        policy.initialise(Stream(5, "weights"), ortho=True)
        found.append(policy)
    return found


def observations(space: gs.Space[Any] = SPACE) -> dict[str, Tensor]:
    spec = ObsSpec.of(space)
    rows = [drawn(space, seed) for seed in range(B)]
    return {path: torch.from_numpy(leaf) for path, leaf in spec.store(spec.tree.batch(rows), batch=True).items()}


def insist_on_equal(native: Trainable, plain: Trainable, *inputs: Any, appended: bool = False) -> None:
    outputs, expected = native.forward(*inputs), plain.forward(*inputs)
    stream = Stream(7, "gradients")
    gradients = tuple(torch.from_numpy(stream.normal(tuple(out.shape))) for out in expected)
    for found, wanted in zip(outputs, expected, strict=True):
        assert torch.allclose(found, wanted, atol=1e-5)
    if appended:
        assert torch.allclose(native.input_gradient(gradients), plain.input_gradient(gradients), atol=1e-4)
        native.forward(*inputs), plain.forward(*inputs)
    native.flat.grad.fill_(99.0)  # what is there before has no part
    native.backward(gradients)
    plain.backward(gradients)
    for (name, own), other in zip(native.module.named_parameters(), plain.module.parameters(), strict=True):
        assert own.grad is not None
        assert other.grad is not None
        assert torch.allclose(own.grad, other.grad, atol=2e-4, rtol=1e-4), name
        assert other.grad.abs().max() > 0, name


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("action", [gs.Discrete(3), BOX, ACTION_TREE], ids=["discrete", "box", "tree"])
def test_actor_critics(action: gs.Space[Any], shared: bool) -> None:
    made = Architecture({"pi": (8,), "vf": (6, 5)}, "tanh", cnn="nature", share_features_extractor=shared)
    native, plain = policies(action, made)
    assert native.parts["net"].encodes_by_torch
    assert not native.parts["net"].on_kernels
    insist_on_equal(native.parts["net"], plain.parts["net"], observations())


def test_a_tree_of_actions_runs_on_kernels_alone() -> None:
    native, plain = policies(ACTION_TREE, Architecture({"pi": (8,), "vf": (8,)}, "tanh"), VECTOR)
    assert native.parts["net"].on_kernels
    insist_on_equal(native.parts["net"], plain.parts["net"], observations(VECTOR))


def test_action_values() -> None:
    made = Architecture({"qf": (8,)}, "relu", family="dqn", cnn="impala")
    native, plain = policies(gs.Discrete(3), made)
    assert native.parts["q"].encodes_by_torch
    insist_on_equal(native.parts["q"], plain.parts["q"], observations())


@pytest.mark.parametrize("critics", [1, 2])
def test_actors_and_critics(critics: int) -> None:
    made = Architecture({"pi": (8,), "qf": (8,)}, "relu", family="sac", n_critics=critics, cnn="nature")
    native, plain = policies(BOX, made)
    assert all(part.encodes_by_torch for part in native.parts.values())
    actions = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (B, 2)).astype(np.float32))
    insist_on_equal(native.parts["pi"], plain.parts["pi"], observations())
    insist_on_equal(native.parts["q"], plain.parts["q"], observations(), actions, appended=True)


@pytest.mark.parametrize("shared", [True, False])
def test_acting_is_what_learning_sees(shared: bool) -> None:
    """The ratio of the first minibatch is one: the same log-probabilities and values."""
    made = Architecture({"pi": (8,), "vf": (8,)}, "tanh", cnn="nature", share_features_extractor=shared)
    policy = policies(ACTION_TREE, made)[0]
    obs = {path: leaf.numpy() for path, leaf in observations().items()}
    actions, log_probs, values = policy.act(obs, policy.distribution.draw(Stream(3, "noise"), B))
    *params, seen = policy.parts["net"].forward(observations())
    assert torch.allclose(policy.distribution.log_prob(tuple(params), actions), log_probs, atol=1e-5)
    assert torch.allclose(seen, values, atol=1e-5)


def test_a_copy_learns_by_itself() -> None:
    native, plain = policies(gs.Discrete(3), Architecture({"qf": (8,)}, "relu", family="dqn", cnn="nature"))
    target = native.parts["q"].target()
    before = target.flat.data.clone()
    insist_on_equal(native.parts["q"], plain.parts["q"], observations())
    native.parts["q"].flat.data.add_(1.0)
    assert torch.equal(target.flat.data, before)
    (found,) = target.evaluate(observations())
    (expected,) = plain.parts["q"].evaluate(observations())
    assert torch.allclose(found, expected, atol=1e-5)
