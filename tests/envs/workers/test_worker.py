"""What a worker answers to each message, and what it writes on the board; it runs in a thread here."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from steadyrl.envs.keys import PART
from steadyrl.envs.restart import RESTARTED
from steadyrl.envs.timing import Cost
from steadyrl.envs.workers import worker as module
from steadyrl.envs.workers.block import unsendable
from steadyrl.envs.workers.board import CLOSE, IDLE, MAKE, RESET, STEP, Board, Start
from steadyrl.envs.workers.channel import DONE, FAILED, SEED, TOLD
from support.envs import LifeLoss
from support.faults import Faulty
from support.served import BLOCK, NUMBER, SEEDS, N, Served, alone


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(module, "REGISTRY", {**module.REGISTRY})
    started: list[Served] = []

    def serve(*args: Any, **options: Any) -> Served:
        maker = partial(Faulty, *args, **options)
        started.append(Served(maker if not args or isinstance(args[0], str) else args[0]))
        return started[-1]

    yield serve
    for each in started:
        each.close()


def test_it_tells_its_spaces_and_takes_the_parents_arguments(serve: Callable[..., Served]) -> None:
    served = serve(partial(gym.make, "MountainCar-v0"))
    kind, (observation, action, limit) = served.hear()
    assert kind == TOLD
    assert (observation.shape, action.n, limit) == ((2,), 3, 200)
    assert sys.argv == ["mine.py", "--flag"]
    assert (served.board.phase[NUMBER], served.board.current[NUMBER], served.board.phase[0]) == (IDLE, 2, 0)


def test_it_steps_its_own_rows_and_no_others(serve: Callable[..., Served]) -> None:
    served = serve()
    stepping = served.begin()
    assert served.ask("reset", SEEDS, None) == (DONE, None)
    expected = [alone(seed, [2, 2] if seed == 11 else [0, 0]) for seed in SEEDS]
    assert stepping.obs()[1:3].tolist() == [rows[0] for rows in expected]
    for t in (1, 2):
        assert served.step(2, 0) == (DONE, None)
        rewards, terminated, truncated = stepping.told()
        assert stepping.obs()[1:3].tolist() == [rows[t] for rows in expected]
        assert rewards[1:3] == pytest.approx([-abs(rows[t][0]) for rows in expected])
        assert not (terminated | truncated).any()
    assert stepping.obs()[[0, 3]].tolist() == [[0.0] * 3] * 2
    assert [served.board.total[i] for i in range(N)] == [0, 2, 2, 0]
    assert [served.board.elapsed(i) for i in range(N)] == [0, 2, 2, 0]
    assert (served.board.phase[NUMBER], served.board.current[NUMBER]) == (IDLE, 2)


def test_the_board_tells_how_each_episode_began(serve: Callable[..., Served]) -> None:
    served = serve(horizon=2)
    served.begin()
    served.ask("reset", SEEDS, {"level": 3})
    assert [served.board.start(i) for i in BLOCK] == [Start(seed, {"level": 3}, None) for seed in SEEDS]
    served.step(1, 1)
    kind, (told, rows) = served.step(1, 1)  # both end and begin anew
    assert (kind, rows, [index for index, _ in told]) == (TOLD, None, [1, 2])
    assert all(
        info["final_obs"].tolist() == alone(seed, [1, 1])[2] for (_, info), seed in zip(told, SEEDS, strict=True)
    )
    for i in BLOCK:
        start = served.board.start(i)
        assert start is not None
        assert (start.seed, start.options, served.board.elapsed(i), served.board.total[i]) == (None, None, 0, 2)
        assert start.random_state is not None
        assert start.random_state["bit_generator"] == "PCG64"
    stepping = served.stepping
    assert stepping is not None
    assert stepping.told()[2].tolist() == [False, True, True, False]


def test_one_is_started_anew_when_it_is_asked_for(serve: Callable[..., Served]) -> None:
    served = serve()
    served.begin()
    served.ask("reset", SEEDS, None)
    served.step(2, 2)
    kind, (obs, info) = served.ask("restart", 1, 77)
    assert (kind, obs[0], info) == (TOLD, alone(77, [])[0][0], {})
    assert [served.board.elapsed(i) for i in BLOCK] == [1, 0]


def test_a_failing_environment_waits_for_a_seed(serve: Callable[..., Served]) -> None:
    served = serve("raise", "step", 2, SEEDS[1])
    stepping = served.begin()
    served.ask("reset", SEEDS, None)
    served.step(2, 2)
    kind, report = served.step(2, 2)
    assert (kind, report.asks, report.code) == (FAILED, True, "env-error")
    failure = report.failure
    assert (failure.env_index, failure.worker, failure.phase, failure.step) == (2, NUMBER, "step", 2)
    assert [int(action) for action in failure.actions] == [2, 2]
    served.parent.say(SEED, 77)
    kind, (told, rows) = served.hear()
    assert (kind, rows, told) == (TOLD, None, [(2, {RESTARTED: True})])
    obs = stepping.obs()
    assert obs[1].tolist() == alone(SEEDS[0], [2, 2])[2]
    assert obs[2].tolist() == alone(77, [])[0]
    rewards, terminated, truncated = stepping.told()
    assert (bool(rewards[1]), float(rewards[2])) == (True, 0.0)
    assert not (terminated | truncated).any()
    assert served.board.elapsed(2) == 0
    assert served.board.start(2) == Start(77, None, None)
    assert served.step(2, 2) == (DONE, None)


def test_an_environment_that_fails_again_asks_again(serve: Callable[..., Served]) -> None:
    served = serve("raise", "reset", 1)
    served.begin()
    kind, report = served.ask("reset", SEEDS, None)
    phases = [report.failure.phase]
    for seed in (5, 6):
        served.parent.say(SEED, seed)
        kind, report = served.hear()
        assert (kind, report.failure.env_index) == (FAILED, 1)
        phases.append(report.failure.phase)
    assert phases == ["reset"] * 3


def test_one_that_cannot_be_made_anew_says_so(serve: Callable[..., Served]) -> None:
    made: list[int] = []

    def maker() -> Faulty:
        made.append(1)
        if len(made) > 2:
            raise OSError("no licence")
        return Faulty("raise", "step", 1)

    maker.__module__ = "__main__"
    served = serve(maker)
    served.begin()
    served.ask("reset", SEEDS, None)
    served.step(1, 1)
    served.parent.say(SEED, 5)
    kind, report = served.hear()
    assert (kind, report.failure.phase, report.failure.env_index, report.asks) == (FAILED, "make", 1, True)
    assert "no licence" in report.message
    assert served.board.phase[NUMBER] == MAKE


def test_code_that_breaks_the_interface_does_not_ask(serve: Callable[..., Served]) -> None:
    served = serve("wrong shape", "step", 1, SEEDS[0])
    served.begin()
    served.ask("reset", SEEDS, None)
    kind, report = served.step(1, 1)
    assert (kind, report.kind, report.asks) == (FAILED, "UserError", False)


def test_what_cannot_be_sent_names_environment_and_part(serve: Callable[..., Served]) -> None:
    served = serve("unpicklable info", "step", 1, SEEDS[1])
    served.begin()
    served.ask("reset", SEEDS, None)
    kind, report = served.step(1, 1)
    assert (kind, report.code, report.failure.env_index, report.failure.phase) == (FAILED, "env-pickle", 2, "step")
    assert report.message.startswith("info['action_mask'] of ")
    assert "(environment 2) cannot be sent from its process" in report.message


def test_the_first_that_cannot_be_made_is_told(serve: Callable[..., Served]) -> None:
    made: list[int] = []

    def maker() -> Faulty:
        made.append(1)
        if len(made) == 2:
            raise OSError("no licence")
        return Faulty()

    maker.__module__ = "__main__"
    served = serve(maker)
    kind, report = served.hear()
    assert (kind, report.failure.phase, report.failure.env_index, report.failure.worker) == (FAILED, "make", 2, NUMBER)
    assert (served.board.current[NUMBER], served.board.phase[NUMBER]) == (2, MAKE)
    with pytest.raises(EOFError):
        served.hear()  # it has ended


def test_functions_of_the_registry_are_called_with_the_environments(serve: Callable[..., Served]) -> None:
    served = serve()
    served.begin()
    served.ask("reset", SEEDS, None)
    served.step(2, 2)
    kind, states = served.ask("call", "state")
    assert (kind, len(states)) == (TOLD, 2)
    served.step(2, 2)
    kind, rows = served.ask("call", "restore", states)
    assert (kind, rows) == (TOLD, None)
    stepping = served.stepping
    assert stepping is not None
    assert stepping.obs()[1:3].tolist() == [alone(seed, [2])[1] for seed in SEEDS]
    assert [served.board.elapsed(i) for i in BLOCK] == [1, 1]
    assert [served.board.start(i) for i in BLOCK] == [None, None]
    module.REGISTRY["state"] = ("no_such_module", "x")
    kind, report = served.ask("call", "state")
    assert (kind, report.failure.env_index, report.failure.phase) == (FAILED, 1, "step")
    assert "no_such_module" in report.message


def test_the_cost_of_one_is_found_out_there(serve: Callable[..., Served]) -> None:
    served = serve(horizon=1000)
    served.hear()
    kind, cost = served.ask("cost")
    assert kind == TOLD
    assert isinstance(cost, Cost)
    assert cost.make_s > 0
    assert cost.step_s > 0
    assert served.board.total[1] > 5
    assert served.board.start(1) is not None
    failing = serve("raise", "step", 3)
    failing.hear()
    kind, report = failing.ask("cost")
    assert (kind, report.failure.step, report.failure.phase) == (FAILED, 3, "step")


def test_closing_tells_what_went_wrong_and_ends_it(serve: Callable[..., Served]) -> None:
    good, bad = serve(), serve("raise", "close")
    for served in (good, bad):
        served.begin()
        served.ask("reset", SEEDS, None)
    assert good.ask("close") == (TOLD, [])
    kind, reports = bad.ask("close")
    assert kind == TOLD
    assert [(report.failure.env_index, report.failure.phase, report.failure.worker) for report in reports] == [
        (1, "close", NUMBER),
        (2, "close", NUMBER),
    ]
    assert "raised MotorError in close(): the motor fell off" in reports[0].message
    assert (bad.board.phase[NUMBER], bad.board.current[NUMBER]) == (CLOSE, 2)
    for served in (good, bad):
        with pytest.raises(EOFError):
            served.hear()


class Watching(Faulty):
    """Writes down what the board says while it works."""

    board: Board
    seen: list[Any]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.seen.append((self.board.phase[NUMBER], self.board.current[NUMBER], self.board.elapsed(1)))
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self.seen.append((self.board.phase[NUMBER], self.board.current[NUMBER], self.board.elapsed(1)))
        return super().step(action)


def test_the_board_says_what_is_being_done(serve: Callable[..., Served]) -> None:
    Watching.seen = []
    served = serve(Watching)
    Watching.board = served.board
    served.begin()
    served.ask("reset", SEEDS, None)
    began = served.board.began[NUMBER]
    served.step(1, 1)
    assert served.board.began[NUMBER] > began
    served.step(1, 1)
    assert Watching.seen == [(RESET, 1, 0), (RESET, 2, 0), (STEP, 1, 1), (STEP, 2, 1), (STEP, 1, 2), (STEP, 2, 2)]


class Pair(Faulty):
    """Observes a tuple, which has no array."""

    def __init__(self) -> None:
        super().__init__()
        box, number = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32), gym.spaces.Discrete(9)
        self.observation_space: Any = gym.spaces.Dict({"a": box, "b": gym.spaces.Text(3), "n": number})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        obs, info = super().reset(seed=seed, options=options)
        return {"a": obs, "b": "abc", "n": 1}, info


def test_what_has_no_array_is_sent(serve: Callable[..., Served]) -> None:
    served = serve(Pair)
    served.begin()
    kind, (told, rows) = served.ask("reset", SEEDS, None)
    assert (kind, told) == (TOLD, [])
    assert [row["b"] for row in rows] == ["abc", "abc"]
    assert [row["a"].tolist() for row in rows] == [alone(seed, [])[0] for seed in SEEDS]


def test_what_cannot_be_sent_is_looked_for() -> None:
    lock = threading.Lock()
    told: list[tuple[int, dict[str, Any]]] = [(1, {"x": 1}), (2, {"x": 1, "y": lock}), (3, {"y": lock})]
    found = unsendable(told, "Walk")
    assert found is not None
    assert found[0] == 2
    assert found[1].message.startswith("info['y'] of Walk (environment 2) cannot be sent from its process: ")
    assert (found[1].code, "vec='sync'" in found[1].remedy) == ("env-pickle", True)
    assert unsendable(told[:1], "Walk") is None
    assert unsendable([], "Walk") is None


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("orphan", [True, False])
def test_a_process_whose_parent_has_ended_already_ends(
    orphan: bool, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    parent = os.getpid()
    child = os.fork()
    if not child:
        try:
            module.end_with(-1 if orphan else parent)
        finally:
            os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (0 if orphan else 5)


def test_the_start_of_a_game_is_none_of_its_second_life(serve: Callable[..., Served]) -> None:
    class Told(LifeLoss):
        def reset(self, **options: Any) -> Any:
            part = not self.truly_over
            obs, info = super().reset(**options)
            return obs, {**info, PART: True} if part else info

    served = serve(lambda: Told(Faulty(horizon=50), life=2))
    served.begin()
    served.ask("reset", SEEDS, None)
    assert [served.board.start(i) is None for i in BLOCK] == [False, False]
    for _ in range(3):
        served.step(1, 1)
    assert [served.board.start(i) for i in BLOCK] == [None, None]
