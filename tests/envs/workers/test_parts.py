"""The parts of the backend alone: the log of actions, the board, the messages."""

from __future__ import annotations

import mmap
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import registry

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers import log as log_module
from steadyrl.envs.workers.arguments import insist_on
from steadyrl.envs.workers.board import Array, Board, Start, anonymous_file, arrays_in, arrays_size
from steadyrl.envs.workers.channel import DONE, STEP, TOLD, Channel, packed
from steadyrl.envs.workers.log import ActionLog
from steadyrl.envs.workers.process import Process
from steadyrl.envs.workers.recipe import Recipe, user_registered
from steadyrl.errors import UserError
from support.envs import ConstantReward


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    a, b = map(Channel, socket.socketpair())
    yield a, b
    a.close()
    b.close()


@pytest.fixture
def board() -> Iterator[Board]:
    file = anonymous_file(Board.size(3, 2))
    board = Board(file, 3, 2)
    yield board
    board.close()
    os.close(file)


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


def test_memory_without_a_name_where_the_system_has_no_such_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    file = anonymous_file(100)
    os.pwrite(file, b"x", 99)
    assert (os.fstat(file).st_size, os.fstat(file).st_nlink) == (100, 0)
    os.close(file)


def test_a_board_is_of_whole_pages_and_as_small_as_that_allows() -> None:
    page = mmap.ALLOCATIONGRANULARITY
    for num_envs, workers in ((1, 1), (3, 2), (64, 64), (1000, 7)):
        size = Board.size(num_envs, workers)
        needed = 8 * (3 * workers + 2 * num_envs) + 4096 * num_envs
        assert (size % page, needed <= size < needed + page) == (0, True)


def test_no_part_of_the_board_is_written_by_another(board: Board) -> None:
    for worker in range(2):
        board.began[worker] = 1.5 + worker
        board.current[worker], board.phase[worker] = 10 + worker, 20 + worker
    for index in range(3):
        board.total[index], board.origin[index] = 100 + index, 50 + 2 * index
        board.put_start(index, Start(index, None, None))
    assert (list(board.began), list(board.current), list(board.phase)) == ([1.5, 2.5], [10, 11], [20, 21])
    assert (list(board.total), list(board.origin)) == ([100, 101, 102], [50, 52, 54])
    assert [board.elapsed(index) for index in range(3)] == [50, 49, 48]
    assert [board.start(index) for index in range(3)] == [Start(index, None, None) for index in range(3)]
    board.forget_start(1)
    assert [board.start(index) is None for index in range(3)] == [False, True, False]
    assert list(board.total) == [100, 101, 102]


def test_beginning_something_notes_when(board: Board) -> None:
    before = time.monotonic()
    board.begin(1, 2, 3)
    assert before <= board.began[1] <= time.monotonic()
    assert (board.began[0], list(board.current), list(board.phase)) == (0.0, [0, 2], [0, 3])


def test_a_start_fits_up_to_the_last_byte_and_replaces_the_one_before(board: Board) -> None:
    empty = len(ForkingPickler.dumps(Start(None, {"much": b"x" * 1000}, None))) - 1000
    for left, fits in ((0, True), (1, False)):
        board.put_start(1, Start(7, None, None))
        start = Start(None, {"much": b"x" * (4094 - empty + left)}, None)
        assert len(ForkingPickler.dumps(start)) == 4094 + left
        board.put_start(1, start)
        assert board.start(1) == (start if fits else None)
    board.put_start(1, Start(None, {"lock": threading.Lock()}, None))  # cannot be pickled
    assert board.start(1) is None
    assert (board.start(0), board.start(2)) == (None, None)


def test_arrays_lie_on_lines_of_their_own() -> None:
    assert arrays_size([Array((8,), "<f8"), Array((9,), "<f8"), Array((0,), "<f8"), Array((), "|b1")]) == 64 * (
        1 + 2 + 1 + 1
    )
    page = mmap.ALLOCATIONGRANULARITY
    file = anonymous_file(page + 64)
    (array,) = arrays_in(file, page, [Array((4,), "|u1")])
    array[:] = [1, 2, 3, 4]
    assert os.pread(file, 4, page) == bytes([1, 2, 3, 4])
    os.close(file)


def test_what_is_read_at_once_is_kept_until_it_is_asked_for(ends: tuple[Channel, Channel]) -> None:
    a, b = ends
    a.socket.sendall(packed(TOLD, 1) + packed(TOLD, 2) + DONE)
    assert b.take() == [(TOLD, 1), (TOLD, 2), (DONE, None)]
    a.socket.sendall(packed(TOLD, 1) + STEP)
    assert [b.wait(), b.wait()] == [(TOLD, 1), (STEP, None)]
    a.poke(STEP)
    assert b.take() == [(STEP, None)]


def test_a_message_without_content_after_half_of_another_is_part_of_it(ends: tuple[Channel, Channel]) -> None:
    a, b = ends
    whole = packed(TOLD, "s.s.s")
    a.socket.sendall(whole[:-4])
    assert b.take() == []
    for byte in whole[-4:]:  # each looks like a message, or like anything
        a.socket.sendall(bytes([byte]))
        got = b.take()
    assert got == [(TOLD, "s.s.s")]
    assert packed(TOLD, "s.s.s")[1:9] == (len(whole) - 9).to_bytes(8, "little")


def test_a_large_message_comes_through_whole(ends: tuple[Channel, Channel]) -> None:
    a, b = ends
    thread = threading.Thread(target=a.say, args=(TOLD, b"y" * 2_500_000))
    thread.start()
    assert b.wait() == (TOLD, b"y" * 2_500_000)
    thread.join()


@pytest.mark.parametrize("number", [1, 2**40])
def test_the_log_of_nothing_is_empty(number: int) -> None:
    log = ActionLog(np.zeros((1, 2)))
    assert log.of(0, 0, 0) == ([], True)
    assert log.of(0, 0, number) == ([], False)


def test_what_the_log_keeps_is_its_own() -> None:
    actions = np.zeros((1, 2))
    log = ActionLog(actions)
    log.add(actions, [0])
    actions[:] = 9
    (row,), _ = log.of(0, 0, 1)
    assert row.tolist() == [0, 0]
    row[...] = 5
    assert log.of(0, 0, 1)[0][0].tolist() == [0, 0]


def test_a_recipe_carries_the_users_ids_and_leaves_out_what_cannot_be_sent() -> None:
    lock = threading.Lock()
    gym.register("Sendable-v0", entry_point=lambda: ConstantReward(2))  # type: ignore[arg-type]
    gym.register("Unsendable-v0", entry_point=lambda: ConstantReward(lock))  # type: ignore[arg-type]
    try:
        sent = user_registered()
        assert "Sendable-v0" in sent
        assert not {"Unsendable-v0", "CartPole-v1"} & sent.keys()
        recipe = Recipe(make_env_factory("CartPole-v1"))
        kept = registry.pop("Sendable-v0")
        recipe._registered["Broken-v0"] = b"no pickle"
        assert recipe.factory().id == recipe.id == "CartPole-v1"
        assert "Broken-v0" not in registry
        assert registry["Sendable-v0"] is not kept
        own = registry["Sendable-v0"]
        recipe.factory()
        assert registry["Sendable-v0"] is own  # what is known here is left alone
    finally:
        for name in ("Sendable-v0", "Unsendable-v0"):
            registry.pop(name, None)


def test_systems_that_cannot_pass_descriptors_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    insist_on("spawn", 1, 1e-9)
    insist_on("forkserver", None, 5)
    monkeypatch.delattr(socket, "send_fds")
    with pytest.raises(UserError, match="need Linux or macOS") as caught:
        insist_on("spawn", 1, 1.0)
    assert (caught.value.code, caught.value.remedy) == ("env-context", "Use vec='sync'.")


@pytest.mark.parametrize(
    ("context", "workers", "timeout", "code"),
    [
        ("fork", 1, 1.0, "env-context"),
        ("thread", 1, 1.0, "env-context"),
        ("spawn", 0, 1.0, "num-workers"),
        ("spawn", 1.5, 1.0, "num-workers"),
        ("spawn", 1, -1.0, "env-timeout"),
        ("spawn", 1, 0, "env-timeout"),
        ("spawn", 1, float("nan"), "env-timeout"),
        ("spawn", 1, "1", "env-timeout"),
    ],
)
def test_a_wrong_argument_has_a_code(context: str, workers: Any, timeout: Any, code: str) -> None:
    with pytest.raises(UserError) as caught:
        insist_on(context, workers, timeout)
    assert (caught.value.code, bool(caught.value.remedy)) == (code, True)


def test_a_process_tells_what_is_known_of_it() -> None:
    process = Process(3)
    assert (process.number, process.is_alive(), process.is_stopped(), process.stack()) == (3, True, False, "")
    process.pid = os.getpid()
    assert not process.is_stopped()
    process.pid = 2**22 + 1  # there is none
    assert not process.is_stopped()
    os.write(process.dump, b"Fatal \xff")
    assert process.stack() == "Fatal \ufffd"
    process.status = 0
    assert not process.is_alive()
    files = [process.dump, process.channel.file, process.theirs.fileno()]
    process.close()
    for file in files:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)
    assert process.stack() == ""
    process.close()  # once is enough


def test_a_closed_board_holds_no_memory() -> None:
    file = anonymous_file(Board.size(2, 1))
    board = Board(file, 2, 1)
    memory = board._memory
    board.close()
    assert memory.closed
    for view in (board.began, board.current, board.phase, board.total, board.origin):
        with pytest.raises(ValueError, match="released"):
            len(view)
    held = Board(file, 2, 1)
    extra = memoryview(held._memory)  # somebody else looks at it still
    held.close()
    assert not held._memory.closed
    extra.release()
    held._memory.close()
    os.close(file)


def test_after_half_a_message_more_is_read_at_once(
    ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = ends
    asked: list[int] = []
    read = os.read

    def counted(file: int, size: int) -> bytes:
        asked.append(size)
        return read(file, size)

    monkeypatch.setattr(os, "read", counted)
    a.socket.sendall(packed(TOLD, "x" * 100)[:50])
    b.take()
    a.socket.sendall(packed(TOLD, "x" * 100)[50:])
    assert b.take() == [(TOLD, "x" * 100)]
    assert asked == [1 << 16, 1 << 20]
