"""DQN on stacked pictures: a replay of frames is chosen by itself, learns the same, is saved and goes on exactly."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs

import steadyrl as srl
from steadyrl.data.frames import Frames
from steadyrl.errors import UserError
from steadyrl.training.chunks import ReplayCapture
from steadyrl.training.comparing import first_difference
from steadyrl.training.events import Event
from steadyrl.training.off_policy import OffPolicyLoop
from steadyrl.training.setup import prepare_training
from support.envs import SpaceProbe
from support.games import Game, needs_ale

GAME: dict[str, Any] = {"atari": "on", "screen_size": 0, "frame_skip": 2, "noop_max": 3}
OPTIONS: dict[str, Any] = {
    "preset": "none", "learning_starts": 40, "batch_size": 16, "buffer_size": 120, "net_arch": (8,), "vec": "sync",
    "num_envs": 2, "seed": 2, "target_update_interval": 50, **GAME,
}  # fmt: skip


def game() -> Game:
    return Game(160, (61, 120), 9)


def learnt(steps: int = 300, **changes: Any) -> srl.DQN:
    return srl.DQN(game, **{**OPTIONS, **changes}).learn(steps)


def replay_of(agent: Any) -> Any:
    loop = agent.loop
    assert isinstance(loop, OffPolicyLoop)
    return loop.replay


@pytest.mark.parametrize("more", [{}, {"prioritized": True}, {"n_step": 3, "kernels": "torch"}])
def test_it_learns_the_same_as_from_whole_observations(more: dict[str, Any]) -> None:
    agents = [learnt(replay_frames=choice, **more) for choice in ("auto", "off")]
    assert [sorted(name for name in replay_of(agent).rings if "obs" in name) for agent in agents] == [
        [],
        ["next_obs/", "obs/"],
    ]
    assert agents[0].policy.sha256() == agents[1].policy.sha256()
    assert agents[0].loop.counters.updates > 50


def test_it_is_chosen_where_frames_are_stacked_and_said_once() -> None:
    def setup(env: Any, **options: Any) -> Any:
        given = {name: value for name, value in {**OPTIONS, **options}.items() if name != "preset"}
        return prepare_training("dqn", env, given, preset="none")

    chosen = setup(game)
    assert chosen.frames == Frames(4, 0, 1)
    (text,) = [notice.message for notice in chosen.notices if notice.code == "replay-frames"]
    assert text.startswith("The replay keeps each frame of the 4 in an observation once: ")
    assert setup(game, replay_frames="off").frames is None
    assert setup(game, frame_stack=1).frames is None
    assert setup("CartPole-v1", atari="off", frame_skip=4, noop_max=30, screen_size=84, frame_stack=4).frames is None
    assert setup(Game(80, (31, 60), 9), num_envs=1).frames == Frames(4, 0, 1)
    with pytest.raises(UserError, match="replay_frames is 'on', but the observations are no uint8 pictures"):
        setup(game, frame_stack=1, replay_frames="on")


def stop_at(step: int) -> Any:
    def listen(event: Event) -> bool | None:
        return False if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= step else None

    return listen


GAMES = Path(__file__).parent.parent / "support" / "games.py"


@pytest.mark.parametrize("more", [{}, {"prioritized": True, "n_step": 2}])
def test_a_run_goes_on_to_the_same_bits(more: dict[str, Any], tmp_path: Path) -> None:
    options = {**OPTIONS, **more, "eval_freq": 0, "checkpoint_freq": 90}
    options["env_kwargs"] = {"length": 160, "deaths": (61, 120), "drawn": 9}
    for name, callback in (("whole", None), ("stopped", stop_at(200))):
        run_dir = tmp_path / name
        srl.train("dqn", f"{GAMES}:Game", total_timesteps=320, callback=callback, run_dir=run_dir, **options)
    run = srl.resume(tmp_path / "stopped", say=lambda notice: None)
    assert run.manifest["lineage"][0]["from_step"] in range(90, 320)
    assert replay_of(run.agent).written > 60  # the ring was full, and went around
    assert first_difference(tmp_path / "whole", tmp_path / "stopped") is None


class Store:
    """Takes chunks in memory."""

    def __init__(self) -> None:
        self.chunks: dict[str, bytes] = {}

    def put(self, data: Any) -> str:
        import hashlib

        name = hashlib.sha256(data).hexdigest()
        self.chunks[name] = bytes(data)
        return name


def test_a_further_checkpoint_copies_only_new_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steadyrl.training.chunks.CHUNK_BYTES", 30 * 2 * 10)  # ten rows of frames
    agent = learnt(120, buffer_size=400)
    replay, store = replay_of(agent), Store()
    capture = ReplayCapture(replay)

    def fresh() -> dict[str, int]:
        layouts = capture.take(store)  # type: ignore[arg-type]
        new = {name: sum(type(chunk) is bytes for chunk in layout.chunks) for name, layout in layouts.items()}
        described = capture.store(layouts, store)  # type: ignore[arg-type]
        for name, ring in replay.rings.items():
            data = b"".join(store.chunks[chunk] for chunk in described[name]["chunks"])
            rows = min(replay.written_to(name), len(ring))
            np.testing.assert_array_equal(np.frombuffer(data, ring.dtype), ring[:rows].ravel(), err_msg=name)
        return new

    assert fresh()["frames"] == 6
    assert fresh()["frames"] == 0
    agent.learn(20)
    assert fresh()["frames"] == 1
    agent.learn(600)
    fresh()
    assert (fresh()["frames"], fresh()["ends"]) == (0, 0)


@needs_ale
def test_a_real_game_fills_it(tmp_path: Path) -> None:
    small = {"name": "ResizeObservation", "kwargs": {"shape": [10, 10]}}
    options = {**OPTIONS, "screen_size": 0, "frame_skip": 4, "atari": "auto", "wrappers": [small], "buffer_size": 300}
    made = partial(srl.DQN, "ALE/Breakout-v5", **options)
    agents = [made(replay_frames=choice).learn(700) for choice in ("auto", "off")]
    assert agents[0].setup is not None
    assert agents[0].setup.frames == Frames(4, 0, 1)
    assert agents[0].policy.sha256() == agents[1].policy.sha256()


def test_a_million_atari_transitions_fit_into_8_gb_and_whole_ones_are_refused() -> None:
    pictures = partial(SpaceProbe, gs.Box(0, 255, (84, 84), np.uint8), gs.Discrete(6))
    options = {"buffer_size": 10**6, "frame_stack": 4, "memory_limit": "8GB"}
    setup = prepare_training("dqn", pictures, options)
    (text,) = [notice.message for notice in setup.notices if notice.code == "replay-frames"]
    assert "7.79 GB for buffer_size 1000000 instead of 56.5 GB" in text
    with pytest.raises(UserError, match=r"A replay of buffer_size 1000000 takes 56.5 GB") as caught:
        prepare_training("dqn", pictures, {**options, "replay_frames": "off"})
    assert caught.value.code == "no-memory"
