"""Checkpoints of a run where the disk or another process gets in the way: what is said, what stays."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steadyrl.bundle import Bundle, to_bytes
from steadyrl.errors import NonFiniteError, RunFailedError, UserError
from steadyrl.training import chunks, saving
from steadyrl.training.checkpoint import INDEX, DamagedError, steps_in
from steadyrl.training.chunks import ChunkStore, ReplayCapture
from steadyrl.training.saving import STATE, Saver
from support.bundles import ABOUT
from support.checkpoints import SESSION, Work
from support.policies import make_policy
from support.replay_oracle import ACTION, GAMMA, OBS, vector_step

FULL = OSError(errno.ENOSPC, "No space left on device")


def full(*args: Any, **kwargs: Any) -> Any:
    raise FULL


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    before = chunks.CHUNK_BYTES
    yield Work(tmp_path_factory.mktemp("work"))
    chunks.CHUNK_BYTES = before


def test_the_first_folder_that_cannot_be_made_is_told(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "make_folder", full)
    with pytest.raises(RunFailedError, match=r"A checkpoint in .* cannot be written: No space left") as caught:
        work.saver(tmp_path)
    assert caught.value.code == "cannot-write"
    assert caught.value.remedy.startswith("Free some disk space")


def test_what_cannot_be_taken_for_want_of_room_is_told(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a size the replay is written at once, which may fail."""
    saver = work.saver(work.copy(tmp_path / "run"))
    monkeypatch.setattr(chunks, "MOST_COPIED", 0)
    monkeypatch.setattr(chunks, "commit_file", full)
    with pytest.raises(RunFailedError, match="cannot be written: No space left"):
        saver.save(SESSION)
    assert [*steps_in(tmp_path / "run" / "checkpoints")] == [80]


def test_an_error_that_is_not_ours_takes_the_disks_along_as_a_note(work: Work, tmp_path: Path) -> None:
    saver = work.saver(work.copy(tmp_path / "run"), background=True)
    saver._error = RunFailedError("The disk is full.", remedy="Make room.", code="cannot-write")
    first = ZeroDivisionError("x")
    saver.leave(ZeroDivisionError, first)
    assert first.__notes__ == ["The disk is full.\nMake room."]
    saver.leave(None, None)  # it was told


def test_nothing_is_pruned_while_the_newest_cannot_be_read_back(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = work.copy(tmp_path / "run")

    def damaged(folder: Path) -> Any:
        raise DamagedError("x")

    monkeypatch.setattr(saving, "verify", damaged)
    work.saver(run, keep_last=1).save(SESSION)
    assert [*steps_in(run / "checkpoints")] == [80, 120]


def test_an_index_that_cannot_be_read_keeps_every_chunk(work: Work, tmp_path: Path) -> None:
    """It may name any of them; and what was set aside keeps its own."""
    run = work.copy(tmp_path / "run")
    index = run / "checkpoints" / "step_80" / INDEX
    before = {path.name for path in (run / "checkpoints" / "chunks").iterdir()}
    text = index.read_bytes()
    index.write_text("{}")
    saver = work.saver(run, keep_last=1)
    assert {path.name for path in (run / "checkpoints" / "chunks").iterdir()} == before
    saver.save(SESSION)
    assert [*steps_in(run / "checkpoints")] == [80, 120]  # one that cannot be gone on from does not count
    assert before <= {path.name for path in (run / "checkpoints" / "chunks").iterdir()}
    index.write_bytes(text)
    shutil.move(run / "checkpoints" / "step_80", run / "checkpoints" / "step_80.damaged-1")
    work.saver(run, keep_last=1)
    assert before <= {path.name for path in (run / "checkpoints" / "chunks").iterdir()}
    shutil.rmtree(run / "checkpoints" / "step_80.damaged-1")
    work.saver(run, keep_last=1)
    named = chunks.named_chunks(json.loads((run / "checkpoints" / "step_120" / INDEX).read_text()))
    assert {path.name for path in (run / "checkpoints" / "chunks").iterdir()} == named
    assert (run / "checkpoints" / "step_120" / STATE).exists()


def test_a_chunk_that_lost_its_end_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ChunkStore(tmp_path / "chunks")
    store.prune(set())  # nothing was written yet
    name = store.put(b"rows")
    assert store.read_back({name})
    (tmp_path / "chunks" / name).write_bytes(b"row")
    assert not store.read_back({name})
    (tmp_path / "chunks" / name).write_bytes(b"rowt")
    assert store.read_back({name})  # of what was read once only the size is asked
    assert not store.read_back({"0" * 64})
    monkeypatch.setattr(Path, "read_bytes", full)
    with pytest.raises(DamagedError, match="cannot be read"):
        store.get(name, 4)


def test_numbers_of_rows_that_do_not_count_may_be_anything(tmp_path: Path) -> None:
    from steadyrl.data.replay import Replay

    replay, store = Replay(40, 2, OBS, ACTION, gamma=GAMMA), ChunkStore(tmp_path / "chunks")
    for _ in range(5):
        replay.add(*vector_step(replay.written, ["on"] * 2))
    replay.rings["valid"][2, 1] = False
    replay.rings["rewards"][2, 1] = np.nan
    ReplayCapture(replay).take(store)
    replay.rings["rewards"][2, 0] = np.inf
    with pytest.raises(NonFiniteError, match="replay 'rewards' would hold numbers that are not finite"):
        ReplayCapture(replay).take(store)


def test_a_saver_writes_while_the_training_goes_on_unless_told_otherwise(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[str] = []
    write = Saver._write

    def noted(saver: Saver, taken: Any) -> None:
        writers.append(threading.current_thread().name)
        write(saver, taken)

    monkeypatch.setattr(Saver, "_write", noted)
    saver = Saver(work.agent, work.copy(tmp_path / "run"), keep_last=1)
    saver.save(SESSION)
    saver.wait()
    work.saver(work.copy(tmp_path / "other"), background=False).save(SESSION)
    assert writers == ["steadyrl-checkpoint", threading.main_thread().name]


def test_a_policy_that_is_not_finite_is_not_saved() -> None:
    policy = make_policy()
    next(policy.net.parameters()).data.view(-1)[0] = np.inf
    with pytest.raises(NonFiniteError, match="holds numbers that are not finite, so it was not saved") as caught:
        to_bytes(Bundle(policy, ABOUT))
    assert caught.value.code == "non-finite-weights"
    assert caught.value.facts["source"] == "parameters"


def test_a_description_of_the_largest_size_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Bundle(make_policy(), ABOUT)
    data = to_bytes(made)
    size = int.from_bytes(data[18:22], "little")
    monkeypatch.setattr("steadyrl.bundle._MAX_JSON", size)
    assert to_bytes(made) == data
    monkeypatch.setattr("steadyrl.bundle._MAX_JSON", size - 1)
    with pytest.raises(UserError, match="too large for a bundle") as caught:
        to_bytes(made)
    assert caught.value.code == "too-large"
