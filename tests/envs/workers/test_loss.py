"""The error of a worker that died or hangs: what it says in every phase, and what it knows of the environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from steadyrl.envs.workers.board import CLOSE, IDLE, MAKE, RESET, STARTING, STEP, Board, Start, anonymous_file
from steadyrl.envs.workers.log import ActionLog
from steadyrl.envs.workers.loss import how, lost
from steadyrl.envs.workers.process import Loss
from steadyrl.errors import SteadyRLError

BLOCK = range(4, 6)  # of worker 1
DEAD = Loss(7, 0.1, False, "the stack")
HANGS = Loss(None, 9.0, False, "where it was")
STOPPED = Loss(None, 9.0, True, "")
RANDOM = {"bit_generator": "PCG64"}


@pytest.fixture
def board() -> Iterator[Board]:
    """Of six environments in two workers; environment 5 is in step 3 of an episode, after eight vector steps."""
    file = anonymous_file(Board.size(6, 2))
    board = Board(file, 6, 2)
    board.begin(1, 5, STEP)
    board.total[5], board.origin[5] = 11, 8
    board.put_start(5, Start(31, {"level": 2}, RANDOM))
    board.put_start(4, Start(None, None, None))
    yield board
    board.close()
    os.close(file)


def log(count: int = 11) -> ActionLog:
    """Environment i took 10 t + i in vector step t."""
    log = ActionLog(np.zeros(6, np.int64))
    for t in range(count):
        log.add(10 * t + np.arange(6), [0])
    return log


def error_of(loss: Loss, board: Board, actions: ActionLog | None = None) -> tuple[SteadyRLError, Any]:
    error = lost(loss, 1, BLOCK, "Walk", board, actions, 2.5)
    return error, vars(error)["failure"]


@pytest.mark.parametrize(
    ("phase", "index", "where", "of"),
    [
        (STEP, 5, "in step 3 of its episode (seed 31)", "step"),
        (RESET, 5, "in reset() (seed 31)", "reset"),
        (CLOSE, 5, "in close()", "close"),
        (MAKE, 5, "while it was made", "make"),
        (STARTING, 4, "while its process started", "make"),
        (IDLE, 4, "after step 0 of its episode", "step"),
    ],
)
def test_the_place_is_named_in_every_phase(board: Board, phase: int, index: int, where: str, of: str) -> None:
    board.phase[1] = phase
    error, failure = error_of(DEAD, board)
    assert error.message == (
        f"The process of environment {index} ended by itself (exit status 7) {where}: it was worker 1 with Walk."
    )
    assert (error.code, error.exit_status) == ("env-worker", 3)
    assert "Look above for what it printed" in error.remedy
    assert (failure.env_index, failure.worker, failure.phase, failure.error) == (index, 1, of, error.message)
    assert failure.traceback == "the stack"
    error, _ = error_of(HANGS, board)
    assert error.message == f"Environment {index} (Walk) in worker 1 did not answer within 2.5 s {where}."


def test_a_hang_and_a_stop_have_cures_of_their_own(board: Board) -> None:
    hangs, failure = error_of(HANGS, board)
    assert hangs.code == "env-timeout"
    assert "--env-timeout" in hangs.remedy
    assert failure.traceback == "where it was"
    stopped, _ = error_of(STOPPED, board)
    assert stopped.message.endswith("of its episode (seed 31): its process was stopped by a signal.")
    assert "SIGSTOP" in stopped.remedy


def test_all_that_is_known_comes_along(board: Board) -> None:
    _, failure = error_of(DEAD, board, log())
    assert (failure.step, failure.seed, failure.options, failure.random_state) == (3, 31, {"level": 2}, RANDOM)
    assert [int(action) for action in failure.actions] == [85, 95, 105]
    assert failure.whole


def test_actions_that_were_not_kept_are_told(board: Board) -> None:
    _, failure = error_of(DEAD, board, log(9))
    assert [int(action) for action in failure.actions] == [85]
    assert not failure.whole


@pytest.mark.parametrize(("phase", "whole"), [(STEP, False), (RESET, False), (CLOSE, False), (MAKE, True)])
def test_a_start_that_is_not_known_leaves_it_incomplete(board: Board, phase: int, whole: bool) -> None:
    board.forget_start(5)
    board.phase[1] = phase
    error, failure = error_of(DEAD, board, log())
    assert (failure.seed, failure.options, failure.random_state, failure.whole) == (None, None, None, whole)
    assert "seed" not in error.message


def test_before_there_are_arrays_there_are_no_actions(board: Board) -> None:
    board.phase[1] = MAKE
    _, failure = error_of(DEAD, board, log())
    assert (failure.step, failure.actions, failure.whole, failure.seed) == (0, [], True, None)
    board.phase[1] = STARTING
    _, failure = error_of(DEAD, board, None)
    assert (failure.step, failure.actions, failure.whole, failure.seed) == (0, [], True, None)


def test_what_ended_a_process_is_named() -> None:
    assert how(0) == "exit status 0"
    assert how(-int(signal.SIGSEGV)) == "signal SIGSEGV"
    assert how(-60) == "signal 60"
