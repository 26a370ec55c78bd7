"""What `vec='auto'` takes: the decisions as functions of numbers, and that timing leaves nothing behind."""

from __future__ import annotations

import multiprocessing
import os
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from steadyrl.envs import choice, timing
from steadyrl.envs.choice import Choice, choose, clearly, fastest, in_processes, picked, workers_to_try
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.timing import Cost, Timed
from steadyrl.errors import RunFailedError
from support.envs import ConstantReward, Ending, Scripted

GIB = 2**30


def cost(step_s: float = 1e-3, *, make_s: float = 0.01, busy: float = 1.0, draws: bool = False) -> Cost:
    return Cost(make_s, step_s, busy, draws)


@pytest.mark.parametrize(
    ("given", "num_envs", "cores", "reason"),
    [
        (cost(5e-6), 8, 2, "a step of 8 environments takes 0.04 ms, and 2 cores"),  # CartPole
        (cost(5e-6), 64, 2, "0.32 ms"),
        (cost(0.1), 8, 1, "800 ms, and 1 core in"),  # one core works for one process at a time
        (cost(draws=True), 8, 2, "draws from the process's own generators"),
        (cost(make_s=0.6), 8, 2, "making one environment takes 0.6 s"),
        (cost(make_s=0.45), 16, 2, "making 16 environments again"),
    ],
)
def test_where_sync_is_clear_nothing_more_is_timed(given: Cost, num_envs: int, cores: int, reason: str) -> None:
    found = clearly(given, num_envs, cores)
    assert found is not None
    assert (found.vec, found.num_workers) == ("sync", None)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("given", "num_envs", "cores"),
    [(cost(1e-3), 8, 2), (cost(5e-3, busy=0.02), 8, 1), (cost(5e-6), 256, 64), (cost(30e-6), 32, 2)],
)
def test_where_processes_may_win_it_is_not_clear(given: Cost, num_envs: int, cores: int) -> None:
    assert clearly(given, num_envs, cores) is None


def test_the_time_in_processes_is_bounded_by_cores_and_by_one_step() -> None:
    assert in_processes(cost(1e-3), 8, 2) == pytest.approx(8 * 1.005e-3 / 2 + 1e-4)
    assert in_processes(cost(5e-3, busy=0.0), 8, 2) == pytest.approx(5.005e-3 + 1e-4)
    assert in_processes(cost(1e-3), 8, 64) == pytest.approx(1.005e-3 + 1e-4)


@pytest.mark.parametrize(
    ("busy", "num_envs", "cores", "free", "expected"),
    [
        (1.0, 8, 2, GIB, [2]),
        (1.0, 8, 16, GIB, [8]),
        (0.01, 16, 2, 2 * GIB, [2, 16]),
        (0.01, 200, 2, 100 * GIB, [2, 64]),
        (0.25, 16, 2, 2 * GIB, [2, 8]),
        (0.01, 16, 2, 0.5 * GIB, [2]),  # memory for eight
        (0.01, 16, 2, 0, []),
    ],
)
def test_numbers_of_processes_follow_cores_waiting_and_memory(
    busy: float, num_envs: int, cores: int, free: float, expected: list[int]
) -> None:
    assert workers_to_try(cost(busy=busy), num_envs, cores, int(free)) == expected


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({None: 100.0, 2: 109.0}, None),  # not worth the processes
        ({None: 100.0, 2: 111.0}, 2),
        ({None: 100.0, 2: 196.0, 8: 200.0}, 2),  # fewer are as good
        ({None: 100.0, 2: 150.0, 8: 200.0}, 8),
        ({None: 100.0}, None),
    ],
)
def test_processes_are_taken_where_they_are_clearly_faster(rates: Any, expected: int | None) -> None:
    assert fastest(rates) == expected


def test_the_choice_says_what_was_measured() -> None:
    found = picked({None: 1234.4, 4: 5678.9}, 8)
    assert (found.vec, found.num_workers) == ("async", 4)
    assert found.reason == "environment steps per second with 8 environments: sync 1,234, async (4 processes) 5,679"
    assert found.to_json() == {
        "asked": "auto",
        "reason": found.reason,
        "steps_per_second": {"sync": 1234.4, "async (4 processes)": 5678.9},
    }


class Counted(ConstantReward):
    """Counts how many were made and closed in this process."""

    open = 0
    made = 0

    def __init__(self, step_s: float = 0.0) -> None:
        super().__init__(10)
        Counted.open += 1
        Counted.made += 1

    def close(self) -> None:
        Counted.open -= 1


@pytest.fixture(autouse=True)
def _none_made() -> None:
    Counted.open = Counted.made = 0


def chosen(env: Any, num_envs: int, **options: Any) -> Choice:
    given: dict[str, Any] = {"cores": 2, "free_bytes": GIB, "seconds": 0.2} | options
    return choose(make_env_factory(env), num_envs, **given)


def test_one_environment_and_an_instance_need_no_timing() -> None:
    assert chosen(Counted, 1).vec == "sync"
    assert Counted.made == 0
    assert chosen(Counted(), 8).vec == "sync"
    assert Counted.made == 1


def test_a_cheap_environment_is_made_once_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_step_cost", lambda stepped: (1e-6, 1.0))
    assert "could not beat that" in chosen(Counted, 4).reason
    assert (Counted.made, Counted.open) == (1, 0)


def test_what_makes_environments_may_not_hold_state() -> None:
    queue = [1, 2, 3]
    stateful = [lambda: Scripted([Ending(queue.pop(), True, False)]), partial(Scripted, [Ending(1, True, False)])]
    for maker in stateful:
        assert "holds state of its own" in chosen(maker, 2).reason
    assert len(queue) == 3
    horizon = (5, "x", None)
    plain = [Counted, lambda: ConstantReward(horizon[0]), partial(ConstantReward, 5), partial(gym.make, "CartPole-v1")]
    for maker in plain:
        assert "holds state" not in chosen(maker, 2).reason


class Failing(ConstantReward):
    def step(self, action: Any) -> Any:
        raise ValueError("out of order")


def test_an_environment_that_fails_is_left_to_the_run_that_will_say_so() -> None:
    found = chosen(Failing, 2)
    assert found.vec == "sync"
    assert "could not be timed" in found.reason
    assert "out of order" in found.reason


def force_timing(monkeypatch: pytest.MonkeyPatch, rates: dict[str, float]) -> None:
    """Timing is not left out, and gives these rates."""
    monkeypatch.setattr(choice, "clearly", lambda *args: None)
    monkeypatch.setattr(Timed, "rate", property(lambda self: rates[self.backend]), raising=False)
    monkeypatch.setattr(choice, "Timed", Named)


class Named(Timed):
    """A timing that knows its backend."""

    def __init__(self, envs: Any, space: Any, masks: Any = None) -> None:
        super().__init__(envs, space, masks=masks)
        self.backend = envs.spec.backend


@pytest.mark.parametrize("faster", ["sync", "async"])
def test_the_faster_one_is_taken_and_no_process_is_left(monkeypatch: pytest.MonkeyPatch, faster: str) -> None:
    force_timing(monkeypatch, {"sync": 100.0, "async": 200.0 if faster == "async" else 50.0})
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    found = chosen("CartPole-v1", 2, seconds=0.02)
    assert found.vec == faster
    assert multiprocessing.active_children() == []
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # type: ignore[index]


def test_an_environment_that_no_process_can_be_sent_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    force_timing(monkeypatch, {"sync": 1.0, "async": 9.0})

    def refused(*args: Any, **options: Any) -> Any:
        raise RunFailedError("The worker did not start.")

    monkeypatch.setattr(choice, "make_vec", refused)
    assert chosen("CartPole-v1", 2).reason == "it could not be timed in other processes (The worker did not start)"


def test_a_slow_environment_is_not_timed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "cost_of", lambda factory: cost(0.3, busy=0.01))
    monkeypatch.setattr(choice, "in_turns", lambda *args: pytest.fail("timed"))
    found = chosen("CartPole-v1", 4)
    assert (found.vec, found.reason) == ("async", "a step of 4 environments one after the other takes 1.2e+03 ms")


class Dying(ConstantReward):
    def step(self, action: Any) -> Any:
        os._exit(0)


class Hanging(ConstantReward):
    def step(self, action: Any) -> Any:
        while True:
            pass


@pytest.mark.parametrize(
    ("env", "code", "said"),
    [
        (Dying, "env-worker", r"As Dying was timed .*\(exit status 0\) in step 1 of its episode"),
        (Hanging, "env-timeout", "As Hanging was timed .* did not answer within 0.5 s in step 1 of its episode"),
    ],
)
def test_one_that_hangs_or_ends_its_process_is_named_before_it_does_so_here(env: Any, code: str, said: str) -> None:
    with pytest.raises(RunFailedError, match=said) as caught:
        chosen(env, 2, timeout=0.5 if env is Hanging else 20.0)
    assert caught.value.code == code


def test_the_first_steps_of_foreign_code_are_taken_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "clearly", lambda *args: Choice("sync", "it is clear"))
    assert chosen(Counted, 2, timeout=20.0).reason == "it is clear"
    assert Counted.made == 0
    found = chosen(Failing, 2, timeout=20.0)
    assert (found.vec, "out of order" in found.reason) == ("sync", True)


def test_what_comes_with_gymnasium_is_timed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "cost_elsewhere", lambda *args: pytest.fail("in another process"))
    assert chosen("CartPole-v1", 2, timeout=5.0).vec == "sync"
