"""TD3 and DDPG: targets by formula, who is trained when, and the whole algorithm against a plain one in float64."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from steadyrl.algorithms import TD3
from steadyrl.algorithms.td3 import critic_loss, deterministic_actor_loss, smooth
from steadyrl.configs import DDPGConfig, LinearSchedule, TD3Config
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.actor_critics import ActorAndCritics
from steadyrl.nn.gradient import with_gradient
from steadyrl.nn.policy import Policy
from support.off_policy import Floats, linears, numbers, numeric_gradient, off_policy, parameters, source_of, tanh_mlp
from support.off_policy import transitions as make_transitions
from support.policies import seeds

OBS = {"": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)}


def make(*, n_critics: int = 2, kind: type[TD3Config] = TD3Config, seed: int = 0, **options: Any) -> tuple[TD3, Policy]:
    policy = off_policy("td3", n_critics=n_critics, seed=seed)
    settings = {"batch_size": 6, "learning_rate": 1e-2, "tau": 0.1, "num_envs": 4, "learning_starts": 10}
    return TD3(kind(**{**settings, "n_critics": n_critics, **options}), policy, seeds()), policy


def net_of(policy: Policy) -> ActorAndCritics:
    assert isinstance(policy.net, ActorAndCritics)
    return policy.net


def critics(q: torch.nn.Module, obs: Floats, actions: Floats) -> Floats:
    """[n, B] of critics with tanh layers, in NumPy."""
    inputs = np.concatenate([obs, actions], axis=1)
    return np.stack([tanh_mlp(linears(critic), inputs)[:, 0] for critic in q.critics])  # type: ignore[union-attr]


def test_the_twins_are_two_different_networks() -> None:
    _, policy = make()
    q = net_of(policy).q
    first, second = (parameters(critic) for critic in q.critics)
    assert first.shape == second.shape
    assert not np.isclose(first, second).any()
    memories = [{p.data_ptr() for p in critic.parameters()} for critic in q.critics]
    assert memories[0].isdisjoint(memories[1])


def test_the_target_is_the_smallest_target_critic_of_the_smoothed_target_action() -> None:
    algorithm, policy = make(target_policy_noise=0.7, target_noise_clip=0.5)
    other = off_policy("td3", seed=9)
    algorithm._target_pi.module.load_state_dict(net_of(other).pi.state_dict())
    algorithm._target_q.module.load_state_dict(net_of(other).q.state_dict())
    batch = make_transitions(policy, 64)
    noise = seeds().stream("algo", "target noise").normal((64, 2)).astype(np.float64)
    obs = numbers(batch.next_obs[""])
    actions = np.tanh(tanh_mlp(linears(net_of(other).pi), obs))
    actions = np.clip(actions + np.clip(0.7 * noise, -0.5, 0.5), -1, 1)
    values = critics(net_of(other).q, obs, actions)
    assert 0 < (values[0] < values[1]).sum() < 64  # each of the two is the smallest somewhere
    expected = numbers(batch.rewards) + numbers(batch.discounts) * ~batch.terminated.numpy() * values.min(0)
    np.testing.assert_allclose(numbers(algorithm._targets(batch)), expected, rtol=1e-4, atol=1e-5)


def test_smoothing_is_clipped_for_each_sample_and_dimension_and_stays_within_bounds() -> None:
    actions = torch.tensor([[0.0, 0.0], [0.9, -0.9], [0.0, -0.2]])
    noise = torch.tensor([[0.5, -10.0], [1.0, -1.0], [10.0, 0.1]])
    expected = torch.tensor([[0.1, -0.5], [1.0, -1.0], [0.5, -0.18]])
    torch.testing.assert_close(smooth(actions, noise, std=0.2, clip=0.5), expected)


def test_the_losses_by_hand() -> None:
    """Two critics, values 1 2 and 3 5, target 1 1, weights 1 and 1/2: (0 + 1/2) / 2 + (4 + 16/2) / 2."""
    values = torch.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    loss, metrics, (gradient,) = with_gradient(critic_loss, (values,), torch.ones(2), torch.tensor([1.0, 0.5]))
    assert loss.item() == pytest.approx(0.25 + 6.0)
    assert metrics["td"].tolist() == pytest.approx([1.0, 2.5])
    assert gradient.tolist() == [[0.0, 0.5], [2.0, 2.0]]
    loss, _, (gradient,) = with_gradient(deterministic_actor_loss, (values,))
    assert loss.item() == pytest.approx(-1.5)  # of the first critic alone
    assert gradient.tolist() == [[-0.5, -0.5], [0.0, 0.0]]


def test_the_gradient_of_the_critic_loss_is_that_of_finite_differences() -> None:
    random = np.random.default_rng(0)
    values, target, weights = (
        random.normal(size=(2, 5)),
        torch.from_numpy(random.normal(size=5)),
        torch.rand(5).double(),
    )
    tensor = torch.from_numpy(values).requires_grad_()
    _, _, (gradient,) = with_gradient(critic_loss, (tensor,), target, weights)

    def plain(at: Floats) -> float:
        return critic_loss((torch.from_numpy(at),), target, weights)[0].item()

    np.testing.assert_allclose(gradient.numpy(), numeric_gradient(plain, values), rtol=1e-6, atol=1e-8)


def snapshot(algorithm: TD3) -> dict[str, Floats]:
    """All weights that the algorithm has."""
    return {
        "actor": parameters(algorithm._pi.module),
        "critics": parameters(algorithm._q.module),
        "target actor": parameters(algorithm._target_pi.module),
        "target critics": parameters(algorithm._target_q.module),
    }


@pytest.mark.parametrize("calls", [[1] * 7, [7], [2, 5]], ids=str)
def test_actor_and_targets_move_only_every_policy_delay_critic_updates(calls: list[int]) -> None:
    algorithm, policy = make(policy_delay=3)
    source = source_of(policy)
    changed = dict.fromkeys(snapshot(algorithm), 0)
    if calls == [1] * 7:
        for _ in calls:
            before = snapshot(algorithm)
            algorithm.learn(source, 1, 0, 0.0)
            for name, weights in snapshot(algorithm).items():
                changed[name] += not np.array_equal(before[name], weights)
        assert changed == {"actor": 2, "critics": 7, "target actor": 2, "target critics": 2}
    else:
        for n in calls:
            algorithm.learn(source, n, 0, 0.0)
    single, again = make(policy_delay=3)
    single.learn(source_of(again), 7, 0, 0.0)
    assert policy.sha256() == again.sha256()  # however the updates are cut into calls


def test_the_actors_update_leaves_the_critics_as_they_are_and_nothing_in_their_gradient() -> None:
    algorithm, policy = make()
    algorithm.learn(source_of(policy), 1, 0, 0.0)
    weights, gradient = parameters(algorithm._q.module), algorithm._q.flat.grad.clone()
    assert gradient.any()
    before = parameters(algorithm._pi.module)
    algorithm._improve(make_transitions(policy, 6), 1e-2)
    assert not np.array_equal(parameters(algorithm._pi.module), before)
    np.testing.assert_array_equal(parameters(algorithm._q.module), weights)
    assert torch.equal(algorithm._q.flat.grad, gradient)
    assert all(p.requires_grad for p in algorithm._q.module.parameters())


def plain_td3(algorithm: TD3, batches: list[ReplayBatch], noises: list[Tensor]) -> dict[str, Floats]:
    """Algorithm 1 of arXiv:1802.09477 in float64, with torch's own optimiser."""
    config = algorithm.config
    assert isinstance(config.learning_rate, float)
    pi, q = copy.deepcopy(algorithm._pi.module).double(), copy.deepcopy(algorithm._q.module).double()
    target_pi, target_q = copy.deepcopy(pi), copy.deepcopy(q)
    actor = torch.optim.Adam(pi.parameters(), lr=config.learning_rate)
    critic = torch.optim.Adam(q.parameters(), lr=config.learning_rate)
    for t, (batch, noise) in enumerate(zip(batches, noises, strict=True), start=1):
        obs, next_obs = {"": batch.obs[""].double()}, {"": batch.next_obs[""].double()}
        with torch.no_grad():
            spread = config.target_policy_noise * noise.double()
            chosen = target_pi(next_obs)[0] + spread.clamp(-config.target_noise_clip, config.target_noise_clip)
            following = target_q(next_obs, chosen.clamp(-1, 1)).amin(0)
            target = batch.rewards.double() + batch.discounts.double() * (~batch.terminated).double() * following
        critic.zero_grad()
        values = q(obs, batch.actions.double())
        loss = sum((batch.weights.double() * F.mse_loss(v, target, reduction="none")).mean() for v in values)
        assert isinstance(loss, Tensor)
        loss.backward()  # type: ignore[no-untyped-call]
        critic.step()
        if t % config.policy_delay == 0:
            actor.zero_grad()
            (-q(obs, pi(obs)[0])[0].mean()).backward()
            actor.step()
            with torch.no_grad():
                for slow, fast in ((target_pi, pi), (target_q, q)):
                    for a, b in zip(slow.parameters(), fast.parameters(), strict=True):
                        a.copy_((1 - config.tau) * a + config.tau * b)
    networks = {"actor": pi, "critics": q, "target actor": target_pi, "target critics": target_q}
    return {name: parameters(net) for name, net in networks.items()}


@pytest.mark.parametrize("options", [{}, {"policy_delay": 1}, {"kind": DDPGConfig, "n_critics": 1}], ids=str)
def test_it_is_the_algorithm_of_the_paper(options: dict[str, Any]) -> None:
    algorithm, policy = make(**options, learning_rate=1e-3)
    batches = [make_transitions(policy, 6, seed=i) for i in range(6)]
    stream = seeds().stream("algo", "target noise")
    noises = [torch.from_numpy(stream.normal((6, 2))) for _ in batches]
    expected = plain_td3(algorithm, batches, noises)
    source = source_of(policy)
    source._batches = iter(batches)
    algorithm.learn(source, 6, 0, 0.0)
    for name, weights in snapshot(algorithm).items():
        np.testing.assert_allclose(weights, expected[name], atol=3e-5, err_msg=name)
    assert not np.allclose(expected["target actor"], expected["actor"], atol=1e-4)


def test_ddpg_is_td3_with_one_critic_and_without_delay_and_smoothing() -> None:
    ddpg, one = make(kind=DDPGConfig, n_critics=1, policy_delay=1, target_policy_noise=0.0)
    assert DDPGConfig().n_critics == DDPGConfig().policy_delay == 1
    assert DDPGConfig().target_policy_noise == 0.0
    td3, other = make(n_critics=1, policy_delay=1, target_policy_noise=0.0)
    smoothed, third = make(n_critics=1, policy_delay=1)
    for algorithm, policy in ((ddpg, one), (td3, other), (smoothed, third)):
        algorithm.learn(source_of(policy), 5, 0, 0.0)
    assert one.sha256() == other.sha256() != third.sha256()
    for name, weights in snapshot(ddpg).items():
        np.testing.assert_array_equal(weights, snapshot(td3)[name])


def test_it_explores_at_random_first_and_with_noise_afterwards() -> None:
    algorithm, policy = make(action_noise_std=LinearSchedule(0.2, 0.0))
    early = np.concatenate([algorithm.act(OBS, step, 0.0) for step in range(10) for _ in range(100)])
    assert early.min() < -0.99
    assert early.max() > 0.99
    np.testing.assert_allclose(early.std(axis=0), 2 / np.sqrt(12), rtol=0.03)
    mean = numbers(policy.modes(OBS))
    late = np.stack([algorithm.act(OBS, 10, 0.5) for _ in range(2000)])
    assert late.dtype == np.float32
    assert np.abs(mean).max() < 0.6  # so that hardly anything is clipped
    np.testing.assert_allclose(late.mean(axis=0), mean, atol=0.01)
    np.testing.assert_allclose(late.std(axis=0), 0.1, rtol=0.1)
    np.testing.assert_allclose(algorithm.act(OBS, 10, 1.0), mean, atol=1e-6)


def test_actions_with_much_noise_stay_in_their_bounds() -> None:
    algorithm, _ = make(action_noise_std=5.0)
    found = np.stack([algorithm.act(OBS, 10, 0.0) for _ in range(50)])
    assert found.min() == -1.0
    assert found.max() == 1.0


def test_correlated_noise_starts_anew_where_an_episode_ended() -> None:
    algorithm, policy = make(action_noise_type="ornstein-uhlenbeck", action_noise_std=0.2)
    for _ in range(100):
        algorithm.act(OBS, 10, 0.0)
    algorithm.ended(np.array([True, False, False, False]))
    distance = np.abs(algorithm.act(OBS, 10, 0.0) - numbers(policy.modes(OBS)))
    assert distance[0].max() < 0.2 * 0.1 * 4
    assert distance[1:].max() > 0.1


def test_a_restored_state_goes_on_as_if_nothing_had_happened() -> None:
    options: dict[str, Any] = {"action_noise_type": "ornstein-uhlenbeck"}
    one, policy = make(**options)
    one.learn(source_of(policy), 3, 3, 0.0)
    one.act(OBS, 10, 0.0)
    other, again = make(**options)
    again.load_state_dict(policy.state_dict())
    other.load_state_dict(one.state_dict())
    for algorithm in (one, other):
        algorithm.learn(source_of(policy, seed=50), 4, 6, 0.1)
    assert policy.sha256() == again.sha256()
    for name, weights in snapshot(one).items():
        np.testing.assert_array_equal(weights, snapshot(other)[name])
    for step in (0, 10):
        np.testing.assert_array_equal(one.act(OBS, step, 0.0), other.act(OBS, step, 0.0))
