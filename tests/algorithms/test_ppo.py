"""The update of PPO: which transitions it uses, in which order, with which step sizes, and where it stops."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor

from steadyrl.algorithms import PPO, make_on_policy
from steadyrl.algorithms.ppo import ppo_loss
from steadyrl.configs import LinearSchedule, PPOConfig
from steadyrl.data.rollout import RolloutBatch
from steadyrl.nn.policy import Policy
from support.policies import ACTIONS, VECTOR, make_batch, make_policy, seeds, weights

NUMBERED = gs.Box(0, 1000, (1,))


def config(n: int, batch_size: int, n_epochs: int = 1, **options: Any) -> PPOConfig:
    return PPOConfig(num_envs=1, n_steps=n, batch_size=batch_size, n_epochs=n_epochs, **options)


def update(
    settings: PPOConfig, *, progress: float = 0.0, seed: int = 0, updates: int = 1
) -> tuple[Policy, list[dict[str, Tensor | float]]]:
    """Fresh weights, then updates from the same transitions; the policy and the metrics of each."""
    policy = make_policy(action=gs.Discrete(3))
    algorithm = PPO(settings, policy, seeds(seed))
    batch = make_batch(policy, VECTOR, settings.n_steps)
    return policy, [algorithm.learn(batch, progress) for _ in range(updates)]


def minibatches(settings: PPOConfig, updates: int = 1) -> list[list[int]]:
    """The numbers of the transitions in each minibatch that the network sees."""
    policy = make_policy(NUMBERED)
    algorithm = PPO(settings, policy, seeds())
    batch = make_batch(policy, NUMBERED, settings.n_steps)
    batch.obs[""].copy_(torch.arange(settings.n_steps)[:, None])
    seen: list[list[int]] = []
    handle = policy.net.register_forward_pre_hook(
        lambda module, inputs: seen.append([int(x) for x in inputs[0][""].ravel()])
    )
    for _ in range(updates):
        algorithm.learn(batch, 0.0)
    handle.remove()
    return seen


def same(a: Policy, b: Policy) -> bool:
    return all(torch.equal(x, y) for x, y in zip(weights(a).values(), weights(b).values(), strict=True))


def finite(policy: Policy) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in weights(policy).values())


@pytest.mark.parametrize(("n", "size", "sizes"), [(12, 4, [4, 4, 4]), (13, 4, [4, 4, 4, 1]), (11, 4, [4, 4, 3])])
def test_every_transition_is_used_once_an_epoch_in_a_fresh_order(n: int, size: int, sizes: list[int]) -> None:
    epochs, per_epoch = 5, len(sizes)
    seen = minibatches(config(n, size, epochs), updates=2)
    assert [len(part) for part in seen] == sizes * epochs * 2
    orders = [list(chain(*seen[i : i + per_epoch])) for i in range(0, len(seen), per_epoch)]
    assert all(sorted(order) == list(range(n)) for order in orders)
    assert len({tuple(order) for order in orders}) == 2 * epochs
    assert seen == minibatches(config(n, size, epochs), updates=2)


def test_a_remainder_of_one_stays_finite() -> None:  # case 5
    policy, metrics = update(config(9, 4, 3), updates=2)
    assert finite(policy)
    for row in metrics:
        assert row["train/minibatches"] == 9
        assert all(torch.isfinite(torch.as_tensor(value)) for value in row.values())
    # The lone advantage is used as it is: with a normalised one, (a - mean) / std, it would be 0 / 0.
    lone, _ = update(config(1, 1, normalize_advantage=False))
    assert finite(lone)
    assert not same(lone, make_policy(action=gs.Discrete(3)))


@pytest.mark.parametrize("name", ACTIONS)
def test_an_update_equals_plain_torch(name: str) -> None:
    """The same minibatches through autograd on the modules, `clip_grad_norm_` and `torch.optim.Adam`."""
    space, options = ACTIONS[name]
    settings = config(10, 4, 2, ent_coef=0.01, max_grad_norm=0.3, learning_rate=1e-2)
    ours, theirs = (make_policy(action=space, **options) for _ in range(2))
    batch = make_batch(ours, VECTOR, 10)
    PPO(settings, ours, seeds()).learn(batch, 0.0)
    optimizer = torch.optim.Adam(theirs.net.parameters(), lr=1e-2, eps=1e-5)
    order = seeds().stream("algo", "minibatches")
    for _ in range(2):
        permutation = torch.from_numpy(order.permutation(10))
        for start in (0, 4, 8):
            part: RolloutBatch = batch.take(permutation[start : start + 4])
            params, values = theirs.net(part.obs)
            loss, _ = ppo_loss((*params, values), part, theirs.distribution, settings, 0.2)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(theirs.net.parameters(), 0.3)
            optimizer.step()
    moved = 0.0
    start_weights = weights(make_policy(action=space, **options))
    for key, tensor in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[key], tensor, rtol=1e-4, atol=2e-6)
        moved = max(moved, float((tensor - start_weights[key]).abs().max()))
    assert moved > 0.01


def test_the_minibatch_that_exceeds_the_target_is_not_applied_and_ends_the_update() -> None:
    settings: dict[str, Any] = {"learning_rate": 0.01, "normalize_advantage": True}
    seen: list[int] = []
    policy = make_policy(action=gs.Discrete(3))
    batch = make_batch(policy, VECTOR, 16)
    algorithm = PPO(config(16, 16, 50, target_kl=0.01, **settings), policy, seeds())
    policy.net.register_forward_pre_hook(lambda module, inputs: seen.append(1))
    metrics = algorithm.learn(batch, 0.0)
    applied = int(metrics["train/minibatches"])
    assert 2 <= applied < 49
    assert len(seen) == applied + 1  # looked at, not applied; nothing after it
    assert float(metrics["train/approx_kl"]) <= 1.5 * 0.01
    twin, _ = update(config(16, 16, applied, **settings))
    assert same(twin, policy)
    # It stopped for a reason: one step more would have begun beyond the bound.
    with torch.no_grad():
        params, values = policy.net(batch.obs)
    _, after = ppo_loss((*params, values), batch, policy.distribution, algorithm.config, 0.2)
    assert float(after["train/approx_kl"]) > 1.5 * 0.01


def test_without_a_target_no_divergence_ends_the_update() -> None:
    _, metrics = update(config(16, 16, 50, learning_rate=0.5))
    assert metrics[0]["train/minibatches"] == 50
    assert float(metrics[0]["train/approx_kl"]) > 0.1


@pytest.mark.parametrize("progress", [0.0, 0.25, 1.0])
def test_learning_rate_follows_its_schedule(progress: float) -> None:
    scheduled, metrics = update(config(8, 4, learning_rate=LinearSchedule(2e-3, 0.0)), progress=progress)
    rate = 2e-3 * (1 - progress)
    assert metrics[0]["train/learning_rate"] == pytest.approx(rate)
    fixed, _ = update(config(8, 4, learning_rate=rate or 1e-30))
    assert same(scheduled, fixed)
    other, _ = update(config(8, 4, learning_rate=1e-3))
    assert not same(scheduled, other)


def test_clip_range_follows_its_schedule() -> None:
    options: dict[str, Any] = {"learning_rate": 0.05}
    scheduled, metrics = update(config(8, 8, 6, clip_range=LinearSchedule(0.4, 0.0), **options), progress=0.75)
    assert metrics[0]["train/clip_range"] == pytest.approx(0.1)
    fixed, _ = update(config(8, 8, 6, clip_range=0.1, **options))
    assert same(scheduled, fixed)
    wide, _ = update(config(8, 8, 6, clip_range=0.4, **options))
    assert not same(scheduled, wide)


def test_metrics_are_means_over_the_minibatches_that_were_applied() -> None:
    _, metrics = update(config(8, 4, learning_rate=1e-30))
    policy = make_policy(action=gs.Discrete(3))
    batch = make_batch(policy, VECTOR, 8)
    order = torch.from_numpy(seeds().stream("algo", "minibatches").permutation(8))
    rows = []
    for index in (order[:4], order[4:]):
        part = batch.take(index)
        params, values = policy.net(part.obs)
        loss, row = ppo_loss((*params, values), part, policy.distribution, config(8, 4), 0.2)
        rows.append(row | {"train/loss": loss})
    for name in rows[0]:
        mean = sum(row[name].item() for row in rows) / 2
        assert float(metrics[0][name]) == pytest.approx(mean, abs=1e-6)
    residual, returns = batch.returns - batch.values, batch.returns
    expected = 1 - residual.var(correction=0) / returns.var(correction=0)
    assert float(metrics[0]["train/explained_variance"]) == pytest.approx(float(expected), abs=1e-6)


def test_the_state_brings_the_next_update_back() -> None:
    settings = config(9, 4, 2)
    policy = make_policy(action=gs.Discrete(3))
    algorithm = PPO(settings, policy, seeds())
    batch = make_batch(policy, VECTOR, 9)
    algorithm.learn(batch, 0.0)
    state, saved = algorithm.state_dict(), policy.state_dict()
    algorithm.learn(batch, 0.5)
    again = make_policy(action=gs.Discrete(3), seed=5)
    resumed = PPO(settings, again, seeds(77))
    again.load_state_dict(saved)
    resumed.load_state_dict(state)
    resumed.learn(batch, 0.5)
    assert same(policy, again)
    # Each part of the state matters.
    for part in ("order", "optimizer"):
        lame = make_policy(action=gs.Discrete(3))
        fresh = PPO(settings, lame, seeds(77))
        lame.load_state_dict(saved)
        fresh.load_state_dict(state | {part: fresh.state_dict()[part]})
        fresh.learn(batch, 0.5)
        assert not same(policy, lame)


def test_the_configuration_makes_its_algorithm() -> None:
    assert isinstance(make_on_policy(config(8, 4), make_policy(), seeds()), PPO)
