"""Cases from public bug reports about going on (13, 14, 15, 21), saving twice, and stopping many times."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.errors import UserError
from steadyrl.training.checkpoint import INDEX, steps_in
from steadyrl.training.comparing import first_difference
from steadyrl.training.events import Event
from steadyrl.training.resuming import newest, put_back, read_state
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import ARRAYS, STATE, Saver
from steadyrl.training.taking_up import setup_of
from support.checkpoints import SESSION

OFF: dict[str, Any] = {
    "preset": "none", "learning_starts": 40, "batch_size": 16, "buffer_size": 300, "net_arch": (16,), "vec": "sync",
    "eval_freq": 0, "seed": 2,
}  # fmt: skip
ON: dict[str, Any] = {
    "preset": "none", "n_steps": 16, "num_envs": 4, "batch_size": 32, "vec": "sync", "eval_freq": 300,
    "eval_episodes": 1, "seed": 2,
}  # fmt: skip


def stop_at(step: int) -> Callable[[Event], bool | None]:
    return lambda event: False if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= step else None


def newest_state(run: Path) -> dict[str, Any]:
    steps = steps_in(run / "checkpoints")
    return read_state(steps[max(steps)])


def test_case_13_exploration_goes_on_past_its_decay(tmp_path: Path) -> None:
    """DLR-RM/stable-baselines3#1629: after loading, epsilon was 1 again."""
    options = {
        **OFF,
        "exploration_fraction": 0.1,
        "exploration_final_eps": 0.05,
        "checkpoint_freq": 100,
        "log_interval": 40,
    }
    srl.train("dqn", "CartPole-v1", total_timesteps=800, run_dir=tmp_path / "run", callback=stop_at(400), **options)
    assert newest_state(tmp_path / "run")["loop"]["progress"] > 0.1
    done = srl.resume(tmp_path / "run")
    later = [row["rollout/exploration_rate"] for row in done.metrics() if row["step"] > 400]
    assert later
    assert max(later) < 0.1  # rows are means over the updates since the last one
    assert later[-1] == pytest.approx(0.05)


def test_case_14_the_temperature_goes_on_with_its_optimiser(tmp_path: Path) -> None:
    """DLR-RM/stable-baselines3#391: after loading, the temperature stayed where it was."""
    run = tmp_path / "run"
    srl.train("sac", "Pendulum-v1", total_timesteps=300, run_dir=run, callback=stop_at(150), checkpoint_freq=50, **OFF)
    before = newest_state(run)["loop"]["algorithm"]["temperature"]
    srl.resume(run)
    after = newest_state(run)["loop"]["algorithm"]["temperature"]
    assert int(before["optimizer"]["steps"]["tensor"]) > 0
    assert int(after["optimizer"]["steps"]["tensor"]) > int(before["optimizer"]["steps"]["tensor"]) + 100
    assert float(after["log_alpha"]["tensor"].item()) != float(before["log_alpha"]["tensor"].item())
    assert bool((after["optimizer"]["mean"]["tensor"] != before["optimizer"]["mean"]["tensor"]).any())


def test_case_15_stopped_often_schedules_are_one_curve(tmp_path: Path) -> None:
    """HumanCompatibleAI/imitation#262: ten calls gave ten full decays. Here five stops, four environments."""
    options = {**ON, "learning_rate": srl.LinearSchedule(1e-3, 0.0), "checkpoint_freq": 100}
    whole = srl.train("ppo", "CartPole-v1", total_timesteps=600, run_dir=tmp_path / "whole", **options)
    run = tmp_path / "run"
    srl.train("ppo", "CartPole-v1", total_timesteps=600, run_dir=run, callback=stop_at(100), **options)
    for step in (200, 300, 400, 500):
        srl.resume(run, callback=stop_at(step))
    done = srl.resume(run)
    assert len(done.manifest["lineage"]) == 5
    rates = [row["train/learning_rate"] for row in done.metrics() if "train/learning_rate" in row]
    assert rates == sorted(rates, reverse=True)
    assert rates == [row["train/learning_rate"] for row in whole.metrics() if "train/learning_rate" in row]
    assert first_difference(whole.path, done.path) is None


@pytest.mark.parametrize("name", ["data.pkl", "state.json.pkl", "archive.zip"])
def test_case_21_a_checkpoint_with_a_pickle_inside_is_refused(name: str, tmp_path: Path) -> None:
    """DLR-RM/stable-baselines3#2281: it was run. Here nothing beside the files of the index may lie in the folder."""
    run = tmp_path / "run"
    srl.train("ppo", "CartPole-v1", total_timesteps=300, run_dir=run, callback=stop_at(200), checkpoint_freq=100, **ON)
    newest_step = max(steps_in(run / "checkpoints"))
    evil = b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR."
    (run / "checkpoints" / f"step_{newest_step}" / name).write_bytes(evil)
    said: list[str] = []
    done = srl.resume(run, say=lambda notice: said.append(notice.message))
    assert any(name in text and "does not belong to it" in text for text in said)
    assert done.manifest["lineage"][0]["from_step"] < newest_step
    assert not (tmp_path / "ran").exists()


MAKE: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", ON),
    "a2c": ("LunarLander-v3", {key: value for key, value in ON.items() if key != "batch_size"}),
    "dqn": ("CartPole-v1", {**OFF, "prioritized": True}),
    "ddpg": ("Pendulum-v1", OFF),
    "td3": ("HalfCheetah-v5", {**OFF, "normalize_obs": True}),
    "sac": ("Pendulum-v1", OFF),
}


@pytest.mark.parametrize("algo", MAKE)
def test_saved_loaded_and_saved_again_is_the_same_to_the_byte(algo: str, tmp_path: Path) -> None:
    env, options = MAKE[algo]
    run = tmp_path / "run"
    srl.train(algo, env, total_timesteps=300, run_dir=run, callback=stop_at(120), checkpoint_freq=60, **options)
    folder = RunFolder.open(run)
    checkpoint = newest(folder, lambda notice: None)
    setup = setup_of(folder)
    agent = {"ppo": srl.PPO, "a2c": srl.A2C, "dqn": srl.DQN, "ddpg": srl.DDPG, "td3": srl.TD3, "sac": srl.SAC}[
        algo
    ].from_setup(setup)
    with agent.computing():
        put_back(agent, checkpoint)
    saver = Saver(agent, tmp_path / "again", keep_last=None, background=False)
    again = saver.save(checkpoint.state["session"])
    for name in (STATE, ARRAYS):
        assert (again / name).read_bytes() == (checkpoint.folder / name).read_bytes(), name
    first, second = (json.loads((path / INDEX).read_text())["about"] for path in (checkpoint.folder, again))
    assert first["parts"] == second["parts"]
    assert first.get("replay") == second.get("replay")
    assert SESSION.keys() == checkpoint.state["session"].keys()
    agent.close()


def test_other_hyperparameters_are_refused_by_the_name_of_the_part(tmp_path: Path) -> None:
    run = tmp_path / "run"
    srl.train("sac", "Pendulum-v1", total_timesteps=300, run_dir=run, callback=stop_at(150), checkpoint_freq=50, **OFF)
    path = run / "config.json"
    config = json.loads(path.read_text())
    for name, value, said in (
        ("buffer_size", 100, "replay"),
        ("net_arch", [8], "policy/"),
        ("num_envs", 2, "replay"),
        ("ent_coef", 0.2, "temperature"),
    ):
        config["hyperparameters"], kept = config["hyperparameters"] | {name: value}, config["hyperparameters"]
        path.write_text(json.dumps(config))
        with pytest.raises(UserError, match=said):
            srl.resume(run)
        config["hyperparameters"] = kept
    config["hyperparameters"] |= {"gamma": 0.5}
    path.write_text(json.dumps(config))
    told: list[str] = []
    assert srl.resume(run, say=lambda notice: told.append(notice.message)).status == "finished"
    assert "Not as it was: gamma is 0.5 in config.json, and the saved agent was trained with 0.99." in told
