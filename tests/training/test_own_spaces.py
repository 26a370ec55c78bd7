"""What a refusal promises: with an encoder of its own any leaf trains, saves, loads, evaluates and goes on exactly."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs
from torch import Tensor, nn

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.spaces import Leaf
from steadyrl.training.events import Progress
from support.trees import VECTOR, Sampler, drawn

KINDS: dict[str, gym.Space[Any]] = {
    "Graph": gs.Graph(gs.Box(0.0, 1.0, (1,)), gs.Discrete(3)),
    "OneOf": gs.OneOf((gs.Box(-1.0, 1.0, (2,)), gs.Discrete(3))),
    "Sequence": gs.Sequence(gs.Dict({"a": gs.Discrete(2), "b": gs.Box(-1.0, 1.0, (2,))})),
}
PLACES: dict[str, str] = {"Alone": "", "Inside": "parts/1"}
OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 20, "batch_size": 16, "n_epochs": 2, "normalize_obs": True},
    "dqn": {"learning_starts": 6, "batch_size": 4, "buffer_size": 30},
}


def space_of(kind: str, place: str) -> gym.Space[Any]:
    leaf = KINDS[kind]
    return leaf if place == "Alone" else gs.Dict({"v": VECTOR, "parts": gs.Tuple((gs.Discrete(2), leaf))})


def made(kind: str, place: str) -> Sampler:
    """The environment, as this file names it."""
    return Sampler(space_of(kind, place))


class Summed(nn.Module):
    """How many numbers a value holds, and their sum, through one layer."""

    shape = (2,)

    @staticmethod
    def to_array(value: Any) -> Any:
        numbers = _numbers(value)
        return [len(numbers), sum(numbers)]

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        assert leaf.kind == "own"
        self.features = 4
        self.layer = nn.Linear(2, 4)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.layer(obs).tanh()
        return found


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict | tuple):
        return [x for part in (value.values() if isinstance(value, dict) else value) for x in _numbers(part)]
    return [] if value is None else [float(x) for x in np.ravel(value)]


def train(algo: str, kind: str, place: str, run: Path, stop_at: int = 0, **more: Any) -> srl.Run:
    return srl.train(
        algo, f"{__file__}:made", env_kwargs={"kind": kind, "place": place}, total_timesteps=60, run_dir=run,
        preset="none", seed=4, num_envs=2, net_arch=(8,), eval_freq=30, eval_episodes=2, checkpoint_freq=40,
        **OPTIONS[algo], **more,
        callback=lambda event: not (stop_at and isinstance(event, Progress) and event.step >= stop_at),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("algo", "kind", "place", "vec"),
    [
        ("ppo", "Graph", "Alone", "sync"),
        ("dqn", "Graph", "Inside", "async"),
        ("ppo", "OneOf", "Inside", "async"),
        ("dqn", "OneOf", "Alone", "sync"),
        ("ppo", "Sequence", "Inside", "sync"),
    ],
)
def test_the_promise_of_a_refusal_is_kept(
    algo: str, kind: str, place: str, vec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = PLACES[place]
    with pytest.raises(srl.UserError, match=f"is a {kind}, which is not supported") as refused:
        train(algo, kind, place, tmp_path / "refused")
    assert (f"at '{path}'" in refused.value.message) == bool(path)
    assert f"encoders={{{path!r}: MyEncoder}}" in refused.value.remedy
    assert not (tmp_path / "refused").exists()

    encoders = {path: Summed}
    whole = train(algo, kind, place, tmp_path / "whole", encoders=encoders, vec=vec)
    assert [row["mean"] for row in whole.evals()] == [9.0, 9.0]
    stopped = train(algo, kind, place, tmp_path / "stopped", stop_at=1, encoders=encoders, vec=vec)
    assert 0 < stopped.agent.num_timesteps < 60
    resumed = srl.resume(tmp_path / "stopped", encoders=encoders, say=lambda notice: None)
    assert resumed.agent.policy.sha256() == whole.agent.policy.sha256() != stopped.agent.policy.sha256()

    loaded = srl.load(whole.agent.save(tmp_path / "policy"), encoders=encoders)
    obs = drawn(space_of(kind, place), 3)
    assert loaded.predict(obs, deterministic=True)[0] == whole.agent.predict(obs, deterministic=True)[0]
    again = srl.Run.open(tmp_path / "whole").load_agent("best", encoders=encoders)
    assert srl.evaluate(again, 2).returns.tolist() == [9.0, 9.0]
    for command in (["eval", str(tmp_path / "whole")], ["resume", str(tmp_path / "whole"), "--total-timesteps", "99"]):
        assert main(command) == 2
        assert f"{path!r}: Summed" in capsys.readouterr().err


class Thing:
    """No file holds it."""

    def __init__(self, number: float) -> None:
        self.number = number


class Things(gym.Space[Any]):
    """A space that nobody else knows."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def sample(self, mask: Any = None, probability: Any = None) -> Thing:
        return Thing(float(self.np_random.random()))

    def contains(self, x: Any) -> bool:
        return isinstance(x, Thing)


class Numbered(Summed):
    """The number of a thing."""

    @staticmethod
    def to_array(value: Any) -> Any:
        return [1.0, value.number]


def test_observations_that_no_file_holds_are_trained_on_without_their_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"preset": "none", "net_arch": (8,), "encoders": {"": Numbered}, "eval_freq": 0}
    run = srl.train("a2c", partial(Sampler, Things()), total_timesteps=40, run_dir=tmp_path / "run", **options)
    assert run.status == "finished"
    told = capsys.readouterr().err
    assert "A resumed run would start its episodes anew" in told
    assert "its observations cannot be kept: The state has a " in told


def test_samplers_of_these_spaces_are_in_them() -> None:
    for kind in KINDS:
        for place in PLACES:
            env = Sampler(space_of(kind, place))
            assert env.observation_space.contains(env.reset(seed=1)[0])


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_spaces_that_do_not_say_when_they_are_equal_are_stepped_in_processes(workers: int, inside: bool) -> None:
    path = "thing" if inside else ""
    agent = srl.A2C(
        partial(fresh, inside), num_envs=2, vec="async", num_workers=workers, preset="none", net_arch=(8,),
        encoders={path: Numbered}, n_steps=4,
    )  # fmt: skip
    assert agent.learn(16).num_timesteps == 16
    agent.close()


def fresh(inside: bool) -> Sampler:
    """With a space of its own."""
    return Sampler(gs.Dict({"thing": Things()}) if inside else Things())
