"""More of what a worker tells: environments made, closed and timed, and episodes whose successor fails to begin."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest

from steadyrl.envs.restart import RESTARTED
from steadyrl.envs.workers.board import CLOSE, MAKE, STARTING, Board
from steadyrl.envs.workers.channel import DONE, FAILED, SEED, TOLD
from support.faults import Faulty
from support.served import BLOCK, NUMBER, SEEDS, Served, alone


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], Any]], Served]]:
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    started: list[Served] = []

    def serve(maker: Callable[[], Any]) -> Served:
        started.append(Served(maker))
        return started[-1]

    yield serve
    for each in started:
        each.close()


class Noting(Faulty):
    """Writes down when it is made and closed, with what the board says then."""

    board: Board | None = None
    noted: list[Any]
    known = threading.Event()

    def __init__(self, **options: Any) -> None:
        Noting.known.wait(20)
        self.list = Noting.noted  # one of an earlier test may be collected, and closed, during the next
        self.note("made")
        super().__init__(**options)

    def close(self) -> None:
        self.note("closed")
        super().close()

    def note(self, what: str) -> None:
        assert Noting.board is not None
        self.list.append((what, Noting.board.phase[NUMBER], Noting.board.current[NUMBER]))


def noting(serve: Callable[[Callable[[], Any]], Served], maker: Callable[[], Any]) -> Served:
    Noting.known.clear()
    Noting.noted = []
    served = serve(maker)
    Noting.board = served.board
    Noting.known.set()
    return served


def test_what_is_timed_is_made_and_closed_under_the_parents_eyes(
    serve: Callable[[Callable[[], Any]], Served],
) -> None:
    served = noting(serve, lambda: Noting(horizon=1000))
    assert served.hear()[0] == TOLD
    assert Noting.noted == [("made", MAKE, 1), ("made", MAKE, 2)]
    Noting.noted.clear()
    served.board.phase[NUMBER] = STARTING
    assert served.ask("cost")[0] == TOLD
    assert Noting.noted == [("made", MAKE, 1), ("closed", CLOSE, 1)]


def test_what_failed_is_closed_before_another_takes_its_place(serve: Callable[[Callable[[], Any]], Served]) -> None:
    served = noting(serve, lambda: Noting(fault="raise", at=1, bad_seed=SEEDS[1]))
    served.begin()
    served.ask("reset", SEEDS, None)
    Noting.noted.clear()
    assert served.step(1, 1)[0] == FAILED
    assert Noting.noted == []
    served.parent.say(SEED, 77)
    assert served.hear() == (TOLD, ([(2, {RESTARTED: True})], None))
    assert Noting.noted == [("closed", MAKE, 2), ("made", MAKE, 2)]


def test_one_that_cannot_be_closed_is_replaced_all_the_same(serve: Callable[[Callable[[], Any]], Served]) -> None:
    class Stuck(Faulty):
        def close(self) -> None:
            raise OSError("it is stuck")

    served = serve(lambda: Stuck("raise", at=1, bad_seed=SEEDS[0]))
    served.begin()
    served.ask("reset", SEEDS, None)
    assert served.step(1, 1)[0] == FAILED
    served.parent.say(SEED, 77)
    assert served.hear() == (TOLD, ([(1, {RESTARTED: True})], None))


def test_an_episode_whose_successor_fails_to_begin_is_left_out(serve: Callable[[Callable[[], Any]], Served]) -> None:
    served = serve(lambda: Faulty("raise", "reset", 2, SEEDS[1], horizon=1))
    stepping = served.begin()
    served.ask("reset", SEEDS, None)
    kind, report = served.step(1, 1)
    assert (kind, report.failure.phase, report.failure.env_index) == (FAILED, "reset", 2)
    served.parent.say(SEED, 77)
    kind, (told, rows) = served.hear()
    assert (kind, rows) == (TOLD, None)
    assert [(index, sorted(info)) for index, info in told] == [(1, ["final_info", "final_obs"]), (2, [RESTARTED])]
    rewards, terminated, truncated = stepping.told()
    assert rewards[1:3] == pytest.approx([-abs(alone(SEEDS[0], [1])[1][0]), 0.0])
    assert terminated.tolist() == [False] * 4
    assert truncated.tolist() == [False, True, False, False]
    assert stepping.obs()[2].tolist() == alone(77, [])[0]


class Falls(Faulty):
    """Ends by itself in its second step."""

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.t == 2 and self.seed == SEEDS[0], False, info


def test_an_end_for_good_is_told_as_one(serve: Callable[[Callable[[], Any]], Served]) -> None:
    served = serve(Falls)
    stepping = served.begin()
    served.ask("reset", SEEDS, None)
    assert served.step(1, 1) == (DONE, None)
    kind, (told, _) = served.step(1, 1)
    assert (kind, [index for index, _ in told]) == (TOLD, [1])
    _, terminated, truncated = stepping.told()
    assert terminated.tolist() == [False, True, False, False]
    assert not truncated.any()
    assert served.step(1, 1) == (DONE, None)
    assert not stepping.told()[1].any()


def test_of_different_limits_the_first_is_told(serve: Callable[[Callable[[], Any]], Served]) -> None:
    made: list[int] = []

    def maker() -> Any:
        made.append(1)
        return gym.wrappers.TimeLimit(Faulty(), 10 * len(made))

    maker.__module__ = "__main__"
    kind, (_, _, limit) = serve(maker).hear()  # of the two that it makes
    assert (kind, limit) == (TOLD, 10)


PHASES: list[int] = []
BOARD: list[Board] = []
READY = threading.Event()


def look() -> str:
    """What the board says while the recipe is read; the fault of an environment, which has none."""
    READY.wait(20)
    PHASES.append(BOARD[0].phase[NUMBER])
    return ""


class Recipe:
    """Is read by `look`."""

    def __reduce__(self) -> Any:
        return look, ()


def test_what_makes_environments_is_read_under_the_parents_eyes(serve: Callable[[Callable[[], Any]], Served]) -> None:
    READY.clear()
    PHASES.clear()
    fault: Any = Recipe()
    served = serve(lambda: Faulty(fault))
    BOARD[:] = [served.board]
    READY.set()
    assert served.hear()[0] == TOLD
    assert PHASES == [MAKE]
    assert served.board.current[NUMBER] == BLOCK[1]
