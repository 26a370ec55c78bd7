"""DQN: its losses and targets against plain formulas, its schedules, its target network."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from steadyrl.algorithms import DQN
from steadyrl.algorithms.dqn import LOSSES, c51_loss, dqn_loss, dqn_target, quantile_loss
from steadyrl.configs import DQNConfig
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.gradient import with_gradient
from steadyrl.nn.policy import Policy
from steadyrl.nn.q_networks import DiscreteQ
from steadyrl.spaces.masks import MASK
from support.kernels import needs_native
from support.off_policy import (
    Floats,
    linears,
    numbers,
    numeric_gradient,
    off_policy,
    parameters,
    plain_adam,
    source_of,
    tanh_mlp,
    transitions,
)
from support.policies import seeds

HEADS: dict[str, dict[str, Any]] = {
    "dqn": {},
    "dueling": {"dueling": True},
    "c51": {"head": "c51", "n_atoms": 5, "v_min": -2.0, "v_max": 2.0},
    "quantile": {"head": "quantile", "n_quantiles": 4},
}


def make(family: str = "dqn", **options: Any) -> tuple[DQN, Policy]:
    policy = off_policy(family)
    config = DQNConfig(**{"batch_size": 6, "learning_rate": 1e-2, "max_grad_norm": 0.0, **HEADS[family], **options})
    return DQN(config, policy, seeds()), policy


def shake(algorithm: DQN, seed: int = 5) -> None:
    """Make the target network one that disagrees with the online one."""
    other = (
        off_policy("dqn", seed=seed)
        if algorithm.config.head == "mean"
        else off_policy(algorithm.config.head, seed=seed)
    )
    algorithm._target.module.load_state_dict(other.parts["q"].module.state_dict())


def values(net: torch.nn.Module, obs: Tensor) -> Floats:
    """[B, A] of a plain network, in NumPy."""
    return tanh_mlp(linears(net), numbers(obs))


@pytest.mark.parametrize("double", [False, True])
def test_targets_with_networks_that_disagree(double: bool) -> None:
    algorithm, policy = make(double=double)
    shake(algorithm)
    batch = transitions(policy, 64)
    online, target = values(policy.net, batch.next_obs[""]), values(algorithm._target.module, batch.next_obs[""])
    assert (online.argmax(1) != target.argmax(1)).sum() > 10
    best = (online if double else target).argmax(1)
    expected = numbers(batch.rewards) + numbers(batch.discounts) * ~batch.terminated.numpy() * target[range(64), best]
    np.testing.assert_allclose(numbers(algorithm._targets(batch)), expected, rtol=1e-5, atol=1e-6)
    value_of_max = target.max(1)
    assert (target[range(64), best] <= value_of_max + 1e-9).all()
    assert double == bool((target[range(64), best] < value_of_max - 1e-6).any())


def test_the_target_of_a_terminated_step_is_its_reward_and_of_a_truncated_one_is_not() -> None:
    algorithm, policy = make()
    batch = transitions(policy, 10, done=0.5)  # a batch knows of termination only: truncated steps are ordinary ones
    found = algorithm._targets(batch)
    over = batch.terminated
    assert 0 < int(over.sum()) < 10
    assert torch.equal(found[over], batch.rewards[over])
    assert not torch.isclose(found[~over], batch.rewards[~over]).any()


@pytest.mark.parametrize("double", [False, True])
def test_quantile_targets_are_the_quantiles_of_the_action_with_the_best_mean(double: bool) -> None:
    algorithm, policy = make("quantile", double=double)
    shake(algorithm)
    batch = transitions(policy, 32)
    online = values(policy.net, batch.next_obs[""]).reshape(32, 3, 4)
    target = values(algorithm._target.module, batch.next_obs[""]).reshape(32, 3, 4)
    best = (online if double else target).mean(-1).argmax(1)
    expected = (
        numbers(batch.rewards)[:, None]
        + (numbers(batch.discounts) * ~batch.terminated.numpy())[:, None] * (target[range(32), best])
    )
    np.testing.assert_allclose(numbers(algorithm._targets(batch)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("double", [False, True])
def test_c51_targets_are_distributions_with_the_mean_of_the_bellman_step(double: bool) -> None:
    algorithm, policy = make("c51", double=double, v_min=-2.0, v_max=2.0)
    shake(algorithm)
    batch = transitions(policy, 32)
    batch = batch._replace(rewards=batch.rewards * 0.01, discounts=batch.discounts * 0.5)  # nothing is clipped
    support = np.linspace(-2, 2, 5)

    def means(net: torch.nn.Module) -> Floats:
        logits = values(net, batch.next_obs[""]).reshape(32, 3, 5)
        p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        return np.asarray(p @ support)

    q_target = means(algorithm._target.module)
    best = (means(policy.net) if double else q_target).argmax(1)
    expected = numbers(batch.rewards) + numbers(batch.discounts) * ~batch.terminated.numpy() * q_target[range(32), best]
    found = numbers(algorithm._targets(batch))
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-6)
    np.testing.assert_allclose(found @ support, expected, atol=1e-5)
    over = batch.terminated.numpy()
    assert (np.count_nonzero(found[over] > 1e-6, axis=1) <= 2).all()  # a terminated return is one number


@needs_native
@pytest.mark.parametrize("family", HEADS)
@pytest.mark.parametrize("masks", [False, True])
def test_targets_on_the_kernels_are_those_of_torch(family: str, masks: bool) -> None:
    torch.manual_seed(3)
    outputs, chooser = torch.randn(2, 16, 3, {"c51": 5, "quantile": 4}.get(family, 1)).unbind()
    algorithm, policy = make(family)
    batch = transitions(policy, 16)
    if masks:
        allowed = (torch.rand(16, 3) < 0.5).to(torch.float32)  # as they are stored
        allowed[:, 1] = 1
        batch = batch._replace(next_obs={**batch.next_obs, MASK: allowed})
    head, support = algorithm.config.head, algorithm._net.support
    from steadyrl.kernels.program import TracedFunction

    found = TracedFunction(partial(dqn_target, head=head))(outputs, chooser, batch, support)
    expected = dqn_target(outputs, chooser, batch, support, head=head)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    if family in ("dqn", "dueling", "quantile"):
        assert torch.equal(found, expected)  # no sums whose order could differ


def test_the_huber_loss_by_hand() -> None:
    """Errors 0.5 and -3, weights 1 and 0.5: (0.125 + 0.5 * 2.5) / 2."""
    outputs = torch.tensor([[[1.5], [9.0]], [[9.0], [-1.0]]], requires_grad=True)
    batch = transitions(off_policy("dqn"), 2)._replace(actions=torch.tensor([0, 1]), weights=torch.tensor([1.0, 0.5]))
    loss, metrics, (gradient,) = with_gradient(dqn_loss, (outputs,), batch, torch.tensor([1.0, 2.0]))
    assert loss.item() == pytest.approx((0.125 + 1.25) / 2)
    assert metrics["td"].tolist() == pytest.approx([0.5, 3.0])
    assert metrics["train/q_mean"].item() == pytest.approx(0.25)
    assert gradient.squeeze(-1).tolist() == [[pytest.approx(0.25), 0.0], [0.0, pytest.approx(-0.25)]]


def test_the_cross_entropy_of_c51_by_hand() -> None:
    logits = torch.log(torch.tensor([[[0.2, 0.8], [0.5, 0.5]]]))
    batch = transitions(off_policy("c51"), 1)._replace(actions=torch.tensor([0]), weights=torch.tensor([0.5]))
    loss, metrics = c51_loss((logits,), batch, torch.tensor([[0.25, 0.75]]))
    expected = -(0.25 * np.log(0.2) + 0.75 * np.log(0.8))
    assert loss.item() == pytest.approx(0.5 * expected)
    assert metrics["td"].item() == pytest.approx(expected)


@pytest.mark.parametrize("head", LOSSES)
def test_gradients_are_those_of_finite_differences(head: str) -> None:
    random = np.random.default_rng(0)
    k = {"mean": 1, "c51": 5, "quantile": 4}[head]
    outputs = random.normal(0, 2, (6, 3, k))
    target = {
        "mean": random.normal(0, 2, 6),
        "c51": random.dirichlet(np.ones(5), 6),
        "quantile": random.normal(0, 2, (6, 4)),
    }[head]
    batch = transitions(off_policy("dqn"), 6)
    batch = batch._replace(weights=batch.weights.double())
    loss = LOSSES[head]

    def plain(at: Floats) -> float:
        return loss((torch.from_numpy(at),), batch, torch.from_numpy(target))[0].item()

    tensor = torch.from_numpy(outputs).requires_grad_()
    _, _, (gradient,) = with_gradient(loss, (tensor,), batch, torch.from_numpy(target))
    np.testing.assert_allclose(gradient.numpy(), numeric_gradient(plain, outputs), rtol=1e-4, atol=1e-7)
    others = torch.ones(6, 3, dtype=torch.bool).scatter_(1, batch.actions[:, None], False)
    assert not gradient[others].any()  # actions that were not taken learn nothing


@pytest.mark.parametrize("loss", [dqn_loss, quantile_loss], ids=["mean", "quantile"])
def test_importance_weights_scale_what_a_transition_counts(loss: Any) -> None:
    batch = transitions(off_policy("dqn"), 3)
    outputs = (torch.zeros(3, 3, 1, requires_grad=True),)
    target = torch.tensor([1.0, 2.0, 4.0])
    target = target[:, None] if loss is quantile_loss else target
    _, _, (even,) = with_gradient(loss, outputs, batch._replace(weights=torch.ones(3)), target)
    _, _, (weighted,) = with_gradient(loss, outputs, batch._replace(weights=torch.tensor([1.0, 0.0, 0.25])), target)
    torch.testing.assert_close(weighted, even * torch.tensor([1.0, 0.0, 0.25])[:, None, None])


def td_errors(policy: Policy, algorithm: DQN, batch: ReplayBatch) -> Floats:
    """|Q(s, a) - target| of the networks as they are, in NumPy."""
    chosen = values(policy.net, batch.obs[""])[range(len(batch.rewards)), batch.actions.numpy()]
    following = values(algorithm._target.module, batch.next_obs[""]).max(1)
    target = numbers(batch.rewards) + numbers(batch.discounts) * ~batch.terminated.numpy() * following
    return np.asarray(chosen - target)


def test_one_update_is_adam_on_the_plain_gradient_and_hands_the_errors_back() -> None:
    algorithm, policy = make()
    shake(algorithm)
    before, target_before = parameters(policy.net), parameters(algorithm._target.module)
    batch = transitions(policy, 6)
    errors = td_errors(policy, algorithm, batch)
    target = torch.from_numpy(numbers(algorithm._targets(batch))).float()  # whose values were checked above
    chosen = policy.net(batch.obs).squeeze(-1)[torch.arange(6), batch.actions]
    error = chosen - target
    plain = torch.where(error.abs() < 1, 0.5 * error**2, error.abs() - 0.5)
    gradient = torch.cat(
        [g.ravel() for g in torch.autograd.grad((batch.weights * plain).mean(), list(policy.net.parameters()))]
    )
    source = source_of(policy)
    metrics = algorithm.learn(source, 1, 0, 0.0)
    np.testing.assert_allclose(parameters(policy.net), plain_adam(before, [numbers(gradient)], 1e-2), atol=2e-5)
    np.testing.assert_allclose(numbers(source.errors[0]), np.abs(errors), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(parameters(algorithm._target.module), target_before)
    norm = metrics["train/grad_norm"]
    assert isinstance(norm, Tensor)
    assert norm.item() == pytest.approx(float(gradient.norm()), rel=1e-4)
    assert metrics["train/learning_rate"] == 1e-2


@pytest.mark.parametrize("family", HEADS)
def test_every_head_learns_what_is_repeated(family: str) -> None:
    algorithm, policy = make(family, max_grad_norm=10.0)
    batch = transitions(policy, 6)._replace(
        terminated=torch.ones(6, dtype=torch.bool), rewards=torch.tensor([1.0, -1.0, 0.5, 0.0, -0.5, 1.5])
    )
    source = source_of(policy)
    source._batches = iter([batch] * 400)
    algorithm.learn(source, 400, 0, 0.0)
    assert isinstance(policy.net, DiscreteQ)
    means = policy.net.means(policy.net(batch.obs))[torch.arange(6), batch.actions]
    torch.testing.assert_close(means, batch.rewards, atol=0.1, rtol=0.0)
    assert all(error.shape == (6,) for error in source.errors)


def test_gradients_are_scaled_down_to_their_largest_norm() -> None:
    free, clipped = make(learning_rate=1e-2)[0], make(learning_rate=1e-2, max_grad_norm=1e-12)[0]
    before = parameters(free.policy.net)
    for algorithm in (free, clipped):
        algorithm.learn(source_of(algorithm.policy), 1, 0, 0.0)
    assert np.abs(parameters(free.policy.net) - before).max() > 5e-3
    assert np.abs(parameters(clipped.policy.net) - before).max() < 1e-5  # Adam's epsilon is larger than the gradient


@pytest.mark.parametrize(
    ("progress", "share"), [(0.0, 1.0), (0.05, 0.525), (0.1, 0.05), (0.2, 0.05), (1.0, 0.05)]
)  # fmt: skip
def test_the_exploration_rate_falls_over_a_fraction_of_the_run(progress: float, share: float) -> None:
    assert make(exploration_fraction=0.1)[0].epsilon(progress) == pytest.approx(share)
    assert make(exploration_fraction=0.2)[0].epsilon(0.1) == pytest.approx(0.525)


@pytest.mark.parametrize("progress", [0.0, 0.05, 0.5])
def test_that_share_of_the_actions_is_random_and_the_rest_is_the_best(progress: float) -> None:
    algorithm, policy = make(learning_starts=100, exploration_fraction=0.1)
    obs = {"": np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32)}
    best = values(policy.net, torch.from_numpy(obs[""])).argmax(1)
    epsilon = algorithm.epsilon(progress)
    taken = algorithm.act(obs, 100, progress)
    assert taken.dtype == np.int64
    assert np.mean(taken == best) == pytest.approx(1 - epsilon + epsilon / 3, abs=0.03)
    early = algorithm.act(obs, 99, progress)
    np.testing.assert_allclose(np.bincount(early, minlength=3) / 3000, 1 / 3, atol=0.04)


def follow(steps: list[int], **options: Any) -> tuple[Floats, Floats, Floats]:
    """Target weights before and after `_follow` at these steps, and the online ones, which stand still."""
    algorithm, policy = make(**options)
    shake(algorithm)
    before = parameters(algorithm._target.module)
    for step in steps:
        algorithm._follow(step)
    return before, parameters(algorithm._target.module), parameters(policy.net)


@pytest.mark.parametrize(
    ("steps", "times"),
    [([9], 0), ([10], 1), ([10, 10, 19], 1), ([10, 20], 2), ([35], 3), ([4, 12, 44], 4), ([8, 16, 24, 32], 3)],
    ids=str,
)
def test_the_target_network_takes_a_step_for_each_interval_that_passed(steps: list[int], times: int) -> None:
    before, after, online = follow(steps, target_update_interval=10, tau=0.25)
    kept = 0.75**times
    np.testing.assert_allclose(after, kept * before + (1 - kept) * online, atol=1e-6)


def test_with_tau_one_it_becomes_the_online_network() -> None:
    before, after, online = follow([25], target_update_interval=10, tau=1.0)
    np.testing.assert_array_equal(after, online)
    assert not np.allclose(before, online)


def test_it_follows_in_environment_steps_whatever_the_gradient_steps() -> None:
    algorithm, policy = make(target_update_interval=10, tau=1.0)
    source = source_of(policy)
    start = parameters(algorithm._target.module)
    algorithm.learn(source, 50, 9, 0.0)
    np.testing.assert_array_equal(parameters(algorithm._target.module), start)
    online = parameters(policy.net)
    algorithm.learn(source, 1, 10, 0.0)  # before the gradient step of this update
    np.testing.assert_array_equal(parameters(algorithm._target.module), online)
    assert not np.array_equal(parameters(policy.net), online)


@pytest.mark.parametrize("family", HEADS)
def test_a_restored_state_goes_on_as_if_nothing_had_happened(family: str) -> None:
    one, policy = make(family, target_update_interval=2)
    one.learn(source_of(policy), 3, 3, 0.0)
    other, again = make(family, target_update_interval=2)
    again.load_state_dict(policy.state_dict())
    other.load_state_dict(one.state_dict())
    for algorithm in (one, other):
        algorithm.learn(source_of(policy, seed=50), 3, 6, 0.1)
    assert policy.sha256() == again.sha256()
    np.testing.assert_array_equal(parameters(one._target.module), parameters(other._target.module))
    obs = {"": np.zeros((5, 3), dtype=np.float32)}
    np.testing.assert_array_equal(one.act(obs, 0, 0.0), other.act(obs, 0, 0.0))
