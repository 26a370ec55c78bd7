"""The parts of the backend alone: the log of actions, the board, the messages."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from steadyrl.envs.workers import log as log_module
from steadyrl.envs.workers.board import Array, Board, Start, anonymous_file, arrays_in, arrays_size
from steadyrl.envs.workers.channel import DONE, STEP, TOLD, Channel, packed
from steadyrl.envs.workers.log import ActionLog


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    a, b = map(Channel, socket.socketpair())
    yield a, b
    a.close()
    b.close()


def test_the_log_tells_the_actions_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_CHUNK", 4)
    log = ActionLog(np.zeros((2, 3), np.float32))
    for t in range(11):
        log.add(np.full((2, 3), t, np.float32) + np.array([[0], [100]], np.float32), [0, max(0, t - 2)])
    rows, whole = log.of(1, 5, 9)
    assert (whole, [row.tolist() for row in rows]) == (True, [[100.0 + t] * 3 for t in range(5, 9)])
    assert log.of(0, 11, 11) == ([], True)


def test_the_log_forgets_what_no_episode_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_CHUNK", 4)
    log = ActionLog(np.zeros(1, np.int64))
    for t in range(20):
        log.add(np.array([t]), [t - 2])
    assert [len(log.of(0, first, 20)[0]) for first in (0, 12, 18)] == [8, 8, 2]
    assert log.of(0, 0, 20)[1] is False
    assert log.of(0, 12, 20)[1] is True


def test_the_log_of_an_endless_episode_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_CHUNK", 4)
    monkeypatch.setattr(log_module, "MAX_ACTIONS", 8)
    log = ActionLog(np.zeros(1, np.int64))
    for t in range(50):
        log.add(np.array([t]), [0])
    rows, whole = log.of(0, 0, 50)
    assert (rows[-1], whole) == (49, False)
    assert len(rows) <= 12


def test_the_board_is_shared_and_tells_how_an_episode_began() -> None:
    file = anonymous_file(Board.size(3, 2))
    one, other = Board(file, 3, 2), Board(file, 3, 2)
    one.begin(1, 2, 4)
    assert (other.current[1], other.phase[1], other.current[0]) == (2, 4, 0)
    one.total[2], one.origin[2] = 9, 4
    assert other.elapsed(2) == 5
    start = Start(None, {"level": 3}, dict(np.random.MT19937(3).state))
    one.put_start(2, start)
    found = other.start(2)
    assert found is not None
    assert (found.seed, found.options) == (None, {"level": 3})
    np.testing.assert_array_equal(found.random_state["state"]["key"], start.random_state["state"]["key"])  # type: ignore[index]
    assert other.start(1) is None
    one.put_start(2, Start(1, {"much": "x" * 9000}, None))  # does not fit
    assert other.start(2) is None
    for board in (one, other):
        board.close()
    os.close(file)


def test_arrays_do_not_overlap() -> None:
    arrays = [Array((3,), "<f8"), Array((3, 2), "|u1"), Array((), "<i8"), Array((0, 4), "<f4")]
    file = anonymous_file(arrays_size(arrays))
    one, other = arrays_in(file, 0, arrays), arrays_in(file, 0, arrays)
    for value, array in enumerate(one):
        array[...] = value + 1
    assert [array.tolist() for array in other] == [[1.0] * 3, [[2, 2]] * 3, 3, []]
    os.close(file)


def test_messages_come_whole_and_in_order(ends: tuple[Channel, Channel]) -> None:
    a, b = ends
    a.poke(STEP)
    a.say(TOLD, {"x": [1, 2]})
    a.poke(DONE)
    assert [b.wait(), b.wait(), b.wait()] == [(STEP, None), (TOLD, {"x": [1, 2]}), (DONE, None)]


def test_a_message_in_pieces_waits_for_its_end(ends: tuple[Channel, Channel]) -> None:
    a, b = ends
    whole = packed(TOLD, np.arange(100))
    for piece in (whole[:1], whole[1:5], whole[5:40], whole[40:-1]):
        a.socket.sendall(piece)
        assert b.take() == []
    a.socket.sendall(whole[-1:])
    ((kind, content),) = b.take()
    assert kind == TOLD
    np.testing.assert_array_equal(content, np.arange(100))
    a.close()
    with pytest.raises(EOFError):
        b.take()
