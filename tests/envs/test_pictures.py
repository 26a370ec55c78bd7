"""Environments without the render mode that is asked for: said in one sentence, when recording and filming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.envs.make import make_env_factory
from steadyrl.errors import UserError
from support.envs import Reset, Stepped

CURE = (
    "It needs metadata = {'render_modes': ['rgb_array'], 'render_fps': 30}, a constructor that takes render_mode and "
    "keeps it in self.render_mode, and a render() that returns an array [height, width, 3] of uint8."
)


class Plain(gym.Env[Any, Any]):
    """Knows nothing of pictures."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> Stepped:
        return np.zeros(1, dtype=np.float32), 1.0, False, True, {}


class Takes(Plain):
    """Takes any render mode, and declares and draws none."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode


class Human(Takes):
    metadata = {"render_modes": ["human", "ansi"]}  # noqa: RUF012


class Text(Human):
    """Refuses what it does not declare."""

    def __init__(self, render_mode: str | None = None) -> None:
        assert render_mode in (None, "human", "ansi")
        super().__init__(render_mode)


class Deaf(Plain):
    """Draws, but takes no render mode."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def render(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)


class Undeclared(Takes):
    """Draws, and does not say so."""

    def render(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)


SAID: dict[type[Plain], str] = {
    Plain: "has no render mode rgb_array: it declares none.",
    Takes: "has no render mode rgb_array: it declares none.",
    Human: "has no render mode rgb_array: it declares only human, ansi.",
    Text: "has no render mode rgb_array: it declares only human, ansi.",
    Deaf: "declares the render mode rgb_array, but is made with render_mode=None.",
}
KEPT = "Let what makes it take render_mode, pass it on, and keep it in self.render_mode."


@pytest.fixture(autouse=True)
def ids() -> Any:
    """The same as registered ids, which Gymnasium makes in its own way."""
    before = set(gym.registry)
    kinds: list[Any] = [*SAID, Undeclared]
    for kind in kinds:
        gym.register(f"Pictures{kind.__name__}-v0", kind)
    yield
    for name in set(gym.registry) - before:
        del gym.registry[name]


@pytest.mark.parametrize("kind", [Plain, Text, Deaf])
def test_what_cannot_be_made_like_that_says_which_modes_it_has(kind: type[Plain]) -> None:
    for env in (kind, f"{__file__}:{kind.__name__}", f"Pictures{kind.__name__}-v0"):
        with pytest.raises(UserError) as caught:
            make_env_factory(env)("rgb_array")
        assert caught.value.message.endswith(SAID[kind])
        assert caught.value.remedy == (KEPT if kind is Deaf else CURE)


def test_an_error_that_has_nothing_to_do_with_it_stays_what_it_is() -> None:
    class Broken(Plain):
        metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

        def __init__(self, render_mode: str | None = None) -> None:
            raise OSError("no level file")

    with pytest.raises(UserError, match="raised OSError: no level file"):
        make_env_factory(Broken)("rgb_array")


@pytest.mark.parametrize("kind", SAID)
def test_filming_is_refused_before_the_training_begins(kind: type[Plain], tmp_path: Path) -> None:
    pytest.importorskip("av")
    agent = srl.A2C(kind, preset="none", capture_video=True)
    with pytest.raises(UserError) as caught:
        agent.learn(20, run_dir=tmp_path / "run")
    assert caught.value.message.endswith(SAID[kind])
    assert agent.num_timesteps == 0
    assert list(tmp_path.iterdir()) == []
    agent.close()


@pytest.mark.parametrize("kind", SAID)
def test_recording_says_it_in_two_sentences(
    kind: type[Plain], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("av")
    monkeypatch.chdir(tmp_path)
    srl.train("a2c", f"{__file__}:{kind.__name__}", total_timesteps=5, preset="none", eval_freq=0, run_dir="run")
    capsys.readouterr()
    assert main(["record", "run"]) == 2
    error, cure = capsys.readouterr().err.splitlines()
    assert error.startswith("error: The environment ")
    assert error.endswith(SAID[kind])
    assert cure == (KEPT if kind is Deaf else CURE)
    assert not list(tmp_path.rglob("*.mp4"))


def test_what_draws_without_saying_so_is_filmed(tmp_path: Path) -> None:
    pytest.importorskip("av")
    agent = srl.A2C(Undeclared, preset="none", capture_video=True, eval_freq=10, eval_episodes=1)
    agent.learn(10, run_dir=tmp_path / "run")
    assert [path.name for path in tmp_path.rglob("*.mp4")] == ["step_10.mp4"]
    agent.close()
