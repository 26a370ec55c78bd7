"""A restored environment goes on with the bits of the original, or says why it cannot."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

from steadyrl.envs import snapshot
from steadyrl.envs.snapshot import State, block_restore, block_state, how, restore, save
from steadyrl.envs.snapshots.native import save_layers
from steadyrl.envs.snapshots.values import digest
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import RunFailedError, UserError
from support.families import CLASSIC, MUJOCO, TOY
from support.snapshots import (
    Drawing,
    Opaque,
    Outliving,
    Remembering,
    Rich,
    Silent,
    Telling,
    Walk,
    both_go_on,
    follow,
    stored,
)

ALE = ["Pong", "Breakout", "SpaceInvaders"]
MINIGRID = ["MiniGrid-DoorKey-5x5-v0", "MiniGrid-KeyCorridorS3R1-v0"]


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("env_id", [*CLASSIC, *TOY, *MUJOCO, "HalfCheetah-v4", "Ant-v4"])
def test_gymnasiums_own_go_on_alike_natively(env_id: str) -> None:
    assert follow(lambda: gym.make(env_id), points=2, steps=50) == {"native"}


@pytest.mark.parametrize("env_id", ["LunarLander-v3", "LunarLanderContinuous-v3"])
def test_lunar_lander_goes_on_alike_by_running_the_episode_again(env_id: str) -> None:
    assert follow(lambda: gym.make(env_id), points=3, steps=80, between=60) == {"replay"}


@pytest.mark.parametrize("env_id", ["BipedalWalker-v3", "CarRacing-v3"])
def test_box2d_worlds_that_outlive_their_episodes_are_refused_with_the_reason(env_id: str) -> None:
    env = started(lambda: gym.make(env_id))
    assert how(env).kind == "none"
    assert " outlives its episodes" in how(env).reason
    with pytest.raises(RunFailedError, match=r"cannot be saved: .* outlives its episodes"):
        save(env)


@pytest.mark.parametrize("repeat", [0.25, 0.0])
@pytest.mark.parametrize("game", ALE)
def test_atari_goes_on_alike_with_sticky_actions(game: str, repeat: float) -> None:
    needs("ale_py")
    make = atari(game, repeat_action_probability=repeat)
    assert follow(make, points=8 if repeat else 2, steps=15) == {"native"}


def test_atari_goes_on_alike_with_its_usual_wrappers() -> None:
    needs("ale_py")
    needs("cv2")

    def make() -> gym.Env[Any, Any]:
        env = wrappers.AtariPreprocessing(atari("Breakout", frameskip=1)(), terminal_on_life_loss=True)
        return wrappers.FrameStackObservation(env, 4)

    assert follow(make, points=6, steps=20) == {"native"}


@pytest.mark.parametrize("env_id", MINIGRID)
def test_minigrid_goes_on_alike_natively(env_id: str) -> None:
    needs("minigrid")
    assert follow(lambda: gym.make(f"minigrid:{env_id}"), points=3) == {"native"}


@pytest.mark.soak
@pytest.mark.parametrize("env_id", [*CLASSIC, *TOY, *MUJOCO, "LunarLander-v3"])
def test_two_hundred_points_go_on_alike(env_id: str) -> None:
    assert len(follow(lambda: gym.make(env_id), points=200, steps=100)) == 1


@pytest.mark.parametrize(
    ("make", "kind"), [(Walk, "native"), (Rich, "native"), (Telling, "native"), (Drawing, "native"), (Opaque, "replay")]
)
def test_a_custom_one_goes_on_alike(make: Callable[[], gym.Env[Any, Any]], kind: str) -> None:
    process = np.random.get_state(legacy=False)  # `Drawing` shares it with everybody
    try:
        if make is Drawing:
            one = started(make)
            state = stored(save(one))
            first = [one.step(1) for _ in range(5)]
            other = Canonical(make())
            restore(other, state)
            assert [str(other.step(1)) for _ in range(5)] == [str(result) for result in first]
            assert "process" in state.holds
        else:
            assert follow(make, points=8) == {kind}
    finally:
        np.random.set_state(process)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Remembering, "an observation or a reward at reset is another one"),
        (Silent, "the environment differs at episode"),
    ],
)
def test_one_that_remembers_earlier_episodes_is_found(make: Callable[[], Any], words: str) -> None:
    env = started(make)
    assert how(env).kind == "replay"
    assert f"{make.__name__}.steps is a itertools.count, whose state cannot be read" in how(env).reason
    env.reset()
    env.step(1)
    state = stored(save(env))
    assert state.kind == "replay"
    with pytest.raises(RunFailedError, match=rf"{make.__name__} was not reached again exactly.*{words}"):
        restore(Canonical(make()), state)


def test_what_outlives_its_episodes_unread_is_refused_beforehand() -> None:
    env = started(Outliving)
    assert how(env).kind == "none"
    assert "Outliving.episodes outlives its episodes" in how(env).reason


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: wrappers.FrameStackObservation(env, 3),
        lambda env: wrappers.FrameStackObservation(env, 3, padding_type="zero"),
        wrappers.RecordEpisodeStatistics,
        wrappers.NormalizeObservation,
        wrappers.NormalizeReward,
        lambda env: wrappers.DelayObservation(env, 2),
        lambda env: wrappers.StickyAction(env, 0.5),
        wrappers.TimeAwareObservation,
        lambda env: wrappers.MaxAndSkipObservation(env, 3),
        lambda env: wrappers.TransformObservation(env, lambda obs: obs * np.pi, env.observation_space),
        lambda env: wrappers.TransformReward(env, lambda reward: float(reward) / 3),
        lambda env: wrappers.TimeLimit(env, 7),
        lambda env: wrappers.FlattenObservation(wrappers.FrameStackObservation(env, 2)),
    ],
)
@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v3"])
def test_every_wrapper_goes_on_alike(env_id: str, wrap: Callable[[Any], gym.Env[Any, Any]]) -> None:
    kind = "native" if env_id == "CartPole-v1" else "replay"
    assert follow(lambda: wrap(gym.make(env_id)), points=3, steps=30) == {kind}


@pytest.mark.parametrize(
    "wrap", [wrappers.ClipAction, lambda env: wrappers.RescaleAction(env, np.float32(-3), np.float32(3))]
)
def test_wrappers_of_actions_go_on_alike(wrap: Callable[[Any], gym.Env[Any, Any]]) -> None:
    assert follow(lambda: wrap(gym.make("Pendulum-v1")), points=2) == {"native"}


def test_an_unknown_wrapper_with_something_opaque_is_replayed() -> None:
    class Odd(gym.Wrapper[Any, Any, Any, Any]):
        def reset(self, **arguments: Any) -> Any:
            self.calls = iter(range(10**6))
            return super().reset(**arguments)

        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            return obs + next(self.calls), reward, terminated, truncated, info

    assert follow(lambda: Odd(gym.make("CartPole-v1")), points=3) == {"replay"}


def test_a_fresh_process_goes_on_alike(tmp_path: Path) -> None:
    original = {}
    for env_id in ("CartPole-v1", "LunarLander-v3", "Hopper-v5"):
        env = Canonical(gym.make(env_id))
        env.action_space.seed(0)
        env.reset(seed=1)
        actions = [env.action_space.sample() for _ in range(40)]
        for action in actions[:20]:
            if any(env.step(action)[2:4]):
                env.reset()
        packed, arrays = snapshot.flatten(save(env).value())
        (tmp_path / f"{env_id}.json").write_text(json.dumps(packed))
        for i, array in enumerate(arrays.values()):
            np.save(tmp_path / f"{env_id}-{i}.npy", array)
        original[env_id] = digest_of(env, actions[20:])
        (tmp_path / f"{env_id}.names").write_text(json.dumps([list(arrays), np.array(actions[20:]).tolist()]))
    code = Path(__file__).with_name("_continue_snapshot.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    told = subprocess.run(
        [sys.executable, str(code), str(tmp_path), *original],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(told.stdout.splitlines()[-1]) == original


def digest_of(env: Canonical, actions: Any) -> str:
    """All that happens under these actions, in one hash."""
    seen: list[Any] = []
    for action in actions:
        result = env.step(action)
        seen.append(result[:4])
        if result[2] or result[3]:
            seen.append(env.reset()[0])
    return digest(seen)


def test_own_protocol_beats_what_cannot_be_read() -> None:
    env = started(Telling)
    assert how(env) == ("native", "")
    assert "set_state" not in str(save(env).content["layers"][0].get("attributes", {}))


def test_an_own_get_state_that_fails_is_named() -> None:
    class Failing(Telling):
        def get_state(self) -> dict[str, Any]:
            raise ValueError("no state today")

    with pytest.raises(RunFailedError, match=r"Failing raised ValueError: no state today"):
        save(started(Failing))


def test_an_own_set_state_that_does_not_restore_is_found() -> None:
    class Forgetful(Telling):
        def set_state(self, state: dict[str, Any]) -> None:
            super().set_state(state)
            self.step_count += 1

    state = save(started(Forgetful))
    with pytest.raises(
        RunFailedError, match=r"Forgetful was not restored exactly: read again it differs at .*step_count"
    ):
        restore(Canonical(Forgetful()), state)


def test_arrays_that_share_memory_are_not_taken_apart() -> None:
    class Sharing(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.whole = np.zeros(4)
            self.part = self.whole[:2]

    assert how(started(Sharing)) == ("replay", "Sharing.part and Sharing.whole share memory")


def test_one_array_under_two_names_stays_one() -> None:
    class Twice(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.one = self.other = np.zeros(2)

    copy: Any = Canonical(Twice())
    restore(copy, stored(save(started(Twice))))
    assert copy.unwrapped.one is copy.unwrapped.other


def test_a_constructor_that_differs_is_found() -> None:
    class Scaled(Walk):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.observe = lambda: scale

    state = save(started(lambda: Scaled(2.0)))
    with pytest.raises(RunFailedError, match=r"Scaled was not restored exactly: read again it differs at .*observe"):
        restore(Canonical(Scaled(3.0)), state)


def test_a_changed_mujoco_model_is_found() -> None:
    state = save(started(lambda: gym.make("Hopper-v5")))
    other: Any = Canonical(gym.make("Hopper-v5"))
    other.unwrapped.model.body_mass[1] += 0.5
    with pytest.raises(RunFailedError, match=r"differs at HopperEnv.model"):
        restore(other, state)


def test_a_mujoco_environment_of_ones_own_is_replayed() -> None:
    class Lazy(HalfCheetahEnv):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)  # type: ignore[no-untyped-call]
            return obs, reward - len(self.data.contact), terminated, truncated, info

    assert follow(lambda: wrappers.TimeLimit(Lazy(), 50), points=3, between=40) == {"replay"}


@pytest.mark.parametrize("flip", ["obs", "action", "generator"])
def test_a_replay_that_goes_another_way_is_found(flip: str) -> None:
    env = started(lambda: gym.make("LunarLander-v3"))
    for _ in range(70):
        env.step(np.int64(0))
    content = save(env).content
    if flip == "obs":
        content["canonical"]["last"][0] += np.float32(1e-6)
    elif flip == "action":
        content["canonical"]["trace"]["actions"][66] = 2
    else:
        content["inside"]["_np_random"]["~generator"]["~bits"]["state"]["state"]["state"] += 1
    words = {
        "obs": "the observation after 70 steps is another one",
        "action": "in steps 65 to 70 is another one",
        "generator": "the environment differs at _np_random",
    }[flip]
    with pytest.raises(RunFailedError, match=words):
        restore(Canonical(gym.make("LunarLander-v3")), State.made("replay", env.name, content))


def test_a_replay_keeps_the_generators_of_spaces() -> None:
    env = started(lambda: gym.make("LunarLander-v3"))
    drawn = [env.action_space.sample() for _ in range(5)]
    copy = Canonical(gym.make("LunarLander-v3"))
    restore(copy, stored(save(env)))
    following = [copy.action_space.sample() for _ in range(20)]
    assert following == [env.action_space.sample() for _ in range(20)]
    assert following[:5] != drawn


def test_every_changed_bit_of_a_state_is_found() -> None:
    value = save(started(lambda: gym.make("CartPole-v1"))).value()
    value["content"]["layers"][-1]["attributes"]["state"][0] += 1e-16
    with pytest.raises(UserError, match=r"its checksum does not fit its content"):
        State.of(value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "its format is 2"),
        ({"kind": "none"}, "a field is of another type"),
        ({"more": 1}, "unknown ones"),
        ({"env_id": "x"}, "its checksum"),
    ],
)
def test_what_is_no_state_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        State.of(save(started(Walk)).value() | change)


def test_a_state_of_another_environment_is_refused() -> None:
    state = save(started(lambda: gym.make("CartPole-v1")))
    with pytest.raises(UserError, match=r"of the environment CartPole-v1, and this is Pendulum-v1"):
        restore(Canonical(gym.make("Pendulum-v1")), state)
    with pytest.raises(UserError, match=r"TimeLimit > .* but the environment CartPole-v1 is .*OrderEnforcing"):
        restore(Canonical(gym.make("CartPole-v1").get_wrapper_attr("env")), state)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"~ref": 10**6}, "list index out of range"),
        ({"~evil": 1}, "~evil"),
        ({"~object": "os:system", "attributes": {}}, "the class os:system is unknown"),
        ({"~object": "subprocess:Popen", "attributes": {}}, "the class subprocess:Popen is unknown"),
        ({"~enum": "gymnasium.core:Env", "member": "x"}, "is no enumeration"),
        ({"~namedtuple": "gymnasium.core:Env", "entries": []}, "is no named tuple"),
        ({"~method": "__class__", "of": {"~layer": 0}}, "__class__ is no method"),
        ({"~foreign": "mujoco.MjData", "state": {}}, "no mujoco.MjData is there"),
        ({"~generator": 5}, ""),
        ({"~bits": {"kind": "seed", "state": {}, "seeds": None}}, "seed"),
    ],
)
def test_a_made_up_state_is_refused_in_words(node: Any, words: str) -> None:
    content = save(started(lambda: gym.make("CartPole-v1"))).content
    content["layers"][-1]["attributes"]["steps_beyond_terminated"] = node
    with pytest.raises(UserError, match=r"cannot be put back at CartPoleEnv\.steps_beyond_terminated") as raised:
        restore(Canonical(gym.make("CartPole-v1")), State.made("native", "CartPole-v1", content))
    assert words in raised.value.message


def test_an_episode_too_long_to_keep_cannot_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steadyrl.envs.wrappers.MAX_ACTIONS", 3)
    env = started(Opaque)
    for _ in range(3):
        env.step(1)
    assert how(env).kind == "replay"
    env.step(1)
    assert how(env).kind == "none"
    with pytest.raises(RunFailedError, match=r"cannot be saved: .* longer than the"):
        save(env)


def test_actions_that_the_environment_writes_into_are_kept_as_they_were() -> None:
    class Writing(Opaque):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

        def step(self, action: Any) -> Any:
            result = super().step(action[0])
            action[:] = 0.0
            return result

    assert follow(Writing, points=3) == {"replay"}


def test_saving_changes_nothing() -> None:
    for make in (Rich, Opaque, lambda: gym.make("HalfCheetah-v5")):
        one, other = started(make), started(make)
        for _ in range(10):
            save(one)
            save(one)
            both_go_on(one, other, 3)


def test_save_restore_save_is_the_same_state() -> None:
    env = started(Rich)
    first = save(env)
    copy = Canonical(Rich())
    restore(copy, stored(first))
    assert save(copy) == first or save(copy).checksum == first.checksum


@pytest.mark.parametrize("make", [Rich, lambda: HalfCheetahEnv()], ids=["Rich", "HalfCheetah"])
def test_a_state_keeps_its_checksum_between_processes(make: Callable[[], Any]) -> None:
    """Pickling forgets that an array is read-only."""
    env = started(make)
    table = np.arange(3.0)
    table.flags.writeable = False
    vars(env.env.unwrapped)["table_of_mine"] = table
    value = pickle.loads(pickle.dumps(save(env).value()))
    copy = Canonical(make())
    restore(copy, State.of(value))
    assert not vars(copy.env.unwrapped)["table_of_mine"].flags.writeable
    assert save(copy).checksum == value["checksum"]


def test_a_block_is_saved_and_restored_in_order() -> None:
    envs = [started(Walk, seed) for seed in (1, 2)]
    fresh = [Canonical(Walk()) for _ in range(2)]
    rows = block_restore(fresh, block_state(envs))
    np.testing.assert_equal(rows, [env.last for env in envs])
    with pytest.raises(UserError, match=r"2 states for 1 environments"):
        block_restore(fresh[:1], block_state(envs))


def test_what_is_saved_does_not_follow_the_environment() -> None:
    env = started(Rich)
    before = save_layers(env.env, "Rich")["layers"][0]["attributes"]
    table, cells = str(before["table"]), str(before["cells"])
    for _ in range(5):
        env.step(1)
    assert (str(before["table"]), str(before["cells"])) == (table, cells)


def atari(game: str, **kwargs: Any) -> Callable[[], gym.Env[Any, Any]]:
    gym.register_envs(importlib.import_module("ale_py"))
    return lambda: gym.make(f"ALE/{game}-v5", **kwargs)


def started(make: Callable[[], Any], seed: int = 0) -> Canonical:
    env = Canonical(make())
    env.action_space.seed(0)
    env.reset(seed=seed)
    return env
