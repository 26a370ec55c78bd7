"""Checkpoints of a training in full: what is taken stays as it was, and taking it changes nothing."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save as save_arrays

import steadyrl as srl
from steadyrl.envs.snapshots.values import digest
from steadyrl.errors import RunFailedError
from steadyrl.training import saving
from steadyrl.training.agent import Agent
from steadyrl.training.checkpoint import read_index, save_checkpoint, steps_in
from steadyrl.training.saving import STATE, Saver
from support.checkpoints import SESSION

OFF: dict[str, Any] = {"learning_starts": 20, "batch_size": 8, "buffer_size": 60, "net_arch": (8,), "num_envs": 2}
ON: dict[str, Any] = {"n_steps": 16, "num_envs": 2}
MAKE: dict[str, Callable[[], Agent]] = {
    "ppo": lambda: srl.PPO("Pendulum-v1", batch_size=16, normalize_obs=True, normalize_reward=True, **BASE, **ON),
    "ppo, gSDE": lambda: srl.PPO("Pendulum-v1", batch_size=16, use_sde=True, **BASE, **ON),
    "a2c, LunarLander": lambda: srl.A2C("LunarLander-v3", **BASE, **ON),
    "dqn, prioritised": lambda: srl.DQN("CartPole-v1", prioritized=True, **BASE, **OFF),
    "td3, HalfCheetah": lambda: srl.TD3("HalfCheetah-v5", normalize_obs=True, **BASE, **OFF),
    "sac": lambda: srl.SAC("Pendulum-v1", **BASE, **OFF),
}
BASE: dict[str, Any] = {"preset": "none", "vec": "sync", "seed": 1}


@pytest.mark.parametrize("name", MAKE)
def test_what_was_taken_stays_as_it_was_while_the_training_goes_on(name: str, tmp_path: Path) -> None:
    """It is written by a thread, later: memory of the training's own in it would change until then."""
    agent = MAKE[name]()
    agent.learn(50, schedule_steps=1000)
    taken = Saver(agent, tmp_path, keep_last=None)._take(SESSION)
    before = {part: digest(value) for part, value in taken.state.items()}
    agent.learn(50, schedule_steps=1000)
    assert {part: digest(value) for part, value in taken.state.items()} == before
    later = Saver(agent, tmp_path, keep_last=None)._take(SESSION)
    assert {part for part in before if digest(later.state[part]) != before[part]} >= {"policy", "loop", "envs"}


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_checkpoints_do_not_change_what_is_computed(algo: str, tmp_path: Path) -> None:
    found = []
    for often in (0, 10):
        options = {**BASE, **(ON if algo == "ppo" else OFF), "checkpoint_freq": often, "eval_freq": 100}
        run = srl.train(algo, "Pendulum-v1", total_timesteps=300, run_dir=tmp_path / str(often), keep_last=2, **options)
        rows = [{k: v for k, v in row.items() if not k.startswith("time")} for row in run.metrics()]
        found.append((run.manifest["weights_sha256"], rows, len(steps_in(run.path / "checkpoints"))))
    assert found[0][:2] == found[1][:2]
    assert (found[0][2], found[1][2]) == (0, 2)


def test_a_policy_alone_does_not_stand_for_a_checkpoint(tmp_path: Path) -> None:
    """As a run leaves it that ends with bad numbers: the same step in full is written all the same, and pruning
    counts only what can be gone on from."""
    agent = MAKE["sac"]()
    agent.learn(40, schedule_steps=1000)
    saver = Saver(agent, tmp_path, keep_last=1, background=False)
    saver.save(SESSION)
    save_checkpoint(tmp_path / "checkpoints", 60, agent.bundle())
    agent.learn(20, schedule_steps=1000)
    saver.save(SESSION)
    assert STATE in read_index(tmp_path / "checkpoints" / "step_60")["files"]
    assert (tmp_path / "checkpoints" / "step_60.superseded-1").is_dir()
    assert list(steps_in(tmp_path / "checkpoints")) == [60]
    save_checkpoint(tmp_path / "checkpoints", 70, agent.bundle())
    agent.learn(20, schedule_steps=1000)
    saver.save(SESSION)
    assert list(steps_in(tmp_path / "checkpoints")) == [70, 80]


def test_after_a_failed_write_no_old_chunk_stands_for_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steadyrl.training.chunks.CHUNK_BYTES", 128)
    agent = MAKE["sac"]()
    agent.learn(40, schedule_steps=1000)
    saver = Saver(agent, tmp_path, keep_last=None, background=False)
    saver.save(SESSION)
    agent.learn(40, schedule_steps=1000)  # the ring wraps: chunks change in place
    with monkeypatch.context() as patch:
        patch.setattr(saving.Saver, "_write_all", _no_space)
        with pytest.raises(RunFailedError):
            saver.save(SESSION)
    agent.learn(2, schedule_steps=1000)
    saver.save(SESSION)
    fresh = Saver(agent, tmp_path / "other", keep_last=None, background=False)
    fresh.save(SESSION)
    chunks = [read_index(run / "checkpoints" / "step_82")["about"]["replay"] for run in (tmp_path, tmp_path / "other")]
    assert chunks[0] == chunks[1]


def _no_space(self: Saver, taken: object) -> None:
    raise OSError(28, "No space left on device")


def test_who_interrupts_again_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = MAKE["sac"]()
    agent.learn(40, schedule_steps=1000)
    saver = Saver(agent, tmp_path, keep_last=None)
    saver.save(SESSION)
    saver.wait()
    reached, go_on = threading.Event(), threading.Event()
    real = save_arrays

    def slow(arrays: Any) -> bytes:
        reached.set()
        go_on.wait(20)
        return real(arrays)

    monkeypatch.setattr(saving, "save_arrays", slow)
    agent.learn(20, schedule_steps=1000)
    saver.save(SESSION)
    reached.wait(20)
    saver._abandoned.set()
    go_on.set()
    saver.leave(KeyboardInterrupt, KeyboardInterrupt())
    assert list(steps_in(tmp_path / "checkpoints")) == [40]
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_an_error_of_the_disk_is_told_beside_the_one_that_ended_the_run(tmp_path: Path) -> None:
    agent = MAKE["sac"]()
    agent.learn(40, schedule_steps=1000)
    saver = Saver(agent, tmp_path, keep_last=None)
    saver._error = RunFailedError("The disk is full.", remedy="Make room.", code="cannot-write")
    first = RunFailedError("The motor fell off.", remedy="Screw it on.", code="env-error")
    saver.leave(RunFailedError, first)
    assert first.remedy == "Screw it on. Besides: The disk is full.\nMake room."
    saver._error = RunFailedError("The disk is full.", remedy="Make room.", code="cannot-write")
    with pytest.raises(RunFailedError, match="The disk is full"):
        saver.leave(None, None)


def test_what_killed_runs_left_is_swept_away(tmp_path: Path) -> None:
    agent = MAKE["sac"]()
    agent.learn(40, schedule_steps=1000)
    Saver(agent, tmp_path, keep_last=None, background=False).save(SESSION)
    checkpoints = tmp_path / "checkpoints"
    for name in (".step_7.partial", ".step_3.pruned"):
        (checkpoints / name).mkdir()
        (checkpoints / name / "x").write_bytes(b"?")
    orphan = checkpoints / "chunks" / ("0" * 64)
    orphan.write_bytes(b"of a checkpoint that was never finished")
    (checkpoints / "chunks" / f".{'1' * 64}.partial").write_bytes(b"?")
    (checkpoints / "mine").mkdir()
    kept = {path.name for path in (checkpoints / "chunks").iterdir()} - {orphan.name, f".{'1' * 64}.partial"}
    Saver(agent, tmp_path, keep_last=None)
    assert {path.name for path in checkpoints.iterdir()} == {"step_40", "chunks", "mine"}
    assert {path.name for path in (checkpoints / "chunks").iterdir()} == kept


def test_a_checkpoint_says_what_it_holds_and_what_not(tmp_path: Path) -> None:
    agent = MAKE["a2c, LunarLander"]()
    agent.learn(40, schedule_steps=1000)
    about = read_index(Saver(agent, tmp_path, keep_last=None, background=False).save(SESSION))["about"]
    assert about["environments"]["kind"] == "replay"
    assert any("run again" in text for text in about["holds"])
    assert any("do not repeat" in text for text in about["inexact"])
    assert any("space.sample" in text for text in about["left_out"])
    shutil.rmtree(tmp_path / "checkpoints")
