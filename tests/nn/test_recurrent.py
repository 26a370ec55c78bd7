"""The recurrent networks against their formulas, and sequences with episode ends inside against a step at a time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor

from steadyrl.data.rollout import RolloutBatch
from steadyrl.data.sequences import SequenceBatch
from steadyrl.nn.architecture import Architecture
from steadyrl.nn.policy import Policy
from steadyrl.nn.recurrent import Memory, RecurrentActorCritic
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from support.policies import ACTIONS, make_policy
from support.recurrent import KINDS, options, unrolled

LENGTH, N = 13, 4
SPACE = gs.Box(-2.0, 2.0, (3,), np.float32)


def net_of(policy: Policy) -> RecurrentActorCritic:
    assert isinstance(policy.net, RecurrentActorCritic)
    return policy.net


def sequences(policy: Policy, seed: int = 0) -> tuple[SequenceBatch, dict[str, Tensor], Any, Tensor]:
    """A rollout with episode ends anywhere, rows that do not count, and states from before."""
    generator = np.random.default_rng(seed)
    starts = generator.random((LENGTH, N)) < 0.2
    starts[0] = [True, False, False, True]
    valid = generator.random((LENGTH, N)) < 0.9
    obs = {"": torch.from_numpy(generator.normal(size=(LENGTH * N, 3)).astype(np.float32))}
    states = torch.from_numpy(generator.normal(size=(N, policy.state_size)).astype(np.float32))
    flat = torch.arange(LENGTH * N, dtype=torch.float32)
    rows = RolloutBatch(obs, flat.long(), flat, flat, flat, flat)
    return SequenceBatch(rows, valid, starts, states), obs, starts, states


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def by_hand(memory: Memory, x: Any, state: Any) -> Any:
    """The new state [K, S] by the formulas in PyTorch's documentation, in float64."""
    w_ih, w_hh, b_ih, b_hh = (p.detach().numpy().astype(np.float64) for p in memory.parameters())
    own, size = x @ w_ih.T + b_ih, memory.size
    if memory.kind == "lstm":
        h, c = state[:, :size], state[:, size:]
        i, f, g, o = np.split(own + h @ w_hh.T + b_hh, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return np.concatenate([sigmoid(o) * np.tanh(c), c], axis=1)
    r, z, n = np.split(own, 3, axis=1)
    hr, hz, hn = np.split(state @ w_hh.T + b_hh, 3, axis=1)
    z = sigmoid(z + hz)
    return (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * state


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_memory_computes_the_formulas(kind: str) -> None:
    memory = Memory(kind, 3, 5)
    memory.initialise(Stream(1, "weights"), ortho=False)
    generator = np.random.default_rng(2)
    x, state = generator.normal(size=(6, 4, 3)), generator.normal(size=(4, memory.state_size))
    with torch.no_grad():
        out, after = memory(torch.from_numpy(x).float(), torch.from_numpy(state).float())
    for t in range(6):
        state = by_hand(memory, x[t], state)
        np.testing.assert_allclose(out[t], state[:, :5], atol=1e-5)
    np.testing.assert_allclose(after, state, atol=1e-5)


@pytest.mark.parametrize(("kind", "shared"), KINDS)
@pytest.mark.parametrize("action", ["categorical", "gaussian", "multi-categorical"])
def test_outputs_and_gradients_are_those_of_single_steps_with_episode_ends_inside(
    kind: str, shared: bool, action: str
) -> None:
    policy = make_policy(SPACE, ACTIONS[action][0], **options(kind, shared))
    policy.initialise(Stream(3, "weights"), ortho=True)
    net = net_of(policy)
    batch, obs, starts, states = sequences(policy)
    minibatch, whole = batch.take(np.arange(N))
    counted = minibatch.actions  # numbers of the rows themselves
    found: list[tuple[list[Tensor], list[Tensor]]] = []
    for reference in (False, True):
        net.zero_grad(set_to_none=False)
        params, values = net(whole) if not reference else unrolled(net, obs, starts, states)[:2]
        if reference:
            params = tuple(p[counted] if len(p) == LENGTH * N else p for p in params)
            values = values[counted]
        weight = torch.linspace(-1.0, 1.0, len(values))
        loss = (weight * values).sum() + sum((weight * p.T).square().sum() for p in params if len(p) == len(values))
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad.clone() for p in net.parameters() if p.grad is not None]
        found.append(([values.detach(), *(p.detach() for p in params)], gradients))
    for one, two in zip(found[0][0] + found[0][1], found[1][0] + found[1][1], strict=True):
        np.testing.assert_allclose(one, two, atol=2e-5, rtol=2e-4)
    assert max(float(gradient.abs().max()) for gradient in found[0][1]) > 0.1


@pytest.mark.parametrize(("kind", "shared"), KINDS)
def test_a_subset_of_environments_gives_the_rows_of_the_whole(kind: str, shared: bool) -> None:
    policy = make_policy(SPACE, **options(kind, shared))
    batch, _, _, _ = sequences(policy)
    envs = np.array([2, 0])
    minibatch, some = batch.take(envs)
    everything, whole = batch.take(np.arange(N))
    _, values = policy.parts["net"].evaluate(some)[-1], policy.parts["net"].evaluate(whole)[-1]
    of_row = dict(zip(everything.actions.tolist(), values.tolist(), strict=True))
    mine = policy.parts["net"].evaluate(some)[-1]
    assert {row % N for row in minibatch.actions.tolist()} == {0, 2}
    np.testing.assert_allclose(mine, [of_row[row] for row in minibatch.actions.tolist()], atol=1e-6)


def test_nothing_is_remembered_across_the_start_of_an_episode() -> None:
    policy = make_policy(SPACE, **options("lstm", False))
    net = net_of(policy)
    obs = {"": torch.randn(5, 3, generator=torch.Generator().manual_seed(1))}
    state = torch.ones(5, policy.state_size)
    starts = torch.tensor([True, False, True, False, True])
    with torch.no_grad():
        _, values, after = net.step(obs, state, starts)
        _, fresh, new = net.step(obs, torch.zeros_like(state), torch.ones(5, dtype=torch.bool))
    assert torch.equal(values[starts], fresh[starts])
    assert torch.equal(after[starts], new[starts])
    assert not torch.allclose(values[~starts], fresh[~starts])


@pytest.mark.parametrize(("kind", "shared"), KINDS)
@pytest.mark.parametrize("net_arch", [(), (7,), (5, 4)])
@pytest.mark.parametrize("name", ["categorical", "gaussian", "gsde", "bernoulli"])
def test_the_weights_are_as_many_as_were_counted(kind: str, shared: bool, net_arch: tuple[int, ...], name: str) -> None:
    action, own = ACTIONS[name]
    policy = make_policy(SPACE, action, net_arch=net_arch, **{**own, **options(kind, shared)})
    wanted = policy.architecture.parameters(ObsSpec.of(SPACE), ActionSpec.of(action))
    assert sum(p.numel() for p in policy.net.parameters()) == wanted


def test_orthogonal_weights_are_so_for_each_gate() -> None:
    memory = Memory("lstm", 3, 8)
    memory.initialise(Stream(1, "weights"), ortho=True)
    for gate in memory.weight_hh.detach().split(8):  # type: ignore[no-untyped-call]
        np.testing.assert_allclose(gate @ gate.T, np.eye(8), atol=1e-5)
    for gate in memory.weight_ih.detach().split(8):  # type: ignore[no-untyped-call]
        np.testing.assert_allclose(gate.T @ gate, np.eye(3), atol=1e-5)
    assert float(memory.bias_ih.detach().abs().max()) == 0.0


def test_torchs_own_generator_has_no_part_in_the_weights() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = make_policy(SPACE, **options("gru", False)).sha256()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert make_policy(SPACE, **options("gru", False)).sha256() == one


@pytest.mark.parametrize(
    "wrong",
    [
        {"recurrent": "rnn", "recurrent_size": 4},
        {"recurrent": "lstm", "recurrent_size": 0},
        {"recurrent": "lstm", "recurrent_size": True},
        {"recurrent": "none", "recurrent_size": 4},
        {"recurrent": "lstm", "recurrent_size": 4, "recurrent_shared": 1},
        {"recurrent": "lstm", "recurrent_size": 4, "family": "sac"},
    ],
)
def test_a_description_that_makes_no_network_is_refused(wrong: dict[str, Any]) -> None:
    networks: dict[str, tuple[int, ...]] = {"pi": (4,), "qf": (4,)} if wrong.get("family") else {"pi": (4,), "vf": (4,)}
    whole = asdict(Architecture(networks, "tanh"))
    if "family" not in wrong:
        assert Architecture.from_json(whole).recurrent == "none"
    with pytest.raises(ValueError, match="is no architecture"):
        Architecture.from_json({**whole, **wrong})


def test_a_policy_comes_back_from_its_description() -> None:
    policy = make_policy(SPACE, **options("lstm", True))
    again = Policy.from_description(policy.describe(), torch.device("cpu"))
    again.load_state_dict(policy.state_dict())
    assert again.sha256() == policy.sha256()
    assert again.state_size == policy.state_size == 12


def test_weights_put_in_place_of_the_policys_own_are_computed_with() -> None:
    policy, other = make_policy(SPACE, **options("lstm", False)), make_policy(SPACE, seed=9, **options("lstm", False))
    obs = {"": np.ones((2, 3), dtype=np.float32)}
    state, starts = np.zeros((2, policy.state_size), dtype=np.float32), np.array([True, True])
    policy.net.load_state_dict(other.net.state_dict(), assign=True)
    policy.regain()
    np.testing.assert_array_equal(policy.respond(obs, state, starts)[1], other.respond(obs, state, starts)[1])
