"""SAC: soft targets and losses by hand, where gradients go, and the whole algorithm against a plain one in float64."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from steadyrl.algorithms import SAC
from steadyrl.algorithms.sac import soft_actor_loss
from steadyrl.configs import SACConfig
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.actor_critics import ActorAndCritics
from steadyrl.nn.gradient import with_gradient
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from support.off_policy import (
    Floats,
    linears,
    numbers,
    numeric_gradient,
    off_policy,
    parameters,
    source_of,
    tanh_mlp,
    transitions,
)
from support.policies import seeds

OBS = {"": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)}


def make(family: str = "sac", **options: Any) -> tuple[SAC, Policy]:
    policy = off_policy(family)
    settings = {"batch_size": 6, "learning_rate": 1e-2, "tau": 0.1, "num_envs": 4, "learning_starts": 10}
    if family == "sac-gsde":
        settings |= {"use_sde": True}
    return SAC(SACConfig(**{**settings, **options}), policy, seeds()), policy


def net_of(policy: Policy) -> ActorAndCritics:
    assert isinstance(policy.net, ActorAndCritics)
    return policy.net


def log_density(u: Floats, mean: Floats, std: Floats) -> Floats:
    """log pi of tanh(u), from the normal density and the plain derivative of tanh."""
    normal = -0.5 * ((u - mean) / std) ** 2 - np.log(std) - 0.5 * math.log(2 * math.pi)
    return np.asarray((normal - np.log(1 - np.tanh(u) ** 2)).sum(axis=1))


def gaussian(policy: Policy, obs: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the actor, in NumPy."""
    trunk, mean, log_std = linears(net_of(policy).pi)
    hidden = np.tanh(obs @ trunk[0].T + trunk[1])
    return hidden @ mean[0].T + mean[1], np.exp(hidden @ log_std[0].T + log_std[1])


def test_the_soft_target_by_formula() -> None:
    algorithm, policy = make(ent_coef=0.3)
    other = off_policy("sac", seed=9)
    algorithm._target_q.module.load_state_dict(net_of(other).q.state_dict())
    batch = transitions(policy, 64)
    noise = Stream(0, "algo/updates").normal((64, 2)).astype(np.float64)
    obs = numbers(batch.next_obs[""])
    mean, std = gaussian(policy, obs)
    u = mean + std * noise
    inputs = np.concatenate([obs, np.tanh(u)], axis=1)
    values = np.stack([tanh_mlp(linears(critic), inputs)[:, 0] for critic in net_of(other).q.critics])
    assert 0 < (values[0] < values[1]).sum() < 64  # each of the two is the smallest somewhere
    soft = values.min(0) - 0.3 * log_density(u, mean, std)
    expected = numbers(batch.rewards) + numbers(batch.discounts) * ~batch.terminated.numpy() * soft
    found = algorithm._targets(batch, algorithm.temperature.value())
    np.testing.assert_allclose(numbers(found), expected, rtol=1e-4, atol=1e-4)
    over = batch.terminated
    assert torch.equal(found[over], batch.rewards[over])  # no entropy is paid after the end either


def test_the_log_probability_is_that_of_the_sample_before_tanh() -> None:
    algorithm, policy = make()
    seen: list[Tensor] = []
    sample = algorithm._sample

    def spied(params: tuple[Tensor, ...], noise: Tensor) -> Any:
        seen.extend(sample(params, noise))
        return seen[-2:]

    algorithm._sample = spied  # type: ignore[assignment]
    source = source_of(policy, 40)
    mean, std = gaussian(policy, numbers(transitions(policy, 40).obs[""]))
    algorithm.learn(source, 1, 0, 0.0)
    noise = Stream(0, "algo/updates").normal((40, 2)).astype(np.float64)
    before_tanh = mean + std * noise
    assert np.abs(before_tanh).max() > 1.0  # so a density at what tanh made of it would be another
    np.testing.assert_allclose(numbers(seen[0]), np.tanh(before_tanh), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(numbers(seen[1]), log_density(before_tanh, mean, std), rtol=1e-3, atol=1e-4)


def test_the_actor_loss_by_hand() -> None:
    """alpha 1/2, log pi 2 and -4, smallest values 3 and 5: ((1 - 3) + (-2 - 5)) / 2."""
    log_probs = torch.tensor([2.0, -4.0], requires_grad=True)
    values = torch.tensor([[3.0, 9.0], [7.0, 5.0]], requires_grad=True)
    loss, metrics, gradients = with_gradient(soft_actor_loss, (log_probs, values), torch.tensor(0.5))
    assert loss.item() == pytest.approx(-4.5)
    assert metrics["train/entropy"].item() == pytest.approx(1.0)
    assert gradients[0].tolist() == [0.25, 0.25]
    assert gradients[1].tolist() == [[-0.5, 0.0], [0.0, -0.5]]


def test_the_gradient_of_the_actor_loss_is_that_of_finite_differences() -> None:
    random = np.random.default_rng(0)
    log_probs, values = random.normal(size=5), random.normal(size=(2, 5))
    outputs = tuple(torch.from_numpy(x).requires_grad_() for x in (log_probs, values))
    _, _, gradients = with_gradient(soft_actor_loss, outputs, torch.tensor(0.3))

    def plain(log_p: Floats, q: Floats) -> float:
        return soft_actor_loss((torch.from_numpy(log_p), torch.from_numpy(q)), torch.tensor(0.3))[0].item()

    np.testing.assert_allclose(gradients[0].numpy(), numeric_gradient(lambda x: plain(x, values), log_probs), atol=1e-7)
    np.testing.assert_allclose(gradients[1].numpy(), numeric_gradient(lambda x: plain(log_probs, x), values), atol=1e-7)


def test_the_twins_are_two_different_networks() -> None:
    first, second = (parameters(critic) for critic in net_of(make()[1]).q.critics)
    assert not np.isclose(first, second).any()


def plain_sac(algorithm: SAC, batches: list[ReplayBatch], noises: list[tuple[Tensor, Tensor]]) -> dict[str, Floats]:
    """arXiv:1812.05905, algorithm 1, in float64 with torch's own optimiser and distributions."""
    config = algorithm.config
    assert isinstance(config.learning_rate, float)
    rate = config.learning_rate
    pi, q = copy.deepcopy(algorithm._pi.module).double(), copy.deepcopy(algorithm._q.module).double()
    target_q = copy.deepcopy(q)
    log_alpha = torch.tensor(math.log(config.initial_ent_coef), dtype=torch.float64, requires_grad=True)
    learnt = isinstance(config.ent_coef, str)
    actor, critic = (torch.optim.Adam(net.parameters(), lr=rate) for net in (pi, q))
    temperature = torch.optim.Adam([log_alpha], lr=rate)

    def sampled(obs: dict[str, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = pi(obs)
        normal = torch.distributions.Normal(mean, log_std.exp())
        u = mean + log_std.exp() * noise.double()
        return torch.tanh(u), (normal.log_prob(u) - torch.log(1 - torch.tanh(u) ** 2)).sum(-1)  # type: ignore[no-untyped-call]

    for t, (batch, (now, then)) in enumerate(zip(batches, noises, strict=True), start=1):
        obs, next_obs = {"": batch.obs[""].double()}, {"": batch.next_obs[""].double()}
        actions, log_pi = sampled(obs, now)
        alpha = log_alpha.detach().exp()
        if learnt:
            temperature.zero_grad()
            (-log_alpha * (log_pi.detach() - 2.0).mean()).backward()  # type: ignore[no-untyped-call]
            temperature.step()
        with torch.no_grad():
            following, log_next = sampled(next_obs, then)
            soft = target_q(next_obs, following).amin(0) - alpha * log_next
            target = batch.rewards.double() + batch.discounts.double() * (~batch.terminated).double() * soft
        critic.zero_grad()
        squares = (q(obs, batch.actions.double()) - target) ** 2
        (batch.weights.double() * squares).mean(1).sum().backward()
        critic.step()
        actor.zero_grad()
        (alpha * log_pi - q(obs, actions).amin(0)).mean().backward()
        actor.step()
        if t % config.target_update_interval == 0:
            with torch.no_grad():
                for a, b in zip(target_q.parameters(), q.parameters(), strict=True):
                    a.copy_((1 - config.tau) * a + config.tau * b)
    found = {"actor": parameters(pi), "critics": parameters(q), "target": parameters(target_q)}
    return found | {"alpha": np.array(float(log_alpha.detach().exp()))}


@pytest.mark.parametrize("options", [{}, {"ent_coef": 0.2}, {"target_update_interval": 2}], ids=str)
def test_it_is_the_algorithm_of_the_paper(options: dict[str, Any]) -> None:
    algorithm, policy = make(learning_rate=1e-3, **options)
    batches = [transitions(policy, 6, seed=i) for i in range(5)]
    stream = Stream(0, "algo/updates")
    noises = [tuple(torch.from_numpy(stream.normal((6, 2))) for _ in range(2)) for _ in batches]
    expected = plain_sac(algorithm, batches, noises)  # type: ignore[arg-type]
    source = source_of(policy)
    source._batches = iter(batches)
    metrics = algorithm.learn(source, 5, 0, 0.0)
    found = {
        "actor": parameters(algorithm._pi.module),
        "critics": parameters(algorithm._q.module),
        "target": parameters(algorithm._target_q.module),
        "alpha": numbers(algorithm.temperature.value()),
    }
    for name, numbers_found in found.items():
        np.testing.assert_allclose(numbers_found, expected[name], atol=3e-5, err_msg=name)
    assert ("train/ent_coef_loss" in metrics) == (options != {"ent_coef": 0.2})
    assert not np.allclose(expected["target"], expected["critics"], atol=1e-4)


def test_the_actors_gradient_reaches_only_the_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, policy = make()
    gradients: list[Tensor] = []
    step = algorithm._actor_optimizer.step

    def watched(lr: float, norm: float, permit: Tensor | None) -> Tensor:
        gradients.extend((algorithm._q.flat.grad.clone(), algorithm._pi.flat.grad.clone()))
        return step(lr, norm, permit)

    def critic_step(lr: float, norm: float, permit: Tensor | None) -> Tensor:
        algorithm._q.flat.grad.zero_()  # whatever is in it at the actor's step came from the actor's loss
        return torch.zeros(())

    monkeypatch.setattr(algorithm._actor_optimizer, "step", watched)
    monkeypatch.setattr(algorithm._critic_optimizer, "step", critic_step)
    before = parameters(algorithm._q.module)
    algorithm.learn(source_of(policy), 1, 0, 0.0)
    assert not gradients[0].any()
    assert gradients[1].any()
    np.testing.assert_array_equal(parameters(algorithm._q.module), before)


def test_the_target_entropy_is_minus_the_number_of_dimensions() -> None:
    assert make()[0].temperature.target_entropy == -2.0
    assert make(target_entropy=-0.5)[0].temperature.target_entropy == -0.5


@pytest.mark.parametrize(("ent_coef", "start"), [("auto", 1.0), ("auto_0.1", 0.1), (0.25, 0.25), (1, 1.0)])
def test_the_temperature_that_metrics_tell(ent_coef: float | str, start: float) -> None:
    algorithm, policy = make(ent_coef=ent_coef)
    metrics = algorithm.learn(source_of(policy), 2, 0, 0.0)
    assert algorithm.temperature.learnt == isinstance(ent_coef, str)
    told = float(metrics["train/ent_coef"])
    assert told == pytest.approx(start, rel=0.02)
    assert (algorithm.temperature.value().item() == pytest.approx(start, abs=1e-9)) == isinstance(ent_coef, int | float)


def test_a_temperature_of_zero_pays_nothing_for_entropy() -> None:
    algorithm, policy = make(ent_coef=0.0)
    batch = transitions(policy, 8)
    zero = algorithm._targets(batch, torch.tensor(0.0))
    algorithm, policy = make(ent_coef=0.0)
    again = algorithm._targets(batch, algorithm.temperature.value())
    assert torch.equal(zero, again)


def test_it_explores_at_random_first_and_by_its_policy_afterwards() -> None:
    algorithm, policy = make()
    early = np.concatenate([algorithm.act(OBS, 9, 0.0) for _ in range(500)])
    np.testing.assert_allclose(early.std(axis=0), 2 / np.sqrt(12), rtol=0.05)
    mean, std = gaussian(policy, OBS[""].astype(np.float64))
    late = np.stack([algorithm.act(OBS, 10, 0.0) for _ in range(2000)])
    before = np.arctanh(np.clip(late.astype(np.float64), -1 + 1e-7, 1 - 1e-7))
    np.testing.assert_allclose(before.mean(axis=0), mean, atol=0.12)
    np.testing.assert_allclose(before.std(axis=0), std, rtol=0.1)


def test_action_noise_comes_on_top_and_stays_in_bounds() -> None:
    plain, _ = make()
    noisy, _ = make(action_noise_type="normal", action_noise_std=3.0)
    quiet, third = plain.act(OBS, 10, 0.0), noisy.act(OBS, 10, 0.0)
    expected = np.clip(quiet + 3.0 * Stream(0, "algo/exploration").normal((4, 2)), -1, 1)
    np.testing.assert_allclose(third, expected, rtol=1e-5)
    assert third.dtype == np.float32


def distinct(algorithm: SAC, steps: int) -> list[int]:
    """A number for each of the exploration matrices that consecutive actions of one observation were made with."""
    actions = [algorithm.act(OBS, 10, 0.0).tobytes() for _ in range(steps)]
    order = list(dict.fromkeys(actions))
    return [order.index(action) for action in actions]


def test_the_matrices_of_gsde_are_kept_for_so_many_steps() -> None:
    algorithm, _ = make("sac-gsde", sde_sample_freq=3)
    assert distinct(algorithm, 8) == [0, 0, 0, 1, 1, 1, 2, 2]
    algorithm, policy = make("sac-gsde", sde_sample_freq=3)
    first = distinct(algorithm, 2)
    kept = algorithm._kept
    algorithm.learn(source_of(policy), 1, 0, 0.0)
    algorithm.act(OBS, 10, 0.0)
    assert first == [0, 0]
    assert algorithm._kept is kept  # learning does not cut them short
    assert kept is not None
    assert kept.shape == (4, 8, 2)
    assert not np.isclose(kept[0], kept[1]).any()  # one matrix for each environment


def test_by_default_they_are_drawn_anew_after_each_update() -> None:
    algorithm, policy = make("sac-gsde")
    assert distinct(algorithm, 5) == [0] * 5
    kept = algorithm._kept
    algorithm.learn(source_of(policy), 1, 0, 0.0)
    algorithm.act(OBS, 10, 0.0)
    assert algorithm._kept is not kept
    assert algorithm._kept is not None
    assert kept is not None
    assert not np.isclose(algorithm._kept, kept).any()


@pytest.mark.parametrize("family", ["sac", "sac-gsde"])
def test_it_learns_the_better_action(family: str) -> None:
    """One-step episodes that pay the first dimension and charge the second."""
    algorithm, policy = make(family, ent_coef=0.01)
    before = numbers(policy.modes(OBS))

    def lessons() -> Any:
        for i in range(300):
            batch = transitions(policy, 64, seed=i, done=1.1)
            yield batch._replace(rewards=batch.actions[:, 0] - batch.actions[:, 1])

    source = source_of(policy)
    source._batches = lessons()
    algorithm.learn(source, 300, 0, 0.0)
    after = numbers(policy.modes(OBS))  # before tanh is undone by nothing: these are in [-1, 1]
    assert (np.abs(before) < 0.9).any()
    assert after[:, 0].min() > 0.8
    assert after[:, 1].max() < -0.8


@pytest.mark.parametrize("family", ["sac", "sac-gsde"])
def test_a_restored_state_goes_on_as_if_nothing_had_happened(family: str) -> None:
    options: dict[str, Any] = {"action_noise_type": "ornstein-uhlenbeck", "sde_sample_freq": 5}
    one, policy = make(family, **options)
    one.learn(source_of(policy), 3, 3, 0.0)
    one.act(OBS, 10, 0.0)
    other, again = make(family, **options)
    again.load_state_dict(policy.state_dict())
    other.load_state_dict(one.state_dict())
    for algorithm in (one, other):
        algorithm.learn(source_of(policy, seed=50), 4, 6, 0.1)
    assert policy.sha256() == again.sha256()
    np.testing.assert_array_equal(parameters(one._target_q.module), parameters(other._target_q.module))
    assert torch.equal(one.temperature.value(), other.temperature.value())
    for step in (0, *[10] * 6):
        np.testing.assert_array_equal(one.act(OBS, step, 0.0), other.act(OBS, step, 0.0))
