"""A recurrent policy's step: what it samples, what it values, and what it remembers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.nn.distributions import Params
from steadyrl.nn.policy import Policy
from steadyrl.nn.recurrent import RecurrentActorCritic
from steadyrl.seeding import Stream
from support.policies import ACTIONS, make_policy
from support.recurrent import options

SPACE = gs.Box(-2.0, 2.0, (3,), np.float32)
B = 5
OBS = {"": np.random.default_rng(0).normal(size=(B, 3)).astype(np.float32)}
STARTS = np.array([True, False, False, True, False])


def recurrent(name: str) -> Policy:
    action, made = ACTIONS[name]
    return make_policy(SPACE, action, **{**made, **options("lstm", False)})


def step(policy: Policy, state: torch.Tensor) -> tuple[Params, torch.Tensor, torch.Tensor]:
    assert isinstance(policy.net, RecurrentActorCritic)
    with torch.no_grad():
        return policy.net.step(policy.tensors(OBS), state, torch.from_numpy(STARTS))


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_values_and_memory_are_those_of_the_networks_step(name: str) -> None:
    policy = recurrent(name)
    assert policy.recurrent is not None
    state = torch.from_numpy(Stream(1, "state").normal((B, policy.state_size)))
    params, values, after = step(policy, state)
    noise = policy.distribution.draw(Stream(2, "noise"), B)
    actions, log_probs, found_values, found_after = policy.recurrent.act(OBS, noise, state, STARTS)
    assert torch.equal(actions, policy.distribution.sample(params, torch.from_numpy(noise)))
    assert torch.equal(log_probs, policy.distribution.log_prob(params, actions))
    assert torch.equal(found_values, values)
    assert torch.equal(found_after, after)
    assert torch.equal(policy.recurrent.values(OBS, state, STARTS), values)


@pytest.mark.parametrize("name", ACTIONS)
def test_a_response_is_the_mode_or_a_sample_and_the_memory_after_it(name: str) -> None:
    policy = recurrent(name)
    state = Stream(1, "state").normal((B, policy.state_size))
    params, _, after = step(policy, torch.from_numpy(state))
    noise = torch.from_numpy(policy.distribution.draw(Stream(3, "p"), B))
    with torch.no_grad():
        wanted = policy.distribution.mode(params), policy.distribution.sample(params, noise)
    for stream, actions in zip((None, Stream(3, "p")), wanted, strict=True):
        found, remembered = policy.respond(OBS, state, STARTS, stream=stream)
        np.testing.assert_array_equal(found, policy.to_env(actions))
        np.testing.assert_array_equal(remembered, after.numpy())
