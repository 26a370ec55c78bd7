"""A bad minibatch that is left out leaves no trace, whether the host or the device looks at it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor

from steadyrl.algorithms import PPO, make_off_policy, make_on_policy
from steadyrl.algorithms.guard import Guard
from steadyrl.configs import A2CConfig, DQNConfig, PPOConfig, SACConfig, TD3Config
from steadyrl.data.rollout import RolloutBatch
from steadyrl.errors import NonFiniteError
from steadyrl.nn.policy import Policy
from support.nonfinite import STREAMS, digest
from support.off_policy import Source, off_policy, transitions
from support.policies import VECTOR, make_batch, make_policy, seeds

OFF_POLICY: dict[str, Any] = {
    "dqn": DQNConfig(batch_size=6, target_update_interval=1),
    "td3": TD3Config(batch_size=6, policy_delay=1, target_policy_noise=0.0),
    "sac": SACConfig(batch_size=6),
    "sac-discrete": SACConfig(batch_size=6),
}


def learner(family: str) -> Any:
    """A fresh algorithm; every call gives the same."""
    return make_off_policy(OFF_POLICY[family], off_policy(family), seeds())


def state(algorithm: Any) -> str:
    """All that it has learnt."""
    own = {
        name: part
        for name, part in algorithm.state_dict().items()
        if name not in (*STREAMS, "updates", "target_updates")
    }
    return digest({"policy": algorithm.policy.state_dict(), "own": own})


def learn(algorithm: Any, given: list[Any]) -> Source:
    source = Source(iter(given))
    algorithm.learn(source, len(given), 100, 0.5)
    return source


def given(family: str) -> list[Any]:
    return [transitions(off_policy(family), 6, seed) for seed in range(4)]


def spoilt(batch: Any, how: str) -> Any:
    """The minibatch with one bad number: in a reward, or in an observation, where the actor sees it too."""
    if how == "reward":
        return batch._replace(rewards=batch.rewards.index_fill(0, torch.tensor(2), torch.nan))
    return batch.map_obs(lambda obs: {"": obs[""].index_fill(0, torch.tensor(2), torch.inf)})


@pytest.mark.parametrize("deferred", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("how", ["reward", "observation"])
@pytest.mark.parametrize("family", OFF_POLICY)
def test_the_others_train_as_if_the_bad_one_had_not_been_there(family: str, how: str, deferred: bool) -> None:
    without, skipping = learner(family), learner(family)
    for algorithm in (without, skipping):
        algorithm.guard = Guard(skip=True, deferred=deferred)
    first, bad, *rest = given(family)
    learn(without, [first])
    if family == "sac":  # noise is drawn up to where the number is seen
        for _ in range(1 if how == "observation" and not deferred else 2):
            without._update_noise(6)
    learn(without, rest)
    learn(skipping, [first, spoilt(bad, how), *rest])
    skipping.guard.read()
    assert skipping.guard.count == 1
    assert state(skipping) == state(without)
    assert state(skipping) != state(learner(family))


@pytest.mark.parametrize("family", OFF_POLICY)
def test_the_device_computes_what_the_host_does(family: str) -> None:
    host, device = learner(family), learner(family)
    device.guard = Guard(deferred=True)
    before = torch.cat([part.flat.data for part in host.policy.parts.values()])
    for algorithm in (host, device):
        learn(algorithm, given(family))
    device.guard.read()
    now = [torch.cat([part.flat.data for part in each.policy.parts.values()]) for each in (host, device)]
    assert not torch.equal(now[0], before)
    torch.testing.assert_close(now[1], now[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("family", ["td3", "sac", "sac-discrete"])
def test_a_bad_actor_takes_the_step_of_the_critics_back(family: str) -> None:
    for deferred in (False, True):
        algorithm = learner(family)
        algorithm.guard = Guard(skip=True, deferred=deferred)
        learn(algorithm, given(family)[:1])
        before, inner = state(algorithm), algorithm._actor_loss

        def bad(*args: Any, inner: Any = inner) -> Any:
            value, *rest = inner(*args)
            return value * torch.nan, *rest

        algorithm._actor_loss = bad
        learn(algorithm, given(family)[1:3])
        algorithm.guard.read()
        assert algorithm.guard.count == 2
        assert state(algorithm) == before


def ppo(n_epochs: int = 1) -> PPO:
    config = PPOConfig(num_envs=1, n_steps=12, batch_size=4, n_epochs=n_epochs)
    return PPO(config, make_policy(action=gs.Discrete(3)), seeds())


def rollout(policy: Policy, bad: int | None = None) -> RolloutBatch:
    batch = make_batch(policy, VECTOR, 12)
    if bad is not None:
        batch.returns[bad] = torch.nan
    return batch


@pytest.mark.parametrize("deferred", [False, True], ids=["host", "device"])
def test_ppo_trains_on_the_other_minibatches(deferred: bool) -> None:
    skipping, by_hand = ppo(), ppo()
    skipping.guard = Guard(skip=True, deferred=deferred)
    metrics = skipping.learn(rollout(skipping.policy, bad=5), 0.0)
    skipping.guard.read()
    order = torch.from_numpy(seeds().stream("algo", "minibatches").permutation(12))
    permit = torch.tensor(True) if deferred else None
    batch, applied = rollout(by_hand.policy), 0
    for taken in order.view(3, 4):
        if 5 not in taken:
            minibatch = batch.take(taken)
            outputs = by_hand._net.forward(minibatch.obs)
            _, gradients = by_hand._loss(outputs, minibatch, clip_range=0.2)
            by_hand._net.backward(gradients)
            by_hand._optimizer.step(3e-4, 0.5, permit)
            applied += 1
    assert applied == 2
    assert skipping.guard.count == 1
    assert state(skipping) == state(by_hand)
    assert metrics["train/minibatches"] == (3 if deferred else 2)


@pytest.mark.parametrize("deferred", [False, True], ids=["host", "device"])
def test_a_bad_rollout_of_a2c_changes_nothing(deferred: bool) -> None:
    for rmsprop in (False, True):
        config = A2CConfig(num_envs=1, n_steps=12, use_rms_prop=rmsprop)
        algorithm: Any = make_on_policy(config, make_policy(action=gs.Discrete(3)), seeds())
        algorithm.guard = Guard(skip=True, deferred=deferred)
        algorithm.learn(rollout(algorithm.policy), 0.0)
        before = state(algorithm)
        metrics = algorithm.learn(rollout(algorithm.policy, bad=5), 0.0)
        algorithm.guard.read()
        assert algorithm.guard.count == 1
        assert state(algorithm) == before
        assert "train/learning_rate" in metrics


def test_a_kl_limit_ends_the_update_without_a_bad_minibatch() -> None:
    algorithm = ppo()
    algorithm.config = PPOConfig(num_envs=1, n_steps=12, batch_size=4, n_epochs=3, target_kl=1e-12)
    metrics = algorithm.learn(rollout(algorithm.policy), 0.0)
    assert metrics["train/minibatches"] < 9
    assert algorithm.guard.count == 0


def test_the_device_stops_the_run_at_the_next_row() -> None:
    algorithm = learner("dqn")
    algorithm.guard = Guard(deferred=True)
    algorithm.guard.begin(700, 60)
    before = state(algorithm)
    learn(algorithm, [spoilt(given("dqn")[0], "reward")])
    with pytest.raises(NonFiniteError, match="before environment step 700: it was not applied"):
        algorithm.guard.read()
    assert state(algorithm) == before
    algorithm.guard.read()  # once is enough


def test_the_device_counts_in_a_row_as_the_host_does() -> None:
    told: list[NonFiniteError] = []
    guard = Guard(skip=True, limit=3, deferred=True)
    guard.listener = told.append
    for values in ([1.0, float("nan"), float("inf"), 2.0], [float("nan")], [1e19]):
        for value in values:
            with guard.minibatch(()):
                guard.look("loss", torch.tensor(value))
        guard.read()
    assert guard.count == len(told) == 4
    with guard.minibatch(()):
        guard.look("loss", torch.tensor(1.0))
        guard.applied(torch.tensor(float("inf")))
        assert not guard.good()
    with pytest.raises(NonFiniteError, match="3 minibatches in a row"):
        guard.read()


def test_other_errors_go_through() -> None:
    guard = Guard(skip=True)
    with pytest.raises(ZeroDivisionError), guard.minibatch(()):
        raise ZeroDivisionError
    assert guard.count == 0


@pytest.mark.parametrize(("value", "good"), [(1e18, True), (-1e18, True), (1.1e18, False), (float("-inf"), False)])
def test_absurd_begins_above_1e18(value: float, good: bool) -> None:
    for deferred in (False, True):
        guard = Guard(skip=True, deferred=deferred)
        with guard.minibatch(RolloutBatch({}, *[torch.zeros(1)] * 5)):
            guard.look("loss", torch.tensor(value, dtype=torch.float64))
        guard.read()
        assert guard.count == int(not good)


def test_the_arrays_of_a_minibatch_have_names() -> None:
    guard = Guard()
    batch = transitions(off_policy("td3"), 6)
    index = torch.arange(6)
    with pytest.raises(NonFiniteError) as caught, guard.minibatch(batch, index):
        guard.look("train/critic_loss", torch.tensor(torch.nan))
    arrays: dict[str, Tensor] = caught.value.batch
    assert arrays.keys() == {"obs", "actions", "rewards", "next_obs", "terminated", "discounts", "weights", "index"}
    assert arrays["obs"] is batch.obs[""]
