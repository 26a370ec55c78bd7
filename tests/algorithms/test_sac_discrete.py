"""SAC of discrete actions: expectations over all actions, by hand and in NumPy."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from steadyrl.algorithms import DiscreteSAC
from steadyrl.algorithms.sac_discrete import discrete_actor_loss, discrete_critic_loss
from steadyrl.configs import SACConfig
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.actor_critics import DiscreteActorAndCritics
from steadyrl.nn.gradient import with_gradient
from steadyrl.nn.policy import Policy
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


def make(**options: Any) -> tuple[DiscreteSAC, Policy]:
    policy = off_policy("sac-discrete")
    settings = {"batch_size": 6, "learning_rate": 1e-2, "tau": 0.1, "num_envs": 4, "learning_starts": 10}
    return DiscreteSAC(SACConfig(**{**settings, **options}), policy, seeds()), policy


def net_of(policy: Policy) -> DiscreteActorAndCritics:
    assert isinstance(policy.net, DiscreteActorAndCritics)
    return policy.net


def softmax(logits: Floats) -> Floats:
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))


def test_the_soft_target_is_an_expectation() -> None:
    algorithm, policy = make(ent_coef=0.3)
    other = net_of(off_policy("sac-discrete", seed=9))
    algorithm._target_q.module.load_state_dict(other.q.state_dict())
    batch = transitions(policy, 64)
    obs = numbers(batch.next_obs[""])
    p = softmax(tanh_mlp(linears(net_of(policy).pi), obs))
    values = np.stack([tanh_mlp(linears(critic), obs) for critic in other.q])
    assert 0 < (values[0] < values[1]).sum() < values[0].size  # each of the two is the smallest somewhere
    soft = (p * (values.min(0) - 0.3 * np.log(p))).sum(1)
    expected = numbers(batch.rewards) + numbers(batch.discounts) * ~batch.terminated.numpy() * soft
    found = algorithm._targets(batch, algorithm.temperature.value())
    np.testing.assert_allclose(numbers(found), expected, rtol=1e-5, atol=1e-5)


def test_the_actor_loss_by_hand() -> None:
    """p of 1/4 and 3/4, alpha 2, values 1 and 3."""
    logits = torch.log(torch.tensor([[0.25, 0.75]])).requires_grad_()
    loss, metrics, _ = with_gradient(discrete_actor_loss, (logits,), torch.tensor([[1.0, 3.0]]), torch.tensor(2.0))
    expected = 0.25 * (2 * math.log(0.25) - 1) + 0.75 * (2 * math.log(0.75) - 3)
    assert loss.item() == pytest.approx(expected)
    assert metrics["train/entropy"].item() == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))


def test_the_critic_loss_by_hand() -> None:
    values = torch.tensor([[[1.0, 9.0], [9.0, 4.0]], [[3.0, 9.0], [9.0, 2.0]]], requires_grad=True)
    batch = transitions(off_policy("sac-discrete"), 2)
    batch = batch._replace(actions=torch.tensor([0, 1]), weights=torch.tensor([1.0, 0.5]))
    loss, metrics, (gradient,) = with_gradient(discrete_critic_loss, (values,), batch, torch.tensor([2.0, 2.0]))
    assert loss.item() == pytest.approx((1 + 0.5 * 4) / 2 + (1 + 0) / 2)
    assert metrics["td"].tolist() == pytest.approx([1.0, 1.0])
    assert gradient.tolist() == [[[-1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]]


def test_gradients_are_those_of_finite_differences() -> None:
    random = np.random.default_rng(0)
    logits, smallest = random.normal(size=(5, 3)), torch.from_numpy(random.normal(size=(5, 3)))
    alpha = torch.tensor(0.3)
    tensor = torch.from_numpy(logits).requires_grad_()
    _, _, (gradient,) = with_gradient(discrete_actor_loss, (tensor,), smallest, alpha)

    def actor(at: Floats) -> float:
        return discrete_actor_loss((torch.from_numpy(at),), smallest, alpha)[0].item()

    np.testing.assert_allclose(gradient.numpy(), numeric_gradient(actor, logits), atol=1e-8)
    values = random.normal(size=(2, 6, 3))
    batch = transitions(off_policy("sac-discrete"), 6)
    batch = batch._replace(weights=batch.weights.double())
    target = torch.from_numpy(random.normal(size=6))
    tensor = torch.from_numpy(values).requires_grad_()
    _, _, (gradient,) = with_gradient(discrete_critic_loss, (tensor,), batch, target)

    def critic(at: Floats) -> float:
        return discrete_critic_loss((torch.from_numpy(at),), batch, target)[0].item()

    np.testing.assert_allclose(gradient.numpy(), numeric_gradient(critic, values), atol=1e-7)


def plain_discrete_sac(algorithm: DiscreteSAC, batches: list[ReplayBatch]) -> dict[str, Floats]:
    """arXiv:1910.07207 in float64, with torch's own optimiser."""
    config = algorithm.config
    assert isinstance(config.learning_rate, float)
    pi, q = copy.deepcopy(algorithm._pi.module).double(), copy.deepcopy(algorithm._q.module).double()
    target_q = copy.deepcopy(q)
    log_alpha = torch.zeros((), dtype=torch.float64, requires_grad=True)
    actor, critic = (torch.optim.Adam(net.parameters(), lr=config.learning_rate) for net in (pi, q))
    temperature = torch.optim.Adam([log_alpha], lr=config.learning_rate)

    def smallest(nets: torch.nn.Module, obs: Tensor) -> Tensor:
        return torch.stack([net({"": obs}).squeeze(-1) for net in nets.children()]).amin(0)

    for batch in batches:
        obs, next_obs = batch.obs[""].double(), batch.next_obs[""].double()
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            log_p = pi({"": next_obs}).squeeze(-1).log_softmax(-1)
            soft = (log_p.exp() * (smallest(target_q, next_obs) - alpha * log_p)).sum(-1)
            target = batch.rewards.double() + batch.discounts.double() * (~batch.terminated).double() * soft
        critic.zero_grad()
        for net in q.children():
            chosen = net({"": obs}).squeeze(-1)[torch.arange(len(obs)), batch.actions]
            (batch.weights.double() * (chosen - target) ** 2).mean().backward()
        critic.step()
        actor.zero_grad()
        log_p = pi({"": obs}).squeeze(-1).log_softmax(-1)
        (log_p.exp() * (alpha * log_p - smallest(q, obs).detach())).sum(-1).mean().backward()
        actor.step()
        temperature.zero_grad()
        entropy = -(log_p.exp() * log_p).sum(-1).mean().detach()
        (log_alpha * (entropy - 0.98 * math.log(3))).backward()
        temperature.step()
        with torch.no_grad():
            for a, b in zip(target_q.parameters(), q.parameters(), strict=True):
                a.copy_((1 - config.tau) * a + config.tau * b)
    found = {"actor": parameters(pi), "critics": parameters(q), "target": parameters(target_q)}
    return found | {"alpha": np.array(float(log_alpha.detach().exp()))}


def test_it_is_the_algorithm_of_the_paper() -> None:
    algorithm, policy = make(learning_rate=1e-3)
    batches = [transitions(policy, 6, seed=i) for i in range(5)]
    expected = plain_discrete_sac(algorithm, batches)
    source = source_of(policy)
    source._batches = iter(batches)
    algorithm.learn(source, 5, 0, 0.0)
    found = {
        "actor": parameters(algorithm._pi.module),
        "critics": parameters(algorithm._q.module),
        "target": parameters(algorithm._target_q.module),
        "alpha": numbers(algorithm.temperature.value()),
    }
    for name, weights in found.items():
        np.testing.assert_allclose(weights, expected[name], atol=3e-5, err_msg=name)


def test_the_target_entropy_is_a_share_of_the_largest_one() -> None:
    assert make()[0].temperature.target_entropy == pytest.approx(0.98 * math.log(3))
    assert make(target_entropy=0.1)[0].temperature.target_entropy == 0.1


@pytest.mark.parametrize(("target", "direction"), [(0.1, -1), (1.09, 1)])
def test_alpha_falls_while_entropy_is_above_its_target_and_rises_below(target: float, direction: int) -> None:
    algorithm, policy = make(target_entropy=target)
    algorithm.learn(source_of(policy), 1, 0, 0.0)
    assert np.sign(algorithm.temperature.value().item() - 1.0) == direction


def test_the_actors_update_leaves_the_critics_alone_and_the_other_way_round() -> None:
    algorithm, policy = make(tau=0.25)
    before = parameters(net_of(policy).q)
    target_before = parameters(algorithm._target_q.module)
    algorithm.learn(source_of(policy), 1, 0, 0.0)
    after = parameters(net_of(policy).q)
    np.testing.assert_allclose(parameters(algorithm._target_q.module), 0.75 * target_before + 0.25 * after, atol=1e-6)
    assert np.abs(after - before).max() <= 1.001e-2  # one step of Adam, not two


def test_it_learns_the_better_action_and_keeps_some_entropy() -> None:
    """Rewards 0, 1, 0 of one-step episodes at temperature 1/2: the policy becomes softmax(rewards * 2)."""
    algorithm, policy = make(ent_coef=0.5)

    def lessons() -> Any:
        for i in range(300):
            batch = transitions(policy, 64, seed=i, done=1.1)
            yield batch._replace(rewards=(batch.actions == 1).float(), weights=torch.ones(64))

    source = source_of(policy)
    source._batches = lessons()
    algorithm.learn(source, 300, 0, 0.0)
    probabilities = net_of(policy).actor(policy.tensors(OBS))[0].softmax(-1)
    np.testing.assert_allclose(numbers(probabilities), np.tile(softmax(np.array([0.0, 2.0, 0.0])), (4, 1)), atol=0.05)


def test_it_explores_uniformly_first_and_by_its_policy_afterwards() -> None:
    algorithm, policy = make()
    obs = {"": np.tile(OBS[""][:1], (6000, 1))}
    early = algorithm.act(obs, 9, 0.0)
    assert early.dtype == np.int64
    np.testing.assert_allclose(np.bincount(early) / 6000, 1 / 3, atol=0.03)
    expected = softmax(tanh_mlp(linears(net_of(policy).pi), obs[""][:1].astype(np.float64)))[0]
    np.testing.assert_allclose(np.bincount(algorithm.act(obs, 10, 0.0)) / 6000, expected, atol=0.03)


def test_a_restored_state_goes_on_as_if_nothing_had_happened() -> None:
    one, policy = make()
    one.learn(source_of(policy), 3, 3, 0.0)
    other, again = make()
    again.load_state_dict(policy.state_dict())
    other.load_state_dict(one.state_dict())
    for algorithm in (one, other):
        algorithm.learn(source_of(policy, seed=50), 4, 6, 0.1)
    assert policy.sha256() == again.sha256()
    np.testing.assert_array_equal(parameters(one._target_q.module), parameters(other._target_q.module))
    np.testing.assert_array_equal(one.act(OBS, 10, 0.0), other.act(OBS, 10, 0.0))
