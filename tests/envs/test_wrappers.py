"""One environment's output, made canonical (cases 1, 6, 7 and 16 at the environment)."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import RunFailedError, UserError
from support.envs import REWARD_FORMS, ConstantReward, OddTypes, Reuser, SpaceProbe
from support.faulty_envs import Failing, OldReset, OldResetArguments, OldStep


class Gives(gym.Env[Any, Any]):
    """Returns what it is told to."""

    def __init__(self, space: gym.Space[Any], obs: Any, step: Any = None) -> None:
        self.observation_space = space
        self.action_space = spaces.Discrete(2)
        self.obs = obs
        self.result = step

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.obs, {}

    def step(self, action: Any) -> Any:
        return self.result


def test_a_reused_observation_and_info_are_copied() -> None:
    env = Canonical(Reuser(horizon=2))
    first, first_info = env.reset()
    second, _, _, _, second_info = env.step(0)
    third, _, terminated, _, third_info = env.step(0)
    assert terminated is True
    again, again_info = env.reset()
    assert [float(o[0]) for o in (first, second, third, again)] == [0, 1, 2, 3]
    assert [i["is_success"] for i in (first_info, second_info, third_info, again_info)] == [False, False, True, False]


def test_a_reused_dictionary_of_arrays_is_copied() -> None:
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.MultiBinary(3)})
    held: dict[str, Any] = {"a": np.zeros(2, np.float32), "b": np.ones(3, np.int8)}
    obs, _ = Canonical(Gives(space, held)).reset()
    held["a"][:] = 1
    held["b"][:] = 0
    np.testing.assert_array_equal(obs["a"], [0, 0])
    np.testing.assert_array_equal(obs["b"], [1, 1, 1])


@pytest.mark.parametrize("form", REWARD_FORMS)
@pytest.mark.parametrize("flag", [bool, np.bool_, np.array, lambda x: np.array([x])])
def test_every_form_of_reward_and_flag_becomes_plain(form: str, flag: Any) -> None:
    env = Canonical(OddTypes(form, flag))
    env.reset()
    steps = [env.step(0) for _ in range(3)]
    assert [s[1] for s in steps] == [1.0, 2.0, 3.0]
    assert [s[2] for s in steps] == [False, False, True]
    assert {type(s[1]) for s in steps} == {float}
    assert {type(s[i]) for s in steps for i in (2, 3)} == {bool}


def _play(env: Canonical, steps: int) -> None:
    env.reset()
    for _ in range(steps):
        env.step(0)


BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
OK = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        (OK, "old-gym", "returned one ndarray instead of"),
        ((OK,), "old-gym", "returned 1 value instead of"),
        ((OK, None), "info-type", r"info of Begins is None"),
        ((OK, [1]), "info-type", r"info of Begins is \[1\] \(list\), not a dictionary"),
    ],
)
def test_a_reset_that_returns_something_else_is_named(result: Any, code: str, text: str) -> None:
    class Begins(gym.Env[Any, Any]):
        observation_space, action_space = BOX, spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return result

    with pytest.raises(UserError, match=text) as caught:
        Canonical(Begins()).reset(seed=1)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        ((OK, [1.0, 2.0], False, False, {}), "reward-type", r"\[1.0, 2.0\] \(list\)"),
        ((OK, np.zeros(2), False, False, {}), "reward-type", r"shape \(2,\)"),
        ((OK, None, False, False, {}), "reward-type", "None"),
        ((OK, "1", False, False, {}), "reward-type", "'1'"),
        ((OK, 1j, False, False, {}), "reward-type", "1j"),
        ((OK, 10**400, False, False, {}), "reward-type", "too large for a float"),
        ((OK, 10**5000, False, False, {}), "reward-type", "a int that cannot be shown"),
        ((OK, 1.0, False, False, {"is_success": float("nan")}), "info-type", "nan"),
        ((OK, 1.0, 1, False, {}), "flag-type", "`terminated` of Gives is 1"),
        ((OK, 1.0, False, {}, {}), "flag-type", "`truncated` of Gives is {}"),
        ((OK, 1.0, False, np.zeros(2, bool), {}), "flag-type", "`truncated`"),
        ((OK, 1.0, False, False, []), "info-type", r"info of Gives is \[\]"),
        ((OK, 1.0, False, False, {"is_success": "yes"}), "info-type", "is_success"),
        ((OK, 1.0, False, False), "old-gym", "returned 4 values instead of five"),
        (None, "old-gym", "one NoneType"),
        ((np.zeros(3), 1.0, False, False, {}), "obs-shape", r"shape \(3,\), but its space says \(2,\)"),
        (([[1], [2, 3]], 1.0, False, False, {}), "obs-type", "not numbers of shape"),
        ((None, 1.0, False, False, {}), "obs-type", "None"),
    ],
)
def test_a_wrong_step_is_named(result: Any, code: str, text: str) -> None:
    env = Canonical(Gives(BOX, OK, result))
    env.reset()
    with pytest.raises(UserError, match=text) as caught:
        env.step(0)
    assert (caught.value.code, bool(caught.value.remedy)) == (code, True)


@pytest.mark.parametrize(
    ("space", "obs", "code"),
    [
        (spaces.Discrete(3, start=-1), 2, "obs-range"),
        (spaces.MultiDiscrete([2, 3]), [1, 3], "obs-range"),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([0.5, 0.1]), "obs-dtype"),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([300, 1]), "obs-dtype"),
        (spaces.Dict({"a": BOX}), {"b": OK}, "obs-keys"),
        (spaces.Dict({"a": BOX}), {"a": OK, "b": OK}, "obs-keys"),
        (spaces.Dict({"a": BOX}), OK, "obs-keys"),
    ],
)
def test_an_observation_outside_its_space_is_refused(space: gym.Space[Any], obs: Any, code: str) -> None:
    with pytest.raises(UserError) as caught:
        Canonical(Gives(space, obs)).reset()
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("space", "obs", "expected"),
    [
        (spaces.Discrete(3, start=-1), np.array([-1])[0], np.int64(-1)),
        (spaces.Discrete(3), np.array(2), np.int64(2)),
        (spaces.Discrete(3), 1.0, np.int64(1)),
        (spaces.MultiDiscrete([2, 3], start=[5, -1]), [6, -1], np.array([6, -1])),
        (BOX, [0.5, 1], np.array([0.5, 1], np.float32)),
        (spaces.Box(-1, 1, (2,), np.float64), np.array([0.1, 0.2]), np.array([0.1, 0.2])),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([255, 1]), np.array([255, 1], np.uint8)),
    ],
)
def test_an_observation_gets_its_spaces_dtype(space: gym.Space[Any], obs: Any, expected: Any) -> None:
    got, _ = Canonical(Gives(space, obs)).reset()
    np.testing.assert_array_equal(got, expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3, start=-1), -1),
        (spaces.Discrete(3, start=-1), np.array(1)),
        (spaces.Discrete(3), np.int32(2)),
        (spaces.MultiDiscrete(np.array([[2], [2]])), np.array([[1], [0]])),
        (spaces.MultiBinary((2, 3)), np.ones((2, 3), np.int64)),
        (spaces.Box(-2, 0, (2,), np.float64), np.array([-1, 0], np.float32)),
        (spaces.Box(-2, 0, (2,), np.float32), [-0.5, 0.0]),
    ],
)
def test_actions_arrive_in_the_environments_own_form(space: gym.Space[Any], action: Any) -> None:
    probe = SpaceProbe(BOX, space)  # it asserts membership, dtype and shape
    env = Canonical(probe)
    env.reset()
    env.step(action)
    np.testing.assert_array_equal(probe.actions[0], action)


def test_an_environment_cannot_change_the_callers_action() -> None:
    class Clips(SpaceProbe):
        def step(self, action: Any) -> Any:
            np.clip(action, 0.0, 0.0, out=action)
            return super().step(action)

    env = Canonical(Clips(BOX, BOX))
    env.reset()
    action = np.ones(2, np.float32)
    env.step(action)
    np.testing.assert_array_equal(action, [1, 1])


@pytest.mark.parametrize("env_class", [OldReset, OldStep, OldResetArguments])
@pytest.mark.parametrize("limit", [None, 5])
def test_the_old_interface_is_said_with_its_cure(env_class: type[gym.Env[Any, Any]], limit: int | None) -> None:
    # With a limit, Gymnasium's TimeLimit meets the four values first.
    env = make_env_factory(env_class, max_episode_steps=limit)()
    with pytest.raises(UserError, match=env_class.__name__) as caught:
        _play(env, 1)
    assert caught.value.code == "old-gym"
    assert "reset(self, *, seed=None, options=None)" in caught.value.remedy


@pytest.mark.parametrize(("at", "when"), [(0, r"in reset\(\)"), (3, "in step 3 of its episode")])
def test_what_an_environment_raises_is_told_with_its_place(at: int, when: str) -> None:
    env = Canonical(Failing("raise", at), index=4)
    with pytest.raises(
        RunFailedError, match=rf"Environment 4 \(Failing\) raised LookupError {when}: the motor"
    ) as caught:
        _play(env, 3)
    assert isinstance(caught.value.__cause__, LookupError)


def test_info_keeps_success_and_mask_as_copies() -> None:
    mask = np.array([True, False])
    env = Canonical(
        Gives(BOX, OK, (OK, 1, False, False, {"is_success": np.float32(1), "action_mask": mask, "big": "x"}))
    )
    env.reset()
    info = env.step(0)[4]
    mask[:] = False
    assert info.keys() == {"is_success", "action_mask"}
    assert info["is_success"] is True
    np.testing.assert_array_equal(info["action_mask"], [True, False])


def test_the_classes_metadata_is_not_written_to() -> None:
    env = Canonical(ConstantReward())
    env.metadata["written"] = "any"
    assert "written" not in ConstantReward.metadata


def test_the_wrapper_is_no_part_of_the_recipe() -> None:
    env = make_env_factory("CartPole-v1")()
    assert env.spec is not None
    assert env.spec.additional_wrappers == ()
    assert Canonical(ConstantReward()).spec is None


def test_a_wrong_value_names_its_environment() -> None:
    env = Canonical(Gives(BOX, OK, (OK, None, False, False, {})), index=3)
    env.reset()
    with pytest.raises(UserError, match=r"The reward of Gives \(environment 3\) is None"):
        env.step(0)


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("bye"), GeneratorExit(), BaseException("odd")])
@pytest.mark.parametrize("method", ["reset", "step", "render"])
def test_no_exception_of_an_environment_ends_the_program(error: BaseException, method: str) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise error

    inner = ConstantReward()
    env = Canonical(inner)
    env.reset()
    setattr(inner, method, fails)
    when = {"reset": r"in reset\(\)", "step": "in step 1", "render": "while rendering"}[method]
    with pytest.raises(RunFailedError, match=rf"raised {type(error).__name__} {when}") as caught:
        getattr(env, method)(*[0] * (method == "step"))
    assert (caught.value.code, caught.value.__cause__) == ("env-error", error)


@pytest.mark.parametrize("method", ["reset", "step", "render", "close"])
def test_ctrl_c_stays_one(method: str) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    inner = ConstantReward()
    env = Canonical(inner)
    env.reset()
    setattr(inner, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(env, method)(*[0] * (method == "step"))


@pytest.mark.parametrize("error", [NotImplementedError("no pictures"), ImportError("pygame"), gym.error.Error("odd")])
def test_that_an_environment_cannot_render_is_left_as_it_is(error: Exception) -> None:
    def fails() -> Any:
        raise error

    inner = ConstantReward()
    inner.render = fails  # type: ignore[method-assign]
    with pytest.raises(type(error)) as caught:
        Canonical(inner).render()
    assert caught.value is error


@pytest.mark.parametrize("error", [OSError("the door is locked"), SystemExit(1)])
def test_a_close_that_fails_is_a_warning(error: BaseException) -> None:
    def fails() -> None:
        raise error

    inner = ConstantReward()
    inner.close = fails  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match=rf"close\(\) of ConstantReward raised {type(error).__name__}: {error}"):
        Canonical(inner).close()


def test_the_caller_chooses_how_errors_begin() -> None:
    env = make_env_factory(Failing, env_kwargs={"how": "raise", "at": 0})(role="An evaluation environment")
    with pytest.raises(RunFailedError, match=r"^An evaluation environment \(Failing\) raised LookupError in reset"):
        env.reset()


@pytest.mark.parametrize("obs", [np.array([0.0, -1e39]), [0.0, -1e39], np.array([1.0, -1e300])])
def test_a_number_too_large_for_the_spaces_type_is_told_as_it_was(obs: Any) -> None:
    with pytest.raises(
        RunFailedError, match=r"observation of Gives \(environment 2\) holds -1e\+(39|300), too"
    ) as caught:
        Canonical(Gives(BOX, obs), index=2).reset()
    assert caught.value.code == "env-absurd"


def test_an_error_that_cannot_say_its_text_is_named_all_the_same() -> None:
    class SpeechlessError(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    class Mute(gym.Env[Any, Any]):
        observation_space = spaces.Box(-1, 1, (2,))
        action_space = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            raise SpeechlessError

    with pytest.raises(RunFailedError, match=r"raised SpeechlessError in reset\(\): test_wrappers\.py, line"):
        make_env_factory(Mute)().reset(seed=1)
