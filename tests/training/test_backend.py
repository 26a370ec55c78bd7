"""`vec='auto'` in a training: what it became is written down, and the weights do not depend on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.envs.choice import Choice
from steadyrl.errors import RunFailedError
from steadyrl.training import backend
from steadyrl.training.events import Notice
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.setup import prepare_training
from steadyrl.training.taking_up import setup_of
from support.training_envs import Fast

SMALL: dict[str, Any] = {"n_steps": 16, "num_envs": 4, "batch_size": 32, "n_epochs": 2, "preset": "none", "seed": 3}


def decided(monkeypatch: pytest.MonkeyPatch, choice: Choice) -> list[Any]:
    """Whatever is timed, this is chosen; returns what was asked."""
    asked: list[Any] = []

    def choose(source: Any, num_envs: int, **limits: Any) -> Choice:
        asked.append((source.id, num_envs, limits))
        return choice

    monkeypatch.setattr(backend, "choose", choose)
    return asked


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_the_choice_is_written_into_the_run_and_said_once(
    vec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = decided(monkeypatch, Choice(vec, "it is Tuesday", rates={"sync": 1.26}))
    run = srl.train("ppo", "CartPole-v1", total_timesteps=64, run_dir=tmp_path / "run", eval_episodes=1, **SMALL)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["settings"]["vec"] == vec
    assert config["backend"] == {"asked": "auto", "reason": "it is Tuesday", "steps_per_second": {"sync": 1.3}}
    assert run.agent.loop.venv.spec.backend == vec
    assert capfd.readouterr().err.count(f"vec=auto takes {vec}: it is Tuesday.") == 1
    assert [(env, number) for env, number, _ in asked] == [("CartPole-v1", 4)]
    run.agent.close()


def test_weights_are_the_same_whatever_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {}
    backends: tuple[Any, ...] = ("sync", "async")
    for vec in backends:
        decided(monkeypatch, Choice(vec, "of speed"))
        agent = srl.PPO("CartPole-v1", **SMALL)
        agent.learn(256)
        assert agent.loop.venv.spec.backend == vec
        hashes[vec] = agent.policy.sha256()
        agent.close()
    untrained = srl.PPO("CartPole-v1", **SMALL).policy.sha256()
    assert hashes["sync"] == hashes["async"] != untrained


def test_the_processes_that_were_chosen_are_written_down_and_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided(monkeypatch, Choice("async", "of speed", 2))
    agent = srl.PPO("CartPole-v1", eval_freq=0, **SMALL)
    agent.learn(64, run_dir=tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["settings"]["vec"], config["settings"]["num_workers"]) == ("async", 2)
    assert len(agent.loop.venv._env.processes) == 2  # type: ignore[attr-defined]
    agent.close()


@pytest.mark.parametrize(("vec", "expected"), [("async", 3), ("sync", None)])
def test_the_users_number_of_processes_goes_first(
    vec: Any, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided(monkeypatch, Choice(vec, "of speed", 2 if vec == "async" else None))
    setup = prepare_training("ppo", "CartPole-v1", {"num_envs": 4, "num_workers": 3}, preset="none")
    settled = backend.settled(setup, lambda notice: None).settings
    assert (settled.vec, settled.num_workers) == (vec, expected)


def test_other_environments_are_decided_about_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(monkeypatch, Choice("async", "of speed", 2, {"sync": 1.0}))
    agent = srl.PPO("CartPole-v1", eval_freq=0, **SMALL)
    agent.learn(64, run_dir=tmp_path / "run")
    setup = setup_of(RunFolder(tmp_path / "run"))
    assert setup.to_json()["backend"] == {"asked": "auto", "reason": "of speed", "steps_per_second": {"sync": 1.0}}
    assert (setup.settings.vec, setup.asked.vec, setup.asked.num_workers) == ("async", "auto", None)
    decided(monkeypatch, Choice("sync", "there is little to do"))
    agent.set_env("CartPole-v1", max_episode_steps=7)
    assert agent.loop.venv.spec.backend == "sync"
    agent.close()
    told = srl.PPO("CartPole-v1", vec="async", num_workers=2, **SMALL)
    told.set_env("CartPole-v1")
    assert told.setup is not None
    assert (told.setup.settings.vec, told.setup.settings.num_workers) == ("async", 2)


def test_a_call_of_learn_with_a_folder_writes_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(monkeypatch, Choice("async", "of speed"))
    agent = srl.PPO("CartPole-v1", eval_freq=0, **SMALL)
    agent.learn(64, run_dir=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["vec"] == "async"
    agent.close()


def test_nothing_is_timed_where_the_user_said_what_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = decided(monkeypatch, Choice("async", "of speed"))
    said: list[Any] = []
    setup = prepare_training("ppo", "CartPole-v1", {"vec": "sync", "num_envs": 4}, preset="none")
    assert backend.settled(setup, said.append) is setup
    assert setup.to_json()["backend"] == {"asked": "sync"}
    assert (asked, said) == ([], [])


@pytest.mark.parametrize(("vec", "said"), [("native", "one generator for all"), ("envpool", "another implementation")])
def test_other_trajectories_are_said_before_they_are_made(vec: str, said: str) -> None:
    notices: list[Any] = []
    setup = prepare_training("ppo", "CartPole-v1", {"vec": vec, "num_envs": 4}, preset="none")
    assert backend.settled(setup, notices.append) is setup
    (notice,) = notices
    assert said in notice.message
    assert "the same seed gives other episodes than sync and async" in notice.message


def test_timing_leaves_torchs_generator_alone() -> None:
    import torch

    setup = prepare_training("ppo", "CartPole-v1", {"num_envs": 4}, preset="none")
    before = torch.get_rng_state()
    settled = backend.settled(setup, lambda notice: None)
    assert settled.settings.vec == "sync"
    assert settled.choice is not None
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("policy", ["stop", "restart"])
def test_only_processes_survive_an_environment_that_ends_its_own(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*args: Any, timeout: float, **limits: Any) -> Choice:
        raise RunFailedError(f"It did not answer within {timeout:g} s.", code="env-timeout")

    monkeypatch.setattr(backend, "choose", lost)
    given = {"num_envs": 4, "on_env_error": policy, "env_timeout": 7.0}
    setup = prepare_training("ppo", "CartPole-v1", given, preset="none")
    if policy == "stop":
        with pytest.raises(RunFailedError, match="within 7 s"):
            backend.settled(setup, lambda notice: None)
        return
    settled = backend.settled(setup, lambda notice: None)
    assert settled.settings.vec == "async"
    assert settled.choice is not None
    assert settled.choice.reason == "only a process of its own survives this: It did not answer within 7 s"


@pytest.mark.parametrize(
    ("vec", "timeout", "said"), [("sync", 3.0, True), ("async", 3.0, False), ("sync", 60.0, False)]
)
def test_a_time_that_nobody_keeps_is_said(vec: str, timeout: float, said: bool) -> None:
    setup = prepare_training("ppo", Fast, {"vec": vec, "env_timeout": timeout, "num_envs": 2}, preset="none")
    notices: list[Notice] = []
    backend.settled(setup, notices.append)
    assert any(notice.message.startswith("env_timeout has no effect with vec sync") for notice in notices) is said
