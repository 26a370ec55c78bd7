"""A replay on the disk: what did not change is not written again, and what is read back is what was there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steadyrl.data.replay import Replay
from steadyrl.training import chunks
from steadyrl.training.checkpoint import DamagedError
from steadyrl.training.chunks import ChunkStore, ReplayCapture, named_chunks, read_rings
from support.replay_oracle import ACTION, GAMMA, OBS, vector_step


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 64)


def make(rows: int = 20, num_envs: int = 2) -> Replay:
    return Replay(rows * num_envs, num_envs, OBS, ACTION, gamma=GAMMA)


def fill(replay: Replay, steps: int) -> None:
    for _ in range(steps):
        replay.add(*vector_step(replay.written, ["on"] * replay.num_envs))


def same(a: Replay, b: Replay) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("between", [0, 1, 3, 7, 19, 20, 21, 45])
def test_what_is_read_back_is_what_was_there(between: int, tmp_path: Path) -> None:
    """At every place in the ring, and after any number of steps since the last time."""
    replay, store = make(), ChunkStore(tmp_path / "chunks")
    capture = ReplayCapture(replay)
    for _ in range(6):
        fill(replay, between)
        described = capture.store(capture.take(store), store)
        again = make()
        rings = read_rings(described, ChunkStore(tmp_path / "chunks"), again)
        again.load_state_dict(rings | {"written": replay.written})
        assert same(again, replay)


def test_only_what_changed_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay, store = make(rows=400), ChunkStore(tmp_path / "chunks")
    capture = ReplayCapture(replay)
    fill(replay, 300)
    capture.store(capture.take(store), store)
    fill(replay, 1)
    layouts = capture.take(store)
    fresh = {name: sum(isinstance(chunk, bytes) for chunk in layout.chunks) for name, layout in layouts.items()}
    observations = [name for name in layouts if name.startswith(("obs/", "next_obs/"))]
    assert observations
    assert all(fresh[name] == 1 for name in observations)
    assert all(len(layouts[name].chunks) > 10 for name in observations)


def test_a_change_behind_the_count_of_steps_is_seen(tmp_path: Path) -> None:
    """Marks of rows that no longer count are set long after the rows were written."""
    replay, store = make(), ChunkStore(tmp_path / "chunks")
    capture = ReplayCapture(replay)
    fill(replay, 12)
    before = capture.store(capture.take(store), store)
    replay.rings["valid"][3] = False
    after = capture.store(capture.take(store), store)
    assert before["valid"]["chunks"] != after["valid"]["chunks"]
    assert before["rewards"] == after["rewards"]


def test_equal_chunks_are_one_file(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "chunks")
    assert store.put(b"abc") == store.put(b"abc")
    assert len(list((tmp_path / "chunks").iterdir())) == 1


@pytest.mark.parametrize("damage", ["flip", "short", "gone", "link"])
def test_a_damaged_chunk_is_refused_and_written_anew(damage: str, tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "chunks")
    name = store.put(b"some rows")
    path = tmp_path / "chunks" / name
    if damage == "flip":
        path.write_bytes(b"some rowt")
    elif damage == "short":
        path.write_bytes(b"some row")
    elif damage == "gone":
        path.unlink()
    else:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedError, match=name):
        ChunkStore(tmp_path / "chunks").get(name, 9)
    if damage != "link":
        assert ChunkStore(tmp_path / "chunks").put(b"some rows") == name
        assert ChunkStore(tmp_path / "chunks").get(name, 9) == b"some rows"


def test_pruning_leaves_what_is_named_and_what_is_not_ours(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "chunks")
    kept, gone = store.put(b"kept"), store.put(b"gone")
    (tmp_path / "chunks" / "notes.txt").write_text("mine")
    store.prune(named_chunks({"about": {"replay": {"rewards": {"chunks": [kept]}}}}))
    assert {path.name for path in (tmp_path / "chunks").iterdir()} == {kept, "notes.txt"}
    assert store.put(b"gone") == gone
    assert store.get(gone, 4) == b"gone"


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float64"},
        {"row": [3]},
        {"rows": 21},
        {"rows": -1},
        {"rows": True},
        {"rows": "4"},
        {"chunk_rows": 0},
        {"chunks": []},
        {"chunks": ["../../secret"]},
        {"chunks": None},
    ],
)
def test_a_description_that_does_not_fit_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    replay, store = make(), ChunkStore(tmp_path / "chunks")
    fill(replay, 4)
    described = ReplayCapture(replay).store(ReplayCapture(replay).take(store), store)
    described["rewards"] |= change
    with pytest.raises(DamagedError, match="rewards"):
        read_rings(described, store, make())
    del described["rewards"]
    with pytest.raises(DamagedError, match="replay of this configuration"):
        read_rings(described, store, make())


@pytest.mark.parametrize("num_envs", [1, 2, 40])  # the last with rows larger than a chunk
def test_a_chunk_holds_the_rows_that_fit(num_envs: int, tmp_path: Path) -> None:
    replay = make(num_envs=num_envs)
    fill(replay, 20)
    layouts = ReplayCapture(replay).take(ChunkStore(tmp_path / "chunks"))
    fitting = {name: max(64 // (array.nbytes // len(array)), 1) for name, array in replay.rings.items()}
    assert {name: layout.chunk_rows for name, layout in layouts.items()} == fitting
    assert fitting["valid"] == 64 // num_envs
    assert min(fitting.values()) < 16


def test_no_more_is_copied_than_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = make()
    fill(replay, 20)
    sizes = [
        len(chunk) for layout in ReplayCapture(replay).take(ChunkStore(tmp_path)).values() for chunk in layout.chunks
    ]
    assert len(sizes) > 20
    for most in (sizes[0] - 1, sizes[0], sum(sizes[:7]) - 1, sum(sizes[:7]), sum(sizes)):
        monkeypatch.setattr(chunks, "MOST_COPIED", most)
        layouts = ReplayCapture(replay).take(ChunkStore(tmp_path / str(most)))
        kept = [isinstance(chunk, bytes) for layout in layouts.values() for chunk in layout.chunks]
        assert kept == [sum(sizes[: i + 1]) <= most for i in range(len(sizes))]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 11, 12])  # in the first chunk, in the last one, in one that is not yet full
def test_numbers_that_are_not_finite_are_refused_where_they_count(
    row: int, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a file that somebody made with its checksums; what this library writes holds none."""
    monkeypatch.setattr(ReplayCapture, "_require_finite", lambda *args: None)
    replay, store = make(), ChunkStore(tmp_path / "chunks")
    fill(replay, 13)
    name = next(name for name in replay.rings if name.startswith("next_obs/") and replay.rings[name].dtype.kind == "f")
    for ring in ("rewards", name):
        kept = replay.rings[ring].copy()
        replay.rings[ring][row, 1] = value
        described = ReplayCapture(replay).store(ReplayCapture(replay).take(store), store)
        with pytest.raises(DamagedError, match=f"the replay's '{ring}' holds numbers that are not finite"):
            read_rings(described, store, make())
        replay.rings["valid"][row, 1] = False
        described = ReplayCapture(replay).store(ReplayCapture(replay).take(store), store)
        assert np.isfinite(read_rings(described, store, make())[ring]).sum() < replay.rings[ring][:13].size
        replay.rings["valid"][row, 1] = True
        replay.rings[ring][...] = kept
    described = ReplayCapture(replay).store(ReplayCapture(replay).take(store), store)
    read_rings(described, store, make())
