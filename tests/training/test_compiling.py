"""Whether losses are compiled: known decisions, what is said and recorded, and trainings that stay the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import steadyrl as srl
from steadyrl.configs import A2CConfig, DQNConfig, PPOConfig, SACConfig
from steadyrl.errors import UserError
from steadyrl.nn import compiled
from steadyrl.training import compiling
from steadyrl.training.agent import Agent
from steadyrl.training.compiling import Choice, choose, full_minibatch, gradient_steps
from steadyrl.training.events import Event, Notice
from support.compiling import needs_compiler
from support.kernels import needs_native
from support.off_policy import agent_of

PPO: dict[str, Any] = {
    "preset": "none",
    "seed": 3,
    "eval_freq": 0,
    "num_envs": 4,
    "n_steps": 32,
    "batch_size": 60,
    "n_epochs": 2,
    "clip_range": {"start": 0.2, "end": 0.0},
}
TRAININGS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", 256, {}),
    "a2c": ("Pendulum-v1", 128, {"num_envs": 4, "n_steps": 8}),
    "dqn": ("CartPole-v1", 140, {}),
    "dqn-c51": ("CartPole-v1", 140, {"head": "c51", "v_min": 0.0, "v_max": 50.0}),
    "dqn-quantile": ("CartPole-v1", 140, {"head": "quantile", "n_quantiles": 8}),
    "td3": ("Pendulum-v1", 120, {}),
    "sac": ("Pendulum-v1", 120, {}),
    "sac-gsde": ("Pendulum-v1", 120, {"use_sde": True}),
    "sac-discrete": ("CartPole-v1", 120, {}),
}
# What a run compiles: not the temperature's loss, which is of one number.
LOSSES = {"td3": 2, "sac": 3, "sac-gsde": 3, "sac-discrete": 2}


def made(name: str, **options: Any) -> tuple[Agent, int]:
    env, steps, settings = TRAININGS[name]
    algo = name.partition("-")[0]
    settings = {"kernels": "torch", **settings, **options}
    if algo == "ppo":
        return srl.PPO(env, **PPO | settings), steps
    if algo == "a2c":
        return srl.A2C(env, preset="none", seed=3, eval_freq=0, **settings), steps
    return agent_of(algo, env, seed=3, eval_freq=0, **settings), steps


def trained(name: str, folder: Path | None = None, heard: list[Event] | None = None, **options: Any) -> Agent:
    agent, steps = made(name, **options)
    agent.learn(steps, run_dir=folder, callback=None if heard is None else heard.append)
    agent.close()
    return agent


def said(heard: list[Event]) -> list[str]:
    return [event.message for event in heard if isinstance(event, Notice) and event.code == "compile"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo and autograd's part, without the seconds and the compiler that code for this machine needs."""
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    monkeypatch.setattr(compiling, "missing_program", lambda device: "")


def decided(
    steps: int,
    asked: Literal["auto", "on", "off"] = "auto",
    algo: str = "ppo",
    *,
    native: bool = False,
    device: str = "cpu",
    missing: str = "",
) -> Choice:
    return choose(asked, algo, steps, native=native, device=device, missing=missing)


def test_known_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "SAVES_S", {"ppo": 1e-4, "dqn": 1e-5})
    assert decided(400_001).saves_s == 40.0  # as much as the margin asks for, and no more
    assert not decided(400_001).used
    assert decided(401_000).used
    assert decided(401_000).compile_s == 20.0
    assert not decided(401_000, algo="dqn").used
    assert not decided(401_000, device="cuda").used
    assert decided(801_000, device="cuda").used
    assert decided(10**9, native=True) == Choice(False, "kernels")
    assert decided(10**9, "off") == Choice(False, "off")
    assert decided(0, "on", native=True) == Choice(True, "asked")
    assert decided(401_000, missing="the C++ compiler g++") == Choice(
        False, "compiler", 20.0, 40.1, "the C++ compiler g++"
    )
    assert not decided(10, missing="the C++ compiler g++").missing


def test_what_is_said() -> None:
    def text(choice: Choice) -> str:
        notice = choice.notice()
        return "" if notice is None else notice.message

    assert text(Choice(True, "saving", 20.0, 100.0)) == (
        "torch.compile is used for the losses: about 20 s to compile should save about 100 s."
    )
    assert text(Choice(False, "saving", 20.0, 12.3)) == (
        "torch.compile is not used: about 20 s to compile would save about 12 s."
    )
    assert text(Choice(False, "compiler", 20.0, 100.0, "the C++ compiler g++")) == (
        "torch.compile would save about 100 s, but it needs the C++ compiler g++, which was not found."
    )
    for silent in (Choice(False, "saving", 20.0, 0.4), Choice(False, "kernels"), Choice(False, "off")):
        assert silent.notice() is None
    assert Choice(True, "asked").notice() is None


def test_gradient_steps_and_full_minibatches() -> None:
    ppo = PPOConfig(num_envs=4, n_steps=32, batch_size=60, n_epochs=2)
    assert gradient_steps(ppo, 128) == 2 * 3
    assert gradient_steps(ppo, 129) == 2 * 2 * 3
    assert full_minibatch(ppo) == 60
    a2c = A2CConfig(num_envs=4, n_steps=5)
    assert gradient_steps(a2c, 100) == 5
    assert full_minibatch(a2c) == 20
    dqn = DQNConfig(learning_starts=100, train_freq=4, gradient_steps=2, batch_size=32)
    assert gradient_steps(dqn, 100) == 0
    assert gradient_steps(dqn, 500) == 200
    assert full_minibatch(dqn) == 32
    assert gradient_steps(SACConfig(learning_starts=100, gradient_steps=-1, train_freq=8), 500) == 400


@pytest.mark.parametrize("algo", srl.training.agents.AGENTS)
def test_there_is_a_figure_for_every_algorithm(algo: str) -> None:
    assert 0.0 < compiling.SAVES_S[algo] < 1e-3


def test_the_decision_follows_no_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two trainings at very different speeds decide alike, and the manifest says what."""
    monkeypatch.setattr(compiling, "SAVES_S", {"ppo": 1.0})
    found = []
    for name, seconds in (("fast", 0.0), ("slow", 3600.0)):
        monkeypatch.setattr(compiled, "perf_counter", lambda s=seconds: s)
        monkeypatch.setattr(compiled, "BACKEND", "eager")
        monkeypatch.setattr(compiling, "missing_program", lambda device: "")
        monkeypatch.setattr(compiling, "CPU_COMPILE_S", 1.0)
        agent = trained("ppo", tmp_path / name, compile="auto")
        found.append((agent.compiling, agent.policy.sha256()))
    assert found[0] == found[1]
    assert found[0][0] == Choice(True, "saving", 1.0, 12.0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", TRAININGS)
def test_whole_trainings_give_the_same_numbers(name: str) -> None:
    plain, agent = trained(name, compile="off"), trained(name, compile="on")
    assert agent.policy.compiler.losses == LOSSES.get(name, 1)
    assert plain.policy.compiler.losses == 0
    for key, weight in plain.policy.state_dict().items():
        torch.testing.assert_close(agent.policy.state_dict()[key], weight, rtol=1e-4, atol=1e-5)


def test_auto_changes_no_bit_of_a_short_run_and_says_nothing(tmp_path: Path) -> None:
    heard: list[Event] = []
    off, auto = trained("ppo", compile="off"), trained("ppo", tmp_path / "run", heard, compile="auto")
    assert off.policy.sha256() == auto.policy.sha256()
    assert said(heard) == []
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["compile"] == "auto"
    assert manifest["compiled"] | {"expected_saving_s": None} == {
        "used": False,
        "from_step": None,
        "why": "saving",
        "expected_compile_s": 20.0,
        "expected_saving_s": None,
        "losses": 0,
        "compile_s": 0.0,
        "eager_us": 0,
        "compiled_us": 0,
        "failed": None,
    }


@pytest.mark.usefixtures("quick")
def test_auto_takes_it_where_it_pays_says_so_and_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiling, "SAVES_S", {"ppo": 10.0})
    heard: list[Event] = []
    agent, steps = made("ppo", compile="auto")
    agent.learn(steps, run_dir=tmp_path / "first", callback=heard.append)
    assert said(heard)[0] == "torch.compile is used for the losses: about 20 s to compile should save about 120 s."
    manifest = json.loads((tmp_path / "first" / "manifest.json").read_text())["compiled"]
    assert (manifest["used"], manifest["from_step"], manifest["losses"]) == (True, 0, 1)
    monkeypatch.setattr(compiling, "SAVES_S", {"ppo": 0.0})
    agent.learn(steps, run_dir=tmp_path / "second")
    assert json.loads((tmp_path / "second" / "manifest.json").read_text())["compiled"]["used"]
    assert agent.policy.compiler.losses == 1


@pytest.mark.usefixtures("quick")
def test_auto_goes_on_without_it_where_it_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiling, "SAVES_S", {"ppo": 10.0})
    monkeypatch.setattr(compiled, "BACKEND", "no-such-backend")
    heard: list[Event] = []
    agent = trained("ppo", tmp_path / "run", heard, compile="auto")
    assert agent.policy.sha256() == trained("ppo", compile="off").policy.sha256()
    texts = said(heard)
    assert len(texts) == 2
    assert texts[1].startswith("torch.compile failed, so that PyTorch runs the losses eagerly: ")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())["compiled"]
    assert (manifest["used"], manifest["why"], bool(manifest["failed"])) == (False, "failed", True)


@pytest.mark.parametrize("compiler", ["", "no-such-compiler"])
def test_without_a_compiler_auto_is_eager_and_on_an_error(
    compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setattr(compiling, "SAVES_S", {"ppo": 10.0})
    heard: list[Event] = []
    agent = trained("ppo", heard=heard, compile="auto")
    assert (agent.policy.compiler.rows, agent.policy.compiler.losses) == (0, 0)
    (text,) = said(heard)
    assert "it needs the C++ compiler" in text
    with pytest.raises(UserError, match=r"compile is on, but torch\.compile needs the C\+\+ compiler") as caught:
        made("ppo", compile="on")
    assert caught.value.code == "no-compile"


@needs_native
def test_where_kernels_run_the_losses_on_is_an_error_and_auto_silent() -> None:
    with pytest.raises(UserError, match="compile is on, but native kernels run the losses") as caught:
        made("ppo", kernels="auto", compile="on")
    assert caught.value.code == "no-compile"
    assert "--kernels torch" in caught.value.remedy
    heard: list[Event] = []
    agent = trained("ppo", heard=heard, kernels="native", compile="auto")
    assert agent.compiling == Choice(False, "kernels")
    assert said(heard) == []


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(UserError, match="compile"):
        made("ppo", compile="yes")


@needs_compiler
@pytest.mark.soak
@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_inductor_trains_alike_and_with_the_same_bits_twice(name: str) -> None:
    plain, *both = trained(name, compile="off"), trained(name, compile="on"), trained(name, compile="on")
    assert [agent.policy.compiler.losses for agent in both] == [LOSSES.get(name, 1)] * 2
    assert both[0].policy.sha256() == both[1].policy.sha256()
    for key, weight in plain.policy.state_dict().items():
        torch.testing.assert_close(both[0].policy.state_dict()[key], weight, rtol=1e-4, atol=1e-5)
