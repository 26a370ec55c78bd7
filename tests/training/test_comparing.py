"""The comparison that every claim of exactness rests on turns red at one flipped bit and at one draw too many."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from safetensors.numpy import save as save_arrays

import steadyrl as srl
from steadyrl.envs.snapshots.values import digest, flatten
from steadyrl.seeding import Stream
from steadyrl.training.checkpoint import INDEX, _sealed, steps_in
from steadyrl.training.comparing import first_difference
from steadyrl.training.events import Event
from steadyrl.training.resuming import read_state
from steadyrl.training.saving import ARRAYS, CLOCKS, STATE

OFF = {"learning_starts": 20, "batch_size": 8, "buffer_size": 60, "net_arch": (8,), "num_envs": 2}
ALGOS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 16, "num_envs": 2, "batch_size": 16, "normalize_obs": True, "normalize_reward": True},
    "sac": OFF,
}
TOTAL = 100


def train(algo: str, path: Path, **more: Any) -> srl.Run:
    options = {"preset": "none", "vec": "sync", "checkpoint_freq": 50, "eval_freq": 0, **ALGOS[algo], **more}
    return srl.train(algo, "Pendulum-v1", total_timesteps=TOTAL, run_dir=path, seed=1, **options)


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each leaf's place, and the container and key that it is in."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        here = f"{place}/{key}".lstrip("/")
        if isinstance(child, dict | list) and child:
            yield from leaves(child, here)
        elif not isinstance(child, tuple):
            yield here, value, key


def changed(leaf: Any) -> Any:
    """The leaf with one bit flipped; None where it has none."""
    if isinstance(leaf, np.ndarray | np.generic) and np.asarray(leaf).nbytes:
        data = bytearray(np.asarray(leaf).tobytes())
        data[0] ^= 1
        array = np.frombuffer(bytes(data), np.asarray(leaf).dtype).reshape(np.shape(leaf))
        return array[()] if isinstance(leaf, np.generic) else array
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return leaf ^ 1
    if isinstance(leaf, float):
        return float(np.nextafter(leaf, np.inf))
    return f"{leaf}'" if isinstance(leaf, str) else None


@pytest.mark.parametrize("algo", ALGOS)
def test_one_flipped_bit_anywhere_in_a_state_is_named(algo: str, tmp_path: Path) -> None:
    first = train(algo, tmp_path / "first").path
    second = tmp_path / "second"
    shutil.copytree(first, second)
    assert first_difference(first, second) is None
    folder = second / "checkpoints" / "step_50"
    index = json.loads((folder / INDEX).read_text())
    del index["checksum"]
    state = read_state(folder)
    parts, count = set(), 0
    for place, container, key in leaves(state):
        kept, other = container[key], changed(container[key])
        part = place.split("/")[0]
        exempt = "~space" in place or place.endswith("checksum") or place in ("session/elapsed", "session/owed")
        if other is None or exempt:
            continue
        container[key] = other
        compared = {k: v for k, v in state[part].items() if k not in CLOCKS} if part == "session" else state[part]
        about = index["about"] | {"parts": index["about"]["parts"] | {part: digest(compared)}}
        value, arrays = flatten(state)
        (folder / STATE).write_text(json.dumps(value))
        (folder / ARRAYS).write_bytes(save_arrays(arrays))
        (folder / INDEX).write_bytes(_sealed(index | {"about": about}))
        difference = first_difference(first, second)
        assert difference is not None, place
        assert difference.step == 50
        assert difference.name.startswith(part), place
        container[key] = kept
        parts.add(part)
        count += 1
    assert count > 60
    assert {"policy", "value_scale", "loop", "envs", "generators", "predict", "session"} <= parts


def streams_of(algo: str, path: Path) -> list[str]:
    found: list[str] = []
    state = read_state(train(algo, path).path / "checkpoints" / "step_50")

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if {"name", "counter", "key"} <= value.keys():
                found.append(value["name"])
            for child in value.values():
                look(child)

    look(state)
    return found


@pytest.mark.parametrize("algo", ALGOS)
def test_one_draw_too_many_from_any_stream_is_seen(algo: str, tmp_path: Path) -> None:
    names = streams_of(algo, tmp_path / "whole")
    assert len(names) >= (3 if algo == "ppo" else 4)
    for number, name in enumerate([*names, "numpy", "python"]):
        drawn: list[str] = []

        def draw_once(event: Any, name: str = name, drawn: list[str] = drawn) -> None:
            if drawn or getattr(event, "step", 0) < 50 or getattr(event, "kind", "") != "step":
                return
            drawn.append(name)
            if name == "numpy":
                np.random.random()
            elif name == "python":
                __import__("random").random()
            else:
                for stream in [x for x in gc.get_objects() if type(x) is Stream and x.name == name]:
                    stream.seed()

        other = train(algo, tmp_path / str(number), callback=draw_once).path
        assert drawn == [name]
        assert first_difference(tmp_path / "whole", other) is not None, name


def test_the_ring_and_the_logs_are_compared_as_well(tmp_path: Path) -> None:
    first = train("sac", tmp_path / "first").path
    for what in ("rings", "episodes"):
        second = tmp_path / what
        shutil.copytree(first, second)
        if what == "rings":
            path = second / "checkpoints" / "step_100" / INDEX
            index = json.loads(path.read_text())
            del index["checksum"]
            index["about"]["parts"]["rings"] = "0" * 32
            path.write_bytes(_sealed(index))
        else:
            (second / "metrics.jsonl").write_text((second / "metrics.jsonl").read_text().replace("n_updates", "N", 1))
        difference = first_difference(first, second)
        assert difference is not None
        assert what in str(difference) or difference.where == "metrics.jsonl"
    assert list(steps_in(first / "checkpoints")) == [50, 100]


def test_a_checkpoint_that_cut_an_evaluation_off_is_compared_without_its_outcome(tmp_path: Path) -> None:
    first = train("ppo", tmp_path / "first").path
    second = tmp_path / "second"
    shutil.copytree(first, second)
    folder = second / "checkpoints" / "step_50"
    state, index = read_state(folder), json.loads((folder / INDEX).read_text())
    del index["checksum"]
    for owed, best in ((True, 3.0), (False, 3.0)):
        state["session"] |= {"owed": owed, "best": best, "elapsed": 9.0}
        compared = {k: v for k, v in state["session"].items() if k not in CLOCKS}
        value, arrays = flatten(state)
        (folder / STATE).write_text(json.dumps(value))
        (folder / ARRAYS).write_bytes(save_arrays(arrays))
        about = index["about"] | {"parts": index["about"]["parts"] | {"session": digest(compared)}}
        (folder / INDEX).write_bytes(_sealed(index | {"about": about}))
        difference = first_difference(first, second)
        assert (difference is None) == owed
        assert difference is None or difference.name == "session/best"


class Breaking(gym.Env[Any, Any]):
    """Fails in a step that its random numbers choose."""

    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.np_random.random() < 0.05:
            raise RuntimeError("the motor fell off")
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), 1.0, bool(self.np_random.random() < 0.1), False, {}


def test_when_a_failure_came_is_no_part_of_a_run(tmp_path: Path) -> None:
    options: dict[str, Any] = {"preset": "none", "n_steps": 20, "batch_size": 20, "net_arch": (8,), "eval_freq": 0}
    runs = [
        srl.train(
            "ppo", Breaking, total_timesteps=60, run_dir=tmp_path / name, on_env_error="restart", vec="sync", **options
        )
        for name in ("first", "second")
    ]
    log = runs[1].path / "episodes.jsonl"
    assert '"failure": "failures/' in log.read_text()
    log.write_text(log.read_text().replace("failures/", "failures/another-"))
    assert first_difference(runs[0].path, runs[1].path) is None


@pytest.mark.parametrize("freq", [33, 83])
def test_a_run_that_was_stopped_at_its_last_step_is_the_same_once_it_was_resumed(freq: int, tmp_path: Path) -> None:
    def at_the_end(event: Event) -> bool:
        return getattr(event, "step", 0) < 83

    options: dict[str, Any] = {
        "preset": "none", "n_steps": 16, "batch_size": 16, "n_epochs": 1, "eval_freq": 50, "eval_episodes": 2,
        "checkpoint_freq": freq, "vec": "sync", "total_timesteps": 83,
    }  # fmt: skip
    whole = srl.train("ppo", "CartPole-v1", run_dir=tmp_path / "whole", **options)
    stopped = srl.train("ppo", "CartPole-v1", run_dir=tmp_path / "stopped", callback=at_the_end, **options)
    assert stopped.status == "stopped"
    resumed = srl.resume(tmp_path / "stopped", say=lambda notice: None)
    assert resumed.status == "finished"
    assert [row["mean"] for row in resumed.evals()] == [row["mean"] for row in whole.evals()]
    assert first_difference(whole.path, resumed.path) is None
