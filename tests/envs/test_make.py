"""Environments from ids, files, callables and instances, and the errors on the way."""

from __future__ import annotations

import builtins
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.registration import registry

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.vector import make_vec
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import Ending, UserError, install
from support.envs import ConstantReward
from support.faulty_envs import OldGym, OldReset


def length_of(env: gym.Env[Any, Any], limit: int = 50) -> int:
    """Steps until an episode is truncated."""
    env.reset(seed=0)
    for t in range(1, limit + 1):
        if env.step(env.action_space.sample())[3]:
            return t
    return limit


def refusal(env: Any, **settings: Any) -> UserError:
    """The error of making this environment."""
    with pytest.raises(UserError) as caught:
        make_env_factory(env, **settings)()
    return caught.value


def test_an_id_is_the_environment_of_gymnasium() -> None:
    factory = make_env_factory("CartPole-v1")
    env = factory()
    assert isinstance(env, Canonical)
    assert (factory.id, factory.spec.max_episode_steps, factory.spec.reward_threshold) == ("CartPole-v1", 500, 475.0)
    plain = gym.make("CartPole-v1")
    np.testing.assert_array_equal(env.reset(seed=3)[0], plain.reset(seed=3)[0])
    for action in (0, 1, 1):
        np.testing.assert_array_equal(env.step(action)[0], plain.step(action)[0])
    assert not any(isinstance(layer, gym.wrappers.PassiveEnvChecker) for layer in _layers(env))


def _layers(env: Any) -> Iterator[Any]:
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


@pytest.mark.parametrize(
    "env",
    ["CartPole-v1", lambda: gym.make("CartPole-v1"), ConstantReward, lambda: ConstantReward(40), ConstantReward(40)],
)
def test_a_limit_of_ones_own(env: Any) -> None:
    factory = make_env_factory(env, max_episode_steps=4)
    assert factory.spec.max_episode_steps == 4
    assert length_of(factory()) == 4


def test_a_limit_replaces_the_registered_one() -> None:
    assert make_env_factory("MountainCar-v0", max_episode_steps=300)().spec.max_episode_steps == 300
    assert length_of(make_env_factory("MountainCar-v0", max_episode_steps=210)(), 250) == 210


def test_a_limit_behind_a_smaller_one_is_refused() -> None:
    error = refusal(lambda: gym.make("MountainCar-v0"), max_episode_steps=300)
    assert "TimeLimit of 200" in error.message
    assert refusal("CartPole-v1", max_episode_steps=0).code == "max-episode-steps"


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("CartPol-v1", "There is no environment 'CartPol-v1'", "Did you mean CartPole-v1"),
        ("Half-Cheetah-v5", "There is no environment", "HalfCheetah-v5"),
        ("Zzzzzzzz", "There is no environment 'Zzzzzzzz'", "package.module:Id-v0"),
        ("a b c", "There is no environment 'a b c'", "An id looks like CartPole-v1"),
        ("CartPole-v9", "has no version v9; there are CartPole-v0, CartPole-v1", "Use CartPole-v1"),
        ("LunarLander-v2", "has no version v2; there is LunarLander-v3", "Use LunarLander-v3"),
        ("CartPole", "names no version; there are CartPole-v0, CartPole-v1", "Use CartPole-v1"),
        pytest.param(
            *("ALE/Pong-v5", "namespace 'ALE'", "pip install ale-py"),
            marks=pytest.mark.skipif(find_spec("ale_py") is not None, reason="ale-py is installed"),
        ),
        ("tabluar/Blackjack-v0", "namespace 'tabluar'", "tabular"),
        ("no_such_module:Env-v0", "module 'no_such_module'", "Install its package"),
        ("FetchReach-v4", "There is no environment 'FetchReach-v4'", "package.module:Id-v0"),
        ("gymnasium.envs:CartPol-v1", "There is no environment 'CartPol-v1'", "CartPole-v1"),
        ("nowhere.py:Thing", "There is no file", "path/to/file.py:ClassName"),
        ("Hopper-v2", "'Hopper-v2' cannot be loaded", ""),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(name: str, message: str, remedy: str) -> None:
    error = refusal(name)
    assert message in error.message
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("name", "package", "module", "extra"),
    [
        ("LunarLander-v3", "Box2D", "gymnasium.envs.box2d", "box2d"),
        ("HalfCheetah-v5", "mujoco", "gymnasium.envs.mujoco", "mujoco"),
    ],
)
def test_a_missing_extra_is_named(
    name: str, package: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == package or m.startswith(module)]:
        monkeypatch.delitem(sys.modules, loaded)
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    error = refusal(name)
    assert (error.code, error.remedy) == ("missing-package", f"Install it: {install(extra)}.")
    assert name in error.message


class WithoutModes(ConstantReward):
    """Gymnasium warns about its metadata."""

    metadata: dict[str, Any] = {}  # noqa: RUF012


def test_old_versions_and_thin_metadata_are_taken_without_a_word(
    recwarn: pytest.WarningsRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    make_env_factory("CartPole-v0")()
    gym.register("WithoutModes-v0", cast("Any", WithoutModes))
    make_env_factory("WithoutModes-v0")()
    del registry["WithoutModes-v0"]
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


def test_warnings_of_the_environment_itself_stay() -> None:
    class Warns(ConstantReward):
        def __init__(self) -> None:
            super().__init__()
            warnings.warn("the arm is not calibrated", stacklevel=1)

    with pytest.warns(UserWarning, match="calibrated"):
        make_env_factory(Warns)()


def test_arguments_reach_the_environment() -> None:
    assert make_env_factory("Pendulum-v1", env_kwargs={"g": 3.0})().unwrapped.g == 3.0  # type: ignore[attr-defined]
    assert length_of(make_env_factory(ConstantReward, env_kwargs={"horizon": 6})()) == 6


@pytest.mark.parametrize(
    ("env", "kwargs", "message", "remedy"),
    [
        ("Pendulum-v1", {"gg": 1}, "Pendulum-v1", "Did you mean g?"),
        ("HalfCheetah-v5", {"ctrl_cost_wight": 1}, "ctrl_cost_wight", ""),
        (ConstantReward, {"horizn": 1}, "horizn", "Did you mean horizon?"),
        (lambda size: ConstantReward(size), {}, "missing a required argument: 'size'", "size"),
        (ConstantReward(), {"horizon": 1}, "already made", "Pass its id"),
    ],
)
def test_a_wrong_argument_is_named(env: Any, kwargs: dict[str, Any], message: str, remedy: str) -> None:
    error = refusal(env, env_kwargs=kwargs)
    assert error.code == "env-kwargs"
    assert message in error.message
    assert remedy in error.remedy


def test_a_failing_constructor_is_told() -> None:
    def broken() -> gym.Env[Any, Any]:
        raise OSError("no such robot")

    error = refusal(broken)
    assert (error.code, error.message) == ("env-make", "Making the environment broken raised OSError: no such robot")
    assert isinstance(error.__cause__, OSError)


def test_a_constructor_that_fails_without_a_word_is_told_by_its_line() -> None:
    def broken() -> gym.Env[Any, Any]:
        raise AssertionError

    message = refusal(broken).message
    assert re.fullmatch(
        r"Making the environment broken raised AssertionError: test_make\.py, line \d+: raise AssertionError", message
    )


def _from_old_gym() -> type:
    base = type("Env", (OldGym,), {"__module__": "gym.core"})
    return type("Robot", (base,), {"__module__": "robots"})


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (_from_old_gym(), "Robot) is an environment of the old gym package"),
        (_from_old_gym()(), "Robot) is an environment of the old gym package"),
        (lambda: _from_old_gym()(), "Robot) is an environment of the old gym package"),
        (OldGym, "OldGym) is no gymnasium.Env"),
        (OldGym(), "OldGym) is no gymnasium.Env"),
    ],
)
def test_an_environment_of_old_gym_is_refused_with_the_cure(env: Any, said: str) -> None:
    for settings in ({}, {"max_episode_steps": 3}):
        error = refusal(env, **settings)
        assert error.code == "old-gym"
        assert said in error.message
        assert "gymnasium.Env" in error.remedy


@pytest.mark.parametrize("env", [3, None, lambda: "CartPole-v1", dict])
def test_what_is_no_environment_is_refused(env: Any) -> None:
    assert refusal(env).code == "env-type"


def test_an_instance_is_handed_out_once_and_made_again_by_its_recipe() -> None:
    env = gym.make("CartPole-v1", max_episode_steps=7)
    factory = make_env_factory(env)
    assert (factory.id, factory.can_remake, factory.is_instance) == ("CartPole-v1", True, True)
    assert factory().unwrapped is env.unwrapped
    with pytest.raises(UserError, match="already in use"):
        factory()
    again = factory.remake()()
    assert again.unwrapped is not env.unwrapped
    assert again.spec.max_episode_steps == 7


def test_an_instance_without_a_recipe_cannot_be_made_again() -> None:
    class Unrecorded(gym.Wrapper[Any, Any, Any, Any]):
        pass

    for env in (ConstantReward(), Unrecorded(gym.make("CartPole-v1"))):
        factory = make_env_factory(env)
        assert not factory.can_remake
        with pytest.raises(UserError, match="does not say how to make another"):
            factory.remake()


def test_other_factories_make_as_many_as_wanted() -> None:
    for env in ("CartPole-v1", ConstantReward, lambda: ConstantReward()):
        factory = make_env_factory(env)
        assert factory.can_remake
        assert factory.remake() is factory
        assert factory().unwrapped is not factory().unwrapped
        assert make_env_factory(factory) is factory


def test_a_file_and_its_neighbours_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "neighbour_of_walls.py").write_text("HORIZON = 3\n")
    (tmp_path / "walls.py").write_text(
        "from neighbour_of_walls import HORIZON\nfrom support.envs import ConstantReward\n\n"
        "class Walls(ConstantReward):\n    def __init__(self, extra=0):\n        super().__init__(HORIZON + extra)\n"
    )
    monkeypatch.chdir(tmp_path)
    factory = make_env_factory("walls.py:Walls", env_kwargs={"extra": 2})
    assert factory.id == "walls.py:Walls"
    assert length_of(factory()) == 5
    copy = cloudpickle.loads(cloudpickle.dumps(factory))
    monkeypatch.chdir("/")
    assert length_of(copy()) == 5
    monkeypatch.chdir(tmp_path)
    assert refusal("walls.py:Wals").remedy == "Did you mean Walls?"
    (tmp_path / "crooked.py").write_text("1 / 0\n")
    assert "crooked.py for 'crooked.py:X' raised ZeroDivisionError" in refusal("crooked.py:X").message.replace(
        f"{tmp_path}/", ""
    )


def test_a_module_registers_its_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doors_and_keys.py").write_text(
        "import gymnasium as gym\nfrom support.envs import ConstantReward\n"
        "gym.register('Doors-v2', ConstantReward, max_episode_steps=3)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    factory = make_env_factory("doors_and_keys:Doors-v2")
    # The id names the module, without which another process does not find it.
    assert (factory.id, length_of(factory())) == ("doors_and_keys:Doors-v2", 3)
    del registry["Doors-v2"]


def test_pictures_come_when_asked_for() -> None:
    def takes(render_mode: str | None = None) -> gym.Env[Any, Any]:
        return gym.make("CartPole-v1", render_mode=render_mode)

    for env in ("CartPole-v1", takes):
        made = make_env_factory(env)(render_mode="rgb_array")
        made.reset(seed=0)
        assert np.asarray(made.render()).shape == (400, 600, 3)
        made.close()
    factory = make_env_factory(lambda: gym.make("CartPole-v1"))
    with pytest.raises(UserError, match="render_mode=None"):
        factory(render_mode="rgb_array")


def test_a_factory_makes_old_classes_whose_faults_show_at_the_reset() -> None:
    env = make_env_factory(OldReset)()
    with pytest.raises(UserError, match=r"reset\(\) of OldReset returned one ndarray"):
        env.reset()


class NoSpaces(gym.Env[Any, Any]):
    """The commonest error of a beginner."""


@pytest.mark.parametrize("limit", [None, 5])
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, "NoSpaces has no observation_space"),
        ({"observation_space": None, "action_space": gym.spaces.Discrete(2)}, "has no observation_space"),
        ({"observation_space": gym.spaces.Discrete(2)}, "has no action_space"),
        ({"observation_space": gym.spaces.Discrete(2), "action_space": 2}, "the action_space 2, which is no gymnasium"),
        ({"observation_space": (4,), "action_space": 2}, r"the observation_space (4,), which"),
    ],
)
def test_a_missing_space_is_named_with_its_cure(told: dict[str, Any], said: str, limit: int | None) -> None:
    def make() -> gym.Env[Any, Any]:
        env = NoSpaces()
        for key, space in told.items():
            setattr(env, key, space)
        return env

    make.__name__ = "NoSpaces"
    error = refusal(make, max_episode_steps=limit)
    key = "action_space" if "action_space" in said else "observation_space"
    assert (error.code, error.exit_status) == ("env-space", 2)
    assert said in error.message
    assert error.remedy.startswith(f"Set it in __init__, for example self.{key} = gymnasium.spaces.")


@pytest.mark.parametrize("error", [SystemExit(0), BaseException("odd"), GeneratorExit()])
def test_no_exception_of_a_constructor_ends_the_program(error: BaseException) -> None:
    def leaves() -> gym.Env[Any, Any]:
        raise error

    said = refusal(leaves)
    assert said.message.startswith(f"Making the environment leaves raised {type(error).__name__}")


def test_ctrl_c_in_a_constructor_stays_one() -> None:
    def interrupted() -> gym.Env[Any, Any]:
        raise KeyboardInterrupt

    factory = make_env_factory(interrupted)
    with pytest.raises(KeyboardInterrupt):
        factory()


@pytest.mark.parametrize("name", ["leaves_at_once.py:X", "leaves_at_once:X-v0", "leaves_at_once.py"])
@pytest.mark.parametrize("line", ["import sys; sys.exit(0)", "raise BaseException('odd')"])
def test_a_file_that_leaves_is_said(name: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaves_at_once.py").write_text(line + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    error = refusal(name)
    assert error.code == "env-module"
    assert "raised SystemExit: 0" in error.message or "raised BaseException: odd" in error.message


TWO = (
    "import gymnasium as gym\nfrom support.envs import ConstantReward\n\nLIMIT = 3\n"
    "class Doors(ConstantReward):\n    pass\n\nclass Keys(ConstantReward):\n    pass\n\nclass Helper:\n    pass\n"
)


def test_a_file_without_a_class_is_answered_with_those_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two_rooms.py").write_text(TWO)
    (tmp_path / "no_rooms.py").write_text("import gymnasium as gym\n")
    monkeypatch.chdir(tmp_path)
    for name in ("two_rooms.py", "two_rooms.py:"):
        error = refusal(name)
        assert (error.code, error.remedy) == ("env-file", "Write two_rooms.py:Doors or two_rooms.py:Keys.")
    assert "no_rooms.py:ClassName" in refusal("no_rooms.py").remedy
    assert "There is no file" in refusal("three_rooms.py").message
    error = refusal("two_rooms.py:LIMIT")
    assert ("holds a int instead of a class" in error.message, error.remedy) == (True, "It has Doors, Keys.")


def test_a_class_of_a_module_is_answered_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rooms_of_a_module.py").write_text(TWO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    error = refusal("rooms_of_a_module:Doors")
    assert error.code == "unknown-env"
    assert error.remedy.startswith("Write rooms_of_a_module.py:Doors ")


class OtherVector(gym.vector.VectorEnv[Any, Any, Any]):
    """A native vector whose observations are not the single environment's, as ALE's preprocessed pictures are."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012
    single_observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    single_action_space = gym.spaces.Discrete(2)

    def __init__(self, num_envs: int, **kwargs: Any) -> None:
        self.num_envs = num_envs


def test_a_native_vector_of_another_environment_is_refused() -> None:
    gym.register("OtherVector-v0", entry_point=cast(Any, CartPoleEnv), vector_entry_point=cast(Any, OtherVector))
    try:
        with pytest.raises(UserError, match=r"OtherVector-v0 is another one than the single .*\(4, 84, 84\)"):
            make_vec("OtherVector-v0", 2, vec="native")
    finally:
        del gym.registry["OtherVector-v0"]


class Told(Ending):
    """A signal that came."""


def test_what_ends_the_program_comes_through_an_environment_as_it_is() -> None:
    """A signal while an environment's code runs is no failure of that code."""

    class Interrupted(ConstantReward):
        at = "step"

        def reset(self, **options: Any) -> Any:
            if self.at == "reset":
                raise Told
            return super().reset(**options)

        def step(self, action: Any) -> Any:
            raise Told

        def close(self) -> None:
            raise Told

    def maker() -> gym.Env[Any, Any]:
        raise Told

    factory = make_env_factory(Interrupted)
    env = factory()
    env.reset(seed=1)
    for call in (lambda: env.step(0), env.close, make_env_factory(maker)):
        with pytest.raises(Told):
            call()
    Interrupted.at = "reset"
    with pytest.raises(Told):
        env.reset(seed=1)


@pytest.mark.parametrize("limit", [0, -3, 2.5, "9", True, None])
def test_a_limit_is_a_whole_number(limit: Any) -> None:
    if limit is None:
        assert make_env_factory("CartPole-v1", max_episode_steps=np.int64(7)).spec.max_episode_steps == 7  # type: ignore[arg-type]
        return
    error = refusal("CartPole-v1", max_episode_steps=limit)
    assert (error.code, error.message) == ("max-episode-steps", f"max_episode_steps is {limit!r}.")


@pytest.mark.parametrize("number", [0, -3, 2.0, "4", True])
def test_a_number_of_environments_is_a_whole_number(number: Any) -> None:
    with pytest.raises(UserError) as caught:
        make_vec("CartPole-v1", number)
    assert (caught.value.code, caught.value.message) == ("num-envs", f"num_envs is {number!r}.")
