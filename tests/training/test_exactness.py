"""`total_timesteps` is exact: that many environment steps are counted, and that many rows reach the algorithm."""

from functools import partial
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode

import steadyrl as srl
from steadyrl.training.agent import Agent
from support.spies import rollouts_of, tap
from support.training_envs import Fast, PaysVector


def sizes_of_batches(agent: Agent) -> list[int]:
    """Sizes of the batches that the algorithm gets from now on."""
    sizes: list[int] = []
    tap(rollouts_of(agent).algorithm, "learn", lambda batch, progress: sizes.append(len(batch.returns)))
    return sizes


@pytest.mark.parametrize("native", [False, True], ids=["sync", "next-step"])
@pytest.mark.parametrize("total", [1, 999, 100_003])
@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_exactly_so_many_steps_are_counted_and_trained(algo: str, total: int, native: bool) -> None:
    steps = 1024 if total > 1000 else 16
    env: Any = PaysVector(AutoresetMode.NEXT_STEP, num_envs=8) if native else Fast
    options: dict[str, Any] = {"preset": "none", "num_envs": 8, "n_steps": steps, "net_arch": (8,)}
    if algo == "ppo":
        agent: Agent = srl.PPO(env, n_epochs=1, batch_size=8 * steps, **options)
    else:
        agent = srl.A2C(env, **options)
    sizes = sizes_of_batches(agent)
    agent.learn(total)
    agent.close()
    assert agent.num_timesteps == total
    assert sum(sizes) == total
    assert max(sizes) <= 8 * steps
    if native and total > 1000:
        assert max(sizes) < 8 * steps  # made-up rows take room in a rollout, and were left out


def test_what_was_counted_is_what_the_environments_did() -> None:
    envs: list[Fast] = []

    def make() -> Fast:
        envs.append(Fast())
        return envs[-1]

    agent = srl.A2C(make, preset="none", num_envs=8, n_steps=4, net_arch=(8,))
    agent.learn(20)  # the third vector step is done by all eight, and four of its rows are thrown away
    assert agent.num_timesteps == 20
    used = [env.t for env in envs if env.t]
    assert used == [3] * 8


def test_the_rows_that_are_thrown_away_are_those_of_the_highest_index() -> None:
    agent = srl.A2C(Fast, preset="none", num_envs=8, n_steps=4, net_arch=(8,))
    masks: list[list[bool]] = []
    tap(rollouts_of(agent).rollout, "add", lambda *args: masks.append(args[-1].tolist()))
    agent.learn(11)
    assert masks == [[True] * 8, [True] * 3 + [False] * 5]


@pytest.mark.parametrize("calls", [[1] * 7, [3, 50, 2], [999]])
def test_every_call_is_exact_and_an_unfinished_rollout_waits(calls: list[int]) -> None:
    total = sum(calls)
    agent = srl.A2C(Fast, preset="none", num_envs=4, n_steps=8, net_arch=(8,))
    sizes = sizes_of_batches(agent)
    done = 0
    for steps in calls:
        agent.learn(steps, schedule_steps=total)
        done += steps
        assert agent.num_timesteps == done
    assert sum(sizes) == total


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True])
def test_a_total_that_is_no_number_of_steps_is_refused(wrong: Any) -> None:
    agent = srl.A2C(Fast, preset="none")
    with pytest.raises(srl.UserError, match="total_timesteps"):
        agent.learn(wrong)


def test_a_declared_total_below_what_is_trained_is_refused() -> None:
    agent = srl.A2C(Fast, preset="none")
    with pytest.raises(srl.UserError, match="schedule_steps is 50, but this call goes on to step 100"):
        agent.learn(100, schedule_steps=50)


def test_a_last_rollout_of_one_row_is_finite() -> None:
    agent = srl.PPO(partial(PaysVector, AutoresetMode.SAME_STEP)(), preset="none", n_steps=4, batch_size=8)
    agent.learn(9)
    assert agent.num_timesteps == 9
    assert all(bool(tensor.isfinite().all()) for tensor in agent.policy.state_dict().values())
