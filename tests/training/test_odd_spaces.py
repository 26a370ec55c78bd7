"""Spaces at the edges of what is read: deep, of the largest bounds, of halves of characters, with goals of any kind."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs
from torch import Tensor, nn

import steadyrl as srl
from steadyrl.spaces import Leaf, ObsSpec
from steadyrl.spaces.tree import MAX_DEPTH
from steadyrl.training.setup import prepare_training
from support.trees import VECTOR, Sampler, drawn

PPO: dict[str, Any] = {"preset": "none", "n_steps": 8, "batch_size": 8, "n_epochs": 1, "net_arch": (8,), "vec": "sync"}


def nested(depth: int, kind: str) -> gs.Space[Any]:
    space: gs.Space[Any] = VECTOR
    for _ in range(depth):
        space = gs.Dict({"a": space}) if kind == "Dict" else gs.Tuple((space,))
    return space


@pytest.mark.parametrize("kind", ["Dict", "Tuple"])
def test_what_trains_can_be_loaded_however_deep_it_lies(kind: str, tmp_path: Path) -> None:
    env = partial(Sampler, nested(MAX_DEPTH, kind))
    agent = srl.PPO(env, **PPO).learn(8)
    obs = drawn(nested(MAX_DEPTH, kind), 1)
    assert srl.load(agent.save(tmp_path / "deep")).value(obs) == agent.value(obs)
    with pytest.raises(srl.UserError) as refused:
        srl.PPO(partial(Sampler, nested(MAX_DEPTH + 1, kind)), **PPO)
    assert f"At most {MAX_DEPTH}" in refused.value.remedy


class Unbounded(Sampler):
    """Small numbers in a space that goes as far as its type."""

    def __init__(self, dtype: Any) -> None:
        most = np.finfo(dtype).max
        super().__init__(gs.Box(-most, most, (3,), dtype))

    def _drawn(self) -> Any:
        return np.ones(3, self.observation_space.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_bounds_are_none(dtype: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        srl.PPO(partial(Unbounded, dtype), **PPO).learn(8)


class Row(nn.Module):
    """Takes what is stored: entries with a mask as their last column."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.features = 4
        self.shape_seen = leaf.stored_shape
        self.layer = nn.Linear(leaf.stored_shape[-1], 4)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.layer(obs).sum(dim=1)
        return found


def test_an_own_encoder_of_a_sequence_takes_what_is_stored() -> None:
    env = partial(Sampler, gs.Sequence(gs.Box(-1.0, 1.0, (2,))))
    agent = srl.PPO(env, encoders={"": Row}, sequence_length=20, **PPO).learn(8)
    (leaf,) = agent.policy.obs_spec.leaves
    assert (leaf.kind, leaf.stored_shape) == ("sequence", (20, 3))


class Doubled(nn.Module):
    """Says itself how a vector is stored."""

    shape = (2,)

    @staticmethod
    def to_array(value: Any) -> Any:
        return [value.sum(), value.min()]

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        assert (leaf.kind, leaf.shape) == ("own", (2,))
        self.features = 2

    def forward(self, obs: Tensor) -> Tensor:
        return obs * 2.0


def test_a_class_that_makes_arrays_makes_those_of_any_part(tmp_path: Path) -> None:
    space = gs.Dict({"v": VECTOR, "w": VECTOR})
    agent = srl.PPO(partial(Sampler, space), encoders={"v": Doubled}, **PPO).learn(8)
    stored = agent.policy.obs_spec.store(drawn(space, 2), batch=False)
    assert np.allclose(stored["v"], [[drawn(space, 2)["v"].sum(), drawn(space, 2)["v"].min()]])
    loaded = srl.load(agent.save(tmp_path / "own"), encoders={"v": Doubled})
    assert loaded.value(drawn(space, 2)) == agent.value(drawn(space, 2))


class Squeezing(Doubled):
    def forward(self, obs: Tensor) -> Tensor:
        return obs.squeeze()


def test_an_own_encoder_is_tried_on_one_observation_too() -> None:
    with pytest.raises(srl.UserError, match=r"gave torch.float32 \(2,\) for one observation, not float32 \(1, 2\)"):
        srl.PPO(partial(Sampler, VECTOR), encoders={"": Squeezing}, **PPO)


@pytest.mark.parametrize("value", [2, -1])
def test_bits_are_0_or_1(value: int) -> None:
    spec = ObsSpec.of(gs.MultiBinary(3))
    assert spec.store(np.array([1, 0, 1], np.int8), batch=False)[""].tolist() == [[1.0, 0.0, 1.0]]
    with pytest.raises(srl.UserError, match=f"holds {value}, which is outside its multibinary space"):
        spec.store(np.array([1, value, 1], np.int8), batch=False)


def test_half_a_character_cannot_be_saved_and_is_told_before() -> None:
    with pytest.raises(srl.UserError, match="is no Unicode and cannot be saved"):
        srl.PPO(partial(Sampler, gs.Text(3, charset="ab\ud800")), **PPO)


class Reach(gym.Env[Any, Any]):
    """Goals of any kind; pays where the achieved one is the desired one."""

    action_space = gs.Box(-1.0, 1.0, (2,))

    def __init__(self, goal: gs.Space[Any], observation: gs.Space[Any]) -> None:
        self.goal = goal
        self.observation_space = gs.Dict({"observation": observation, "achieved_goal": goal, "desired_goal": goal})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._drawn(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._drawn(), -1.0, False, self.t >= 5, {}

    def _drawn(self) -> Any:
        return drawn(self.observation_space, int(self.np_random.integers(2**31)))

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.abs(np.asarray(achieved, np.float64) - desired).reshape(len(achieved), -1).sum(axis=1)


SAC: dict[str, Any] = {
    "preset": "none", "hindsight": "future", "learning_starts": 12, "batch_size": 8, "buffer_size": 60,
    "net_arch": (8,), "vec": "sync",
}  # fmt: skip


def test_what_is_observed_besides_the_goals_may_have_parts() -> None:
    env = partial(Reach, VECTOR, gs.Dict({"arm": VECTOR, "step": gs.Discrete(3)}))
    assert srl.SAC(env, **SAC).learn(20).loop.counters.updates > 0


@pytest.mark.parametrize("goal", [gs.Text(4), gs.Sequence(gs.Discrete(3, start=4))], ids=["text", "sequence"])
def test_goals_that_are_no_arrays_are_refused(goal: gs.Space[Any]) -> None:
    with pytest.raises(srl.UserError, match="of which hindsight replay cannot make what the environment counts"):
        srl.SAC(partial(Reach, goal, VECTOR), **SAC).learn(20)


class Growing(Sampler):
    """A sequence that gets longer with each step."""

    def __init__(self) -> None:
        super().__init__(gs.Sequence(gs.Discrete(3)))

    def _drawn(self) -> Any:
        return (0,) * (2 * self.t + 1)


@pytest.mark.parametrize(("num_envs", "who"), [(1, "Growing"), (3, "Growing (environment 0)")])
def test_a_sequence_that_outgrows_what_is_kept_fails_the_run_and_names_the_step(num_envs: int, who: str) -> None:
    with pytest.raises(srl.RunFailedError) as failed:
        srl.PPO(Growing, sequence_length=8, num_envs=num_envs, **PPO).learn(24)
    assert "one of length 9, longer than the 8 entries that are kept." in failed.value.message
    assert f"{who}, in step 4 of its episode: An observation is" in failed.value.message
    assert "Train anew with a larger sequence_length" in failed.value.remedy


class Raising(Doubled):
    calls = 0

    @classmethod
    def to_array(cls, value: Any) -> Any:
        cls.calls += 1
        if cls.calls > 8:
            raise LookupError("no such node")
        return super().to_array(value)


def test_whatever_to_array_raises_is_told_with_the_leaf_and_the_step() -> None:
    Raising.calls = 0
    with pytest.raises(srl.UserError) as failed:
        srl.PPO(partial(Sampler, gs.Dict({"v": VECTOR})), num_envs=3, encoders={"v": Raising}, **PPO).learn(24)
    said = "(environment 2), in step 2 of its episode: to_array of the encoder at 'v' failed: LookupError"
    assert f"{said}: no such node" in failed.value.message


class Flat(nn.Module):
    """An array of bytes that is no picture."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.features = 2
        self.layer = nn.Linear(leaf.size, 2)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.layer(obs.flatten(1).float())
        return found


def test_an_array_with_an_encoder_of_its_own_needs_no_layout() -> None:
    space = gs.Box(0, 255, (8, 8, 8), np.uint8)
    with pytest.raises(srl.UserError, match="cannot be told whether channels come first or last"):
        srl.PPO(partial(Sampler, space), **PPO)
    srl.PPO(partial(Sampler, space), encoders={"": Flat}, **PPO).learn(8)


@pytest.mark.parametrize(("algo", "size", "said"), [("ppo", 240, True), ("ppo", 84, False), ("sac", 240, False)])
def test_large_pictures_that_start_slowly_are_said(algo: str, size: int, said: bool) -> None:
    action = gs.Box(-1.0, 1.0, (1,)) if algo == "sac" else gs.Discrete(2)
    env = partial(Sampler, gs.Box(0, 255, (size, size + 80, 3), np.uint8), action)
    options = {"buffer_size": 50} if algo == "sac" else {}
    notices = prepare_training(algo, env, options, preset="none").notices
    assert any("orthogonal initial weights take many seconds" in notice.message for notice in notices) is said


def test_pictures_that_lie_either_way_are_not_stacked_by_guess() -> None:
    env = partial(Sampler, gs.Box(0, 255, (3, 3, 3), np.uint8))
    with pytest.raises(srl.UserError, match=r"frame_stack cannot tell whether the channels of .* \(3, 3, 3\)"):
        srl.PPO(env, frame_stack=2, image_layout="hwc", **PPO)
    wrappers = [{"name": "FrameStackObservation", "kwargs": {"stack_size": 2}}]
    agent = srl.PPO(env, wrappers=wrappers, image_layout="hwc", **PPO).learn(8)
    assert agent.policy.obs_spec.leaves[0].layout == "shwc"
