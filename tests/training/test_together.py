"""Action masks and memory together with observations and actions of many parts, encoders, frames and lives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

import steadyrl as srl
from steadyrl.data.rollout import RolloutBatch
from steadyrl.data.sequences import SequenceBatch
from steadyrl.nn.policy import Policy
from steadyrl.nn.recurrent import RecurrentActorCritic
from steadyrl.spaces.masks import MASK
from steadyrl.training.agent import Agent
from steadyrl.training.comparing import first_difference
from steadyrl.training.events import EvaluationEnded, Notice
from support.games import MaskedGame
from support.policies import make_policy
from support.recurrent import unrolled
from support.trees import ACTION_TREE, LEAVES, PLACES, Sampler, drawn, equal

ON: dict[str, Any] = {
    "preset": "none", "vec": "sync", "num_envs": 2, "n_steps": 12, "net_arch": (8,), "eval_freq": 0, "seed": 1,
}  # fmt: skip
PPO = {**ON, "batch_size": 12, "n_epochs": 2}
OFF: dict[str, Any] = {
    "preset": "none", "vec": "sync", "num_envs": 2, "learning_starts": 12, "batch_size": 8, "buffer_size": 60,
    "net_arch": (8,), "eval_freq": 0, "seed": 1,
}  # fmt: skip
ENCODED = gs.Dict({"eye": LEAVES["image"], "said": LEAVES["text"], "joint": LEAVES["vector"]})


class Choosy(Sampler):
    """A sampler that allows one or two of its four actions, and insists on it."""

    def __init__(self, observation: gs.Space[Any]) -> None:
        super().__init__(observation, gs.Discrete(4))
        self.mask = np.zeros(4, dtype=np.int8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, _ = super().reset(seed=seed)
        return obs, self._allowed()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.mask[int(action)], f"{action} is not allowed"
        obs, _, *ended, _ = super().step(action)
        return obs, float(action), *ended, self._allowed()

    def _allowed(self) -> dict[str, Any]:
        self.mask[:] = 0
        self.mask[self.np_random.integers(4, size=2)] = 1
        return {"action_mask": self.mask}


def trained(agent: Agent, steps: int = 72, **more: Any) -> Agent:
    before = agent.policy.sha256()
    agent.learn(steps, **more)
    assert agent.policy.sha256() != before
    assert all(bool(torch.isfinite(tensor).all()) for tensor in agent.policy.state_dict().values())
    return agent


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("make", "options"), [(srl.PPO, PPO), (srl.DQN, OFF), (srl.SAC, OFF)])
def test_masks_beside_images_in_every_place(make: Any, options: dict[str, Any], place: str, tmp_path: Path) -> None:
    space = PLACES[place](LEAVES["image"])
    told: list[Any] = []
    agent = make(partial(Choosy, space), **{**options, "eval_freq": 36, "eval_episodes": 3})
    trained(agent, callback=told.append)  # the environments insist on what is allowed
    assert [event for event in told if isinstance(event, EvaluationEnded)]
    agent.close()
    again = srl.load(agent.save(tmp_path / "agent"))
    assert again.policy.masked
    obs = drawn(space, 4)
    for mask in np.eye(4):
        assert again.predict(obs, action_masks=mask)[0] == mask.argmax()


def test_masks_and_memory_on_a_tree_with_encoders() -> None:
    found = []
    for vec in ("sync", "async"):
        agent = trained(srl.PPO(partial(Choosy, ENCODED), **{**PPO, "vec": vec, "recurrent": "lstm"}))
        agent.close()
        found.append(agent.policy.sha256())
    assert found[0] == found[1]


@pytest.mark.parametrize("make", [srl.PPO, srl.A2C])
def test_memory_with_actions_of_parts(make: Any, tmp_path: Path) -> None:
    options = {name: value for name, value in PPO.items() if make is srl.PPO or name in ON}
    more = {"recurrent": "gru", "recurrent_size": 5, "recurrent_shared": True}
    agent = trained(make(partial(Sampler, ENCODED, ACTION_TREE), **{**options, **more}))
    agent.close()
    again = srl.load(agent.save(tmp_path / "agent"))
    obs = drawn(ENCODED, 4)
    state: Any = None
    other: Any = None
    for start in (True, False, False):
        action, state = agent.predict(obs, state, start, deterministic=True)
        assert ACTION_TREE.contains(action)
        loaded, other = again.predict(obs, other, start, deterministic=True)
        assert equal(loaded, action)
        np.testing.assert_array_equal(other, state)
    assert state.shape == (5,)
    many, states = again.predict(agent.policy.obs_spec.tree.batch([obs, obs]), deterministic=True)
    assert many["move"].shape == (2,)
    assert states.shape == (2, 5)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_a_memory_behind_encoders_is_a_step_at_a_time(shared: bool, together: bool) -> None:
    options: dict[str, Any] = {"cnn": "nature", "recurrent": "lstm", "recurrent_size": 6, "recurrent_shared": shared}
    policy = make_policy(ENCODED, gs.Discrete(3), **options, share_features_extractor=together)
    net = policy.net
    assert isinstance(net, RecurrentActorCritic)
    assert (net.value_encoder is None) == (shared or together)
    wanted = policy.architecture.parameters(policy.obs_spec, policy.action_spec)
    assert wanted == sum(parameter.numel() for parameter in net.parameters())
    length, n = 7, 3
    generator = np.random.default_rng(3)
    starts = generator.random((length, n)) < 0.3
    rows = [policy.obs_spec.store(drawn(ENCODED, seed), batch=False) for seed in range(length * n)]
    obs = {path: torch.from_numpy(np.concatenate([row[path] for row in rows])) for path in policy.obs_spec.by_path}
    states = torch.from_numpy(generator.normal(size=(n, policy.state_size)).astype(np.float32))
    flat = torch.arange(length * n, dtype=torch.float32)
    batch = SequenceBatch(
        RolloutBatch(obs, flat.long(), flat, flat, flat, flat), np.ones((length, n), np.bool_), starts, states
    )
    with torch.no_grad():
        (logits, *_), values = net(batch.take(np.arange(n))[1])
        (expected, *_), value, _ = unrolled(net, obs, starts, states)
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    np.testing.assert_allclose(values, value, atol=1e-5)


def test_both_encoders_learn() -> None:
    agent = srl.PPO(partial(Sampler, ENCODED), **{**PPO, "recurrent": "lstm", "share_features_extractor": False})
    net = agent.policy.net
    assert isinstance(net, RecurrentActorCritic)
    assert net.value_encoder is not None
    before = [{name: weight.clone() for name, weight in part.state_dict().items()}
              for part in (net.encoder, net.value_encoder)]  # fmt: skip
    agent.learn(48)
    for weights, part in zip(before, (net.encoder, net.value_encoder), strict=True):
        assert weights
        assert all(not torch.equal(weights[name], weight) for name, weight in part.state_dict().items())
    agent.close()
    assert Policy.from_description(agent.policy.describe(), torch.device("cpu")).state_size == agent.policy.state_size


GAME: dict[str, Any] = {
    "atari": "on", "screen_size": 0, "frame_skip": 1, "noop_max": 3, "fire_reset": False, "buffer_size": 120,
    "learning_starts": 40, "batch_size": 16, "target_update_interval": 50,
}  # fmt: skip


def rings_of(agent: Any) -> Any:
    return agent.loop.replay.rings


@pytest.mark.parametrize("more", [{}, {"prioritized": True}, {"n_step": 3, "kernels": "torch"}])
def test_masks_beside_frames_that_are_kept_once(more: dict[str, Any]) -> None:
    agents = [
        srl.DQN(MaskedGame(160, (61, 120), 9), **{**OFF, "num_envs": 1, **GAME, **more, "replay_frames": choice})
        for choice in ("auto", "off")
    ]
    for agent in agents:
        agent.learn(300)
    rings = [rings_of(agent) for agent in agents]
    assert [sorted(name for name in ring if "obs" in name) for ring in rings] == [
        [f"next_obs/{MASK}", f"obs/{MASK}"],
        ["next_obs/", f"next_obs/{MASK}", "obs/", f"obs/{MASK}"],
    ]
    assert agents[0].policy.sha256() == agents[1].policy.sha256()
    assert agents[0].loop.counters.updates > 50
    masks, taken = rings[0][f"obs/{MASK}"].reshape(-1, 4), rings[0]["actions"].ravel()
    assert set(masks.sum(axis=1)) == {2}
    assert masks[np.arange(len(taken)), taken].all()
    assert len(set(taken.tolist())) == 4
    for agent in agents:
        agent.close()


GAMES = f"{Path(__file__).parent.parent / 'support' / 'games.py'}:MaskedGame"


def stop_at(step: int) -> Any:
    def listen(event: Any) -> bool | None:
        return False if getattr(event, "kind", "") == "step" and getattr(event, "step", 0) >= step else None

    return listen


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_a_run_with_masks_on_frames_goes_on_to_the_same_bits(algo: str, tmp_path: Path) -> None:
    wrappers = {name: GAME[name] for name in ("atari", "screen_size", "frame_skip", "noop_max", "fire_reset")}
    options = {**OFF, **GAME} if algo == "dqn" else {**PPO, **wrappers, "recurrent": "gru", "recurrent_size": 6}
    options |= {"env_kwargs": {"length": 160, "deaths": (61, 120), "drawn": 9}}
    options |= {"eval_freq": 150, "eval_episodes": 2, "checkpoint_freq": 90}
    for name, callback in (("whole", None), ("stopped", stop_at(200))):
        srl.train(algo, GAMES, total_timesteps=320, callback=callback, run_dir=tmp_path / name, **options)
    notices: list[Notice] = []
    srl.resume(tmp_path / "stopped", say=notices.append)
    assert not [notice for notice in notices if notice.level == "warning"]  # that masks were found is no change
    assert first_difference(tmp_path / "whole", tmp_path / "stopped") is None
    assert srl.Run.open(tmp_path / "whole").config["settings"]["action_masks"] == "on"


def test_a_life_that_begins_brings_its_mask_and_no_memory() -> None:
    wrappers = {name: GAME[name] for name in ("atari", "screen_size", "fire_reset")}
    options = {**PPO, "num_envs": 1, **wrappers, "noop_max": 0, "frame_skip": 1, "recurrent": "lstm"}
    agent = srl.PPO(partial(MaskedGame, 40, (17, 30)), **options)
    agent.learn(48)
    asked: list[tuple[bool, int]] = []
    respond = agent.policy.respond

    def listening(obs: Any, state: Any, starts: Any, **more: Any) -> Any:
        assert obs[MASK].sum() == 2
        asked.append((bool(starts[0]), int(obs[MASK][0, 1:].argmax())))
        return respond(obs, state, starts, **more)

    agent.policy.respond = listening  # type: ignore[method-assign]
    result = srl.evaluate(agent, episodes=1)
    frames = [frame for frame in range(40) if frame not in (17, 30)]  # one without action begins a life
    assert result.lengths.tolist() == [38]
    assert [choice for _, choice in asked] == [frame % 3 for frame in frames]
    assert [frame for frame, (start, _) in zip(frames, asked, strict=True) if start] == [0, 18, 31]
    agent.close()


def test_actions_of_parts_have_no_masks() -> None:
    env: gym.Env[Any, Any] = Sampler(action=ACTION_TREE)
    agent = srl.PPO(env, **{**PPO, "num_envs": 1})
    agent.learn(24)
    assert not agent.policy.masked
    agent.close()
