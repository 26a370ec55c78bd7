"""A chain of hashes over a run's intervals: the same for the same run, another from where one bit differs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.training import chain as chain_module
from steadyrl.training.chain import chain, parted_after, shared_steps
from steadyrl.training.resuming import read_state

OPTIONS: dict[str, Any] = {
    "preset": "none", "num_envs": 2, "vec": "sync", "eval_episodes": 1, "eval_freq": 60, "checkpoint_freq": 40,
    "learning_starts": 20, "batch_size": 8, "buffer_size": 100, "net_arch": (8,), "max_episode_steps": 30,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return srl.train(
        "sac", "Pendulum-v1", total_timesteps=160, run_dir=tmp_path_factory.mktemp("c") / "run", **OPTIONS
    ).path


def test_the_same_run_has_the_same_chain(run: Path, tmp_path: Path) -> None:
    again = srl.train("sac", "Pendulum-v1", total_timesteps=160, run_dir=tmp_path / "again", **OPTIONS).path
    links = chain(run)
    assert [link.step for link in links] == [40, 80, 120, 160, 160]
    assert chain(again) == links
    assert parted_after(links, chain(again)) is None
    assert len({link.sha256 for link in links}) == len(links)
    other = srl.train("sac", "Pendulum-v1", total_timesteps=160, run_dir=tmp_path / "other", seed=1, **OPTIONS).path
    assert parted_after(links, chain(other)) == (0, 40)


def test_only_shared_checkpoints_end_an_interval(run: Path, tmp_path: Path) -> None:
    options = OPTIONS | {"checkpoint_freq": 80}
    coarse = srl.train("sac", "Pendulum-v1", total_timesteps=160, run_dir=tmp_path / "coarse", **options).path
    steps = shared_steps(run, coarse)
    assert steps == {80, 160}
    assert [link.step for link in chain(run, steps)] == [80, 160, 160]
    # A replay lies in chunks, which follow the checkpoints that were made: all else is the same.
    assert [link.step for link in chain(coarse)] == [80, 160, 160]


@pytest.mark.parametrize("name", ["metrics.jsonl", "episodes.jsonl", "evals.jsonl"])
def test_one_number_in_a_log_parts_them_in_its_interval(name: str, run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    rows = [json.loads(line) for line in (other / name).read_text().splitlines()]
    row = rows[-1]
    key = next(key for key in row if key not in ("step", "updates", "time_s") and not key.startswith("time/"))
    row[key] = [*row[key], 0.0] if isinstance(row[key], list) else -7.0
    (other / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    parted = parted_after(chain(run), chain(other))
    assert parted is not None
    assert parted[0] < row["step"] <= parted[1]


def test_times_are_no_part_of_it(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    rows = [json.loads(line) for line in (other / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row["time_s"] = row["time/fps"] = 1.0
    (other / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert chain(run) == chain(other)


@pytest.mark.parametrize("part", ["policy", "loop", "envs", "generators", "replay"])
def test_one_bit_of_any_part_of_a_state_parts_them_there(part: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = chain(run)

    def flipped(folder: Path) -> dict[str, Any]:
        state = read_state(folder)
        if folder.name == "step_120":
            state[part] = [state[part], "one more"]
        return state

    assert part in read_state(run / "checkpoints" / "step_120")
    monkeypatch.setattr(chain_module, "read_state", flipped)
    assert parted_after(expected, chain(run)) == (80, 120)
