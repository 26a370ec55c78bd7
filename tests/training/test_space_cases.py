"""Cases 1, 8, 16 and 17 for every kind of leaf in every place of a tree, with answers that the environment kept."""

from __future__ import annotations

import copy
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

import steadyrl as srl
from steadyrl.errors import UserError
from steadyrl.spaces import ActionTree
from steadyrl.training.off_policy import OffPolicyLoop
from support.trees import ACTIONS, LEAVES, PATHS, PLACES, VECTOR, Sampler, drawn, equal

IMAGES = {
    "grey": gs.Box(0, 255, (6, 5), np.uint8),
    "hwc": gs.Box(0, 255, (6, 5, 3), np.uint8),
    "chw": gs.Box(0, 255, (3, 5, 6), np.uint8),
}
OFF: dict[str, Any] = {
    "learning_starts": 100, "buffer_size": 200, "batch_size": 4, "net_arch": (4,), "eval_freq": 0, "preset": "none",
    "vec": "sync", "seed": 3,
}  # fmt: skip
everywhere = pytest.mark.parametrize(("leaf", "place"), list(product(LEAVES, PLACES)))


class Told(Sampler):
    """Keeps what it showed, a list for each episode; a limit ends each after three steps.

    Attributes:
        episodes: Observations of each episode, the final one among them.
    """

    def __init__(self, *spaces: gs.Space[Any]) -> None:
        super().__init__(*spaces)
        self.episodes: list[list[Any]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        self.episodes.append([copy.deepcopy(obs)])
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, _, info = super().step(action)
        self.episodes[-1].append(copy.deepcopy(obs))
        return obs, reward, terminated, self.t == 3, info


def told_to(agent: Any, env: Told, steps: int) -> tuple[Any, list[tuple[Any, Any]]]:
    """What the replay holds after some steps, and the pairs of observations that the environment showed."""
    env.episodes.clear()
    agent.learn(steps)
    agent.close()
    loop = agent.loop
    assert isinstance(loop, OffPolicyLoop)
    pairs = [pair for episode in env.episodes for pair in pairwise(episode)]
    return loop.replay.gather(loop.replay.indices()), pairs


@everywhere
@pytest.mark.parametrize("n_step", [1, 2])
def test_case_8_a_limit_at_step_3_keeps_the_true_final_observation(leaf: str, place: str, n_step: int) -> None:
    space = PLACES[place](LEAVES[leaf])
    env = Told(space)
    agent = srl.DQN(env, **OFF, n_step=n_step)
    batch, pairs = told_to(agent, env, 12)
    store = partial(agent.policy.obs_spec.store, batch=False)
    assert len(batch.index) >= len(pairs) - (n_step - 1)
    assert len(env.episodes) >= 4
    for row in range(len(batch.index)):
        last = min(row + n_step - 1, row - row % 3 + 2)  # an episode has three steps, and no window leaves it
        for found, true in ((batch.obs, pairs[row][0]), (batch.next_obs, pairs[last][1])):
            for path, leaf_array in store(true).items():
                np.testing.assert_array_equal(found[path][row], leaf_array[0], err_msg=f"{path} of row {row}")
    assert not batch.terminated.any()


@pytest.mark.parametrize("frames", [2, 4])
@pytest.mark.parametrize("image", IMAGES)
def test_case_8_with_each_frame_kept_once(image: str, frames: int) -> None:
    env = Told(IMAGES[image])
    agent = srl.DQN(env, **OFF, frame_stack=frames)
    batch, _ = told_to(agent, env, 12)
    loop: Any = agent.loop
    assert "frames" in loop.replay.rings
    last = image != "chw"

    def stack(episode: list[Any], t: int) -> Any:
        shown = [episode[max(t - back, 0)] for back in reversed(range(frames))]
        parts = [part[..., None] if image == "grey" else part for part in shown]
        whole = np.concatenate(parts, axis=-1 if last else 0)
        return agent.policy.obs_spec.store(np.moveaxis(whole, -1, 0) if image == "grey" else whole, batch=False)[""][0]

    for row in range(len(batch.index)):
        episode, t = env.episodes[row // 3], row % 3
        np.testing.assert_array_equal(batch.obs[""][row], stack(episode, t))
        np.testing.assert_array_equal(batch.next_obs[""][row], stack(episode, t + 1))


@pytest.mark.parametrize(
    ("shape", "stacked", "layout"),
    [
        ((7, 7, 3), (7, 7, 12), "hwc"),  # more channels than pixels a side
        ((12, 10, 3), (12, 10, 12), "hwc"),  # as many
        ((3, 9, 12), (12, 9, 12), "chw"),
        ((6, 5, 2), (6, 5, 8), "hwc"),
        ((6, 5), (4, 6, 5), "chw"),
    ],
    ids=str,
)
def test_stacked_frames_are_read_as_they_were_stacked(
    shape: tuple[int, ...], stacked: tuple[int, ...], layout: str, tmp_path: Path
) -> None:
    make = partial(Sampler, gs.Box(0, 255, shape, np.uint8))
    on: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "net_arch": (4,), "eval_freq": 0, "preset": "none"}
    agent = srl.PPO(make, frame_stack=4, **on)
    (leaf,) = agent.policy.obs_spec.leaves
    assert (leaf.kind, leaf.shape, leaf.layout) == ("image", stacked, layout)
    loaded = srl.load(agent.save(tmp_path / "policy"), env=make)
    assert loaded.policy.obs_spec.leaves == (leaf,)
    loaded.learn(8)
    other = "chw" if layout == "hwc" else "hwc"
    with pytest.raises(UserError, match=f"image_layout is '{other}', but frame_stack reads the frames as '{layout}'"):
        srl.PPO(make, frame_stack=4, image_layout=other, **on)
    srl.PPO(make, frame_stack=4, image_layout=layout, **on)


@everywhere
def test_case_17_only_vectors_are_normalised_and_spaces_stay(leaf: str, place: str) -> None:
    space = PLACES[place](LEAVES[leaf])
    env, before = Told(space), copy.deepcopy(space)
    agent = srl.PPO(env, n_steps=12, batch_size=12, net_arch=(4,), normalize_obs=True, eval_freq=0, preset="none")
    env.episodes.clear()
    agent.learn(12)
    agent.close()
    assert env.observation_space is space
    assert space == before
    normalizer = agent.policy.normalizer
    assert normalizer is not None
    vectors = {path for path, part in agent.policy.obs_spec.by_path.items() if part.kind == "box"}
    assert set(normalizer.statistics) == vectors
    assert (PATHS[place] in vectors) == (leaf in ("vector", "float64-matrix", "integers"))
    shown = [obs for episode in env.episodes for obs in episode[:-1]]
    stored = [agent.policy.obs_spec.store(obs, batch=False) for obs in shown[:12]]
    for path, statistic in normalizer.statistics.items():
        values = np.concatenate([tree[path] for tree in stored]).astype(np.float64)
        assert statistic.count == 12
        np.testing.assert_allclose(statistic.mean, values.mean(axis=0), rtol=1e-6, atol=1e-7)
    own = drawn(space, 5)
    tree = agent.policy.obs_spec.store(own, batch=False)
    kept = copy.deepcopy(tree)
    normalised = agent.policy.normalise(tree)
    for path in tree.keys() - vectors:
        assert normalised[path] is tree[path]
    for path, array in tree.items():
        np.testing.assert_array_equal(array, kept[path])
        assert array.dtype == kept[path].dtype


@pytest.mark.parametrize(
    ("action", "place", "vec"),
    [*product(ACTIONS, PLACES, ["sync"]), ("discrete", "nested", "async"), ("multidiscrete", "tuple", "async")],
)
def test_cases_1_and_16_the_environment_gets_its_own_actions(action: str, place: str, vec: str) -> None:
    """`Sampler` refuses actions outside its own space; what is predicted, saved and loaded is of it too."""
    space = PLACES[place](ACTIONS[action])
    before = copy.deepcopy(space)
    agent = srl.A2C(
        partial(Sampler, VECTOR, space), n_steps=8, num_envs=2, net_arch=(4,), vec=vec, eval_freq=0, preset="none"
    )
    agent.learn(48)
    agent.close()
    assert space == before
    spec = agent.policy.action_spec
    for seed in range(5):
        obs = drawn(VECTOR, seed)
        for deterministic in (False, True):
            taken = agent.predict(obs, deterministic=deterministic)[0]
            assert space.contains(taken), f"{taken!r} is not in {space}"
            parts = spec.tree.flat(taken) if isinstance(spec, ActionTree) else {"": taken}
            path = PATHS[place]
            assert np.asarray(parts[path]).dtype == ACTIONS[action].dtype
            assert np.asarray(parts[path]).shape == ACTIONS[action].shape


@pytest.mark.parametrize("algo", [srl.DQN, srl.SAC])
@pytest.mark.parametrize("start", [-1, 0, 7])
@pytest.mark.parametrize("place", PLACES)
def test_case_1_whatever_is_observed(algo: Any, start: int, place: str) -> None:
    """At random and by the policy, every action of an integer space that does not begin at 0."""
    env = Sampler(PLACES[place](LEAVES["multidiscrete"]), gs.Discrete(3, start=start))
    agent = algo(env, **{**OFF, "learning_starts": 24})
    agent.learn(60)
    agent.close()
    assert set(map(int, env.taken[:24])) == {start, start + 1, start + 2}
    assert set(map(int, env.taken[24:])) <= {start, start + 1, start + 2}


def test_case_16_integers_of_any_shape_reach_the_network_as_one_hot_codes() -> None:
    """Two observations that differ in one entry differ in its two codes only, wherever the leaf is."""
    for place in PLACES:
        space = PLACES[place](LEAVES["multidiscrete"])
        agent = srl.PPO(partial(Sampler, space), n_steps=8, batch_size=8, net_arch=(4,), eval_freq=0, preset="none")
        spec = agent.policy.obs_spec
        one, other = drawn(space, 1), drawn(space, 1)
        assert equal(one, other)
        tree = spec.store(one, batch=False)
        changed = {path: array.copy() for path, array in tree.items()}
        flat = changed[PATHS[place]].reshape(-1)
        flat[1] = (flat[1] + 1) % 3
        encoder: Any = agent.policy.net.encoder
        codes = [encoder({path: torch.as_tensor(array) for path, array in part.items()}) for part in (tree, changed)]
        difference = (codes[0] - codes[1])[0]
        assert sorted(difference[difference != 0].tolist()) == [-1.0, 1.0]
        assert spec.by_path[PATHS[place]].nvec == (2, 3)


@pytest.mark.parametrize("entry", [gs.Box(-1.0, 1.0, (2,)), gs.Discrete(5, start=2), gs.MultiBinary(3)], ids=str)
@pytest.mark.parametrize("place", PLACES)
def test_a_sequence_that_comes_as_one_array_is_stored_like_one_that_does_not(entry: Any, place: str) -> None:
    one, other = (PLACES[place](gs.Sequence(entry, stack=stack)) for stack in (False, True))
    specs = [srl.PPO(partial(Sampler, space), preset="none").policy.obs_spec for space in (one, other)]
    for seed in range(4):
        trees = [spec.store(drawn(space, seed), batch=False) for spec, space in zip(specs, (one, other), strict=True)]
        np.testing.assert_array_equal(trees[0][PATHS[place]], trees[1][PATHS[place]])
