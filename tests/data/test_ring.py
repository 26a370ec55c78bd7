"""Where transitions lie: how many there is room for, in which bytes, in memory and in files; shown by a replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steadyrl.data.arrays import layout_bytes
from steadyrl.data.layouts import replay_bytes
from steadyrl.data.replay import Replay
from steadyrl.errors import UserError
from support.replay_oracle import ACTION, GAMMA, OBS, Oracle, reward_of, samples_of, vector_step


def make(rows: int, num_envs: int, directory: Path | None = None) -> Replay:
    return Replay(rows * num_envs, num_envs, OBS, ACTION, gamma=GAMMA, directory=directory)


def test_images_are_kept_in_their_own_bytes() -> None:
    layout = Replay.layout(7, 3, OBS, ACTION)
    assert layout["obs/image"].dtype is np.uint8
    assert layout["next_obs/image"].shape == (7, 3, 2, 2)
    # 4 floats, 4 bytes and a room for each of two observations; 2 actions, a reward, 3 flags.
    assert layout_bytes(layout) == 21 * (2 * (4 * 4 + 4 + 8) + 2 * 4 + 4 + 3)
    assert replay_bytes(23, 3, OBS, ACTION) == layout_bytes(layout)
    full = make(7, 3)
    for t in range(7):
        full.add(*vector_step(t, ["on"] * 3))
    held = [array for array in full.state_dict(copy=False).values() if isinstance(array, np.ndarray)]
    assert sum(array.nbytes for array in held) == layout_bytes(layout)


def test_capacity_counts_transitions() -> None:
    assert (make(3, 4).rows, Replay(11, 4, OBS, ACTION, gamma=GAMMA).rows) == (3, 2)
    with pytest.raises(UserError, match=r"buffer_size 3 has no room.*num_envs = 4"):
        Replay(3, 4, OBS, ACTION, gamma=GAMMA)


@pytest.mark.parametrize("part", ["obs", "actions", "rewards"])
def test_an_array_of_another_shape_is_refused(part: str) -> None:
    """NumPy would spread it over the environments."""
    replay = make(2, 2)
    obs, actions, step, valid = vector_step(0, ["on", "on"])
    if part == "obs":
        obs = {**obs, "observation": obs["observation"][:1]}
    elif part == "actions":
        actions = actions[0]
    else:
        step = step._replace(rewards=step.rewards[:1])
    with pytest.raises(ValueError, match=part):
        replay.add(obs, actions, step, valid)
    assert (len(replay), replay.indices().tolist()) == (0, [])


def test_a_foreign_state_is_refused_and_changes_nothing() -> None:
    replay, other = make(3, 2), make(4, 2)
    for t in range(4):
        replay.add(*vector_step(t, ["on", "on"]))
        other.add(*vector_step(t, ["on", "on"]))
    good = replay.state_dict()
    without = {name: array for name, array in good.items() if name != "rewards"}
    as_double = {**good, "rewards": np.asarray(good["rewards"]).astype(np.float64)}
    for state in (other.state_dict(), without, as_double, {**good, "written": -1}, {**good, "written": 2}):
        with pytest.raises(UserError, match="saved"):
            replay.load_state_dict(state)
    assert replay.indices().tolist() == [2, 3, 4, 5, 6, 7]
    assert reward_of(3, 1) == replay.gather(np.array([7])).rewards.item()


def test_files_hold_the_arrays_and_are_not_taken_over_unasked(tmp_path: Path) -> None:
    replay, oracle = make(3, 2, directory=tmp_path), Oracle(3, 2)
    for _ in range(4):
        oracle.feed(replay, ["on", "truncated"])
    state, files = replay.state_dict(), sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == len(Replay.layout(3, 2, OBS, ACTION))
    rewards = np.load(tmp_path / "11-rewards.npy", allow_pickle=False)
    assert rewards.tolist() == [[reward_of(t, env) for env in range(2)] for t in (3, 1, 2)]
    with pytest.raises(UserError, match="already holds a replay"):
        make(3, 2, directory=tmp_path)
    again = make_reused(tmp_path, rows=3)
    assert (len(again), again.indices().tolist()) == (0, [])
    again.add(*vector_step(0, ["invalid", "on"]))
    assert (len(again), again.indices().tolist()) == (1, [1])
    again.load_state_dict(state)
    assert samples_of(again.gather(again.indices())) == oracle.samples()
    assert sorted(path.name for path in tmp_path.iterdir()) == files


@pytest.mark.parametrize("damage", ["size", "missing", "extra", "short", "long", "junk", "other type"])
def test_files_that_do_not_fit_are_refused_untouched(tmp_path: Path, damage: str) -> None:
    make(3, 2, directory=tmp_path)
    file = tmp_path / "11-rewards.npy"
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "extra":
        np.save(tmp_path / "15-episode.npy", np.zeros((3, 2)))
    elif damage == "other type":
        np.save(file, np.zeros((3, 2), dtype=np.int32))
    elif damage != "size":
        file.write_bytes({"short": whole[:-1], "long": whole + b"x", "junk": b"junk" * 50}[damage])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match="does not fit"):
        make_reused(tmp_path, rows=4 if damage == "size" else 3)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def make_reused(directory: Path, rows: int) -> Replay:
    return Replay(rows * 2, 2, OBS, ACTION, gamma=GAMMA, directory=directory, reuse=True)


def test_a_disk_too_small_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not fit on the disk"):
        make(10**12, 1, directory=tmp_path / "replay")
    assert list(tmp_path.rglob("*.npy")) == []


def test_a_disk_that_fills_up_while_room_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def full(descriptor: int, offset: int, length: int) -> None:
        made.append(length)
        if len(made) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(UserError, match="No space left"):
        make(3, 1, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(made) == 3
