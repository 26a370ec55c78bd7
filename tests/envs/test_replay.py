"""A failure goes into a file and comes out of it as the same failure, for every kind of space."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs

from steadyrl.envs import failures
from steadyrl.envs.failure import Failure
from steadyrl.envs.failures import Origin, Record
from steadyrl.envs.make import EnvFactory, make_env_factory
from steadyrl.envs.replay import Outcome, replay
from steadyrl.envs.vector import make_vec
from steadyrl.errors import LONGEST, RunFailedError, UserError
from steadyrl.spaces.action_tree import tree_of_actions
from steadyrl.spaces.tree import Tree
from support.breaking_envs import BreaksWhen, Plan
from support.envs import ConstantReward

BOX = gs.Box(-1, 1, (3,), np.float32)
SPACES: dict[str, tuple[gs.Space[Any], gs.Space[Any]]] = {
    "Box": (gs.Box(-1, 1, (2, 2), np.float64), gs.Box(-2, 2, (3,), np.float32)),
    "Box of doubles": (BOX, gs.Box(-2, 2, (2, 2), np.float64)),
    "Discrete": (BOX, gs.Discrete(3, start=-1)),
    "MultiDiscrete": (gs.MultiDiscrete([3, 4]), gs.MultiDiscrete([3, 2])),
    "MultiBinary": (gs.Discrete(5), gs.MultiBinary(4)),
    "Dict actions": (BOX, gs.Dict({"move": gs.Box(-2, 2, (2,), np.float32), "grip": gs.Discrete(3, start=-1)})),
    "Tuple actions": (gs.Tuple((BOX, gs.Discrete(2))), gs.Tuple((gs.MultiBinary(3), gs.MultiDiscrete([2, 3])))),
    "nested actions": (
        BOX,
        gs.Dict({"a": gs.Tuple((gs.Discrete(2), gs.Dict({"b": gs.Box(0, 1, ())}))), "c/d": gs.MultiBinary([2, 2])}),
    ),
    "one part": (BOX, gs.Tuple((gs.Discrete(3),))),
    "Dict": (gs.Dict({"image": gs.Box(0, 255, (2, 2), np.uint8), "place": BOX}), gs.Discrete(2)),
}


def fail(factory: EnvFactory, seed: int = 5, num_envs: int = 2) -> tuple[Failure, int]:
    """The first failure of a vector with drawn actions, and the steps until then."""
    venv = make_vec(factory, num_envs)
    venv.reset([seed + i for i in range(num_envs)])
    rng = np.random.default_rng(seed)
    for t in range(10_000):
        actions = [_drawn(venv.spec.action_space, rng) for _ in range(num_envs)]
        try:
            venv.step(_batch(venv.spec.action_space, actions))
        except RunFailedError as error:
            venv.close()
            found: Failure = error.failure
            return found, t
    raise AssertionError("nothing failed")


def _batch(space: gym.Space[Any], actions: list[Any]) -> Any:
    """As a policy gives them."""
    if not isinstance(space, gs.Dict | gs.Tuple):
        return np.array(actions)
    batch = np.zeros(len(actions), tree_of_actions(space).env_dtype)
    for i, action in enumerate(actions):
        for path, part in Tree.of(space).flat(action).items():
            batch[path][i] = part
    return batch


def bits(action: Any) -> Any:
    """An action in a form that compares its bits, types and structure."""
    if isinstance(action, dict):
        return {key: bits(part) for key, part in action.items()}
    if isinstance(action, tuple):
        return tuple(map(bits, action))
    return np.asarray(action).dtype, np.asarray(action).shape, np.asarray(action).tobytes()


def _drawn(space: gym.Space[Any], rng: np.random.Generator) -> Any:
    space.seed(int(rng.integers(2**31)))
    return space.sample()


def written(folder: Path, failure: Failure, factory: EnvFactory) -> Record:
    return failures.read(failures.write(folder, failure, Origin.of(factory)))


@pytest.mark.parametrize("share", [0.7, 0.03], ids=["early", "late"])
@pytest.mark.parametrize("name", SPACES)
def test_a_failure_comes_again_from_its_file(name: str, share: float, tmp_path: Path) -> None:
    """An early failure is one of the seeded first episode, a late one of an episode that drew on: its seed is None."""
    observation, action = SPACES[name]
    factory, late = make_env_factory(lambda: BreaksWhen(observation, action, share)), share == 0.03
    failure = next(found for seed in range(20) if ((found := fail(factory, seed)[0]).seed is None) == late)
    record = written(tmp_path, failure, factory)
    assert list(map(bits, record.failure.actions)) == list(map(bits, failure.actions))
    assert (record.failure.random_state is not None) == late
    outcome = replay(record, factory)
    assert (outcome.result, outcome.failure and outcome.failure.error) == ("same", failure.error)
    assert outcome.steps == failure.step == len(failure.actions)
    assert isinstance(outcome.cause, OverflowError)
    assert outcome.failure is not None
    assert outcome.failure.traceback == failure.traceback


def test_the_late_failures_are_of_episodes_that_drew_on() -> None:
    """Without the random state they would be others."""
    factory = make_env_factory(lambda: BreaksWhen(BOX, gs.Discrete(3), 0.02))
    failure, steps = fail(factory)
    assert steps > 7
    assert (failure.seed, failure.whole) == (None, True)
    assert failure.random_state is not None
    record = Record(failure, Origin.of(factory), "", {})
    assert replay(record, factory).result == "same"
    failure.random_state["state"]["state"] += 1
    assert replay(record, factory).result != "same"


def test_one_changed_action_is_another_episode() -> None:
    factory = make_env_factory(lambda: BreaksWhen(BOX, gs.Box(-2, 2, (1,), np.float32)))
    failure, _ = fail(factory)
    failure.actions[0] = np.nextafter(failure.actions[0], np.float32(9))
    outcome = replay(Record(failure, Origin.of(factory), "", {}), factory)
    assert outcome.result != "same"
    assert outcome.failure is None or outcome.failure.error != failure.error


def broken(failing: set[tuple[int, int]], phase: Any = "step", step: int = 3, **changes: Any) -> Failure:
    """As a worker process would record it."""
    told: dict[str, Any] = {
        "error": "LookupError: episode 0 broke",
        "actions": [0, 1, 1][:step],
        "whole": True,
    } | changes
    return Failure(
        env_index=4, worker=2, phase=phase, step=step, seed=1, options=None, random_state=None, traceback="...", **told
    )


def run(plan: Plan, failure: Failure, factory: EnvFactory | None = None) -> Outcome:
    factory = factory or make_env_factory(plan)
    outcome = replay(Record(failure, Origin.of(factory), "", {}), factory)
    assert plan.closed == plan.made - len(plan.making)
    return outcome


@pytest.mark.parametrize(
    ("plan", "failure", "result", "steps"),
    [
        (Plan({(0, 3)}), broken(set()), "same", 3),
        (Plan({(0, 3)}), broken(set(), error="LookupError: at <Arm 0x7f>"), "other", 3),
        (Plan({(0, 2)}), broken(set()), "other", 2),
        (Plan({(0, 0)}), broken(set(), "reset", 0), "same", 0),
        (Plan({(0, 0)}), broken(set()), "other", 0),
        (Plan(), broken(set()), "none", 3),
        (Plan(length=2), broken(set()), "none", 2),
        (Plan(making={0}), broken(set(), "make", 0, error="ConnectionError: no simulator answers"), "same", 0),
        (Plan(making={0}), broken(set(), "make", 0), "other", 0),
        (Plan(), broken(set(), "make", 0), "none", 0),
        (Plan(), broken(set(), "close"), "none", 3),
    ],
)
def test_what_happens_now_is_compared_with_what_happened(plan: Plan, failure: Failure, result: str, steps: int) -> None:
    outcome = run(plan, failure)
    assert (outcome.result, outcome.steps) == (result, steps)
    assert (outcome.failure is None) == (result == "none")
    assert ("ended by itself in step 2" in outcome.note) == (plan.length == 2)


def test_addresses_in_an_error_do_not_make_it_another() -> None:
    class Arm(ConstantReward):
        def step(self, action: Any) -> Any:
            raise ValueError(f"{object()}")

    factory = make_env_factory(lambda: Arm(3))
    failure = broken(set(), step=1, error="ValueError: <object object at 0x12ab>")
    assert replay(Record(failure, Origin.of(factory), "", {}), factory).result == "same"


def test_a_failing_close_comes_again() -> None:
    class Sticky(ConstantReward):
        def close(self) -> None:
            raise OSError("port is busy")

    factory = make_env_factory(lambda: Sticky(9))
    failure = broken(set(), "close", 3, error="OSError: port is busy")
    outcome = replay(Record(failure, Origin.of(factory), "", {}), factory)
    assert (outcome.result, outcome.steps) == ("same", 3)


@pytest.mark.parametrize(
    ("fault", "told"), [("nan", "nan as its reward"), ("inf", "inf as its reward"), ("1e30", "1e+30")]
)
def test_numbers_that_are_not_finite_come_again(fault: str, told: str) -> None:
    factory = make_env_factory(lambda: BreaksWhen(BOX, gs.Discrete(3), fault=float(fault)))
    failure, steps = Failure(0, None, "step", 7, 5, None, None, [1] * 7, True, f"It gave {told}", ""), 0
    outcome = replay(Record(failure, Origin.of(factory), "", {}), factory)
    steps = outcome.steps
    assert outcome.failure is not None
    assert told in outcome.failure.error
    assert (outcome.result, outcome.cause) == ("other", None)
    at_place = Failure(0, None, "step", steps, 5, None, None, [1] * steps, True, f"It gave {outcome.failure.error}", "")
    assert replay(Record(at_place, Origin.of(factory), "", {}), factory).result == "same"


@pytest.mark.parametrize("key", ["", "place"])
@pytest.mark.parametrize("at", [0, 2])
def test_observations_that_are_not_finite_are_named(key: str, at: int) -> None:
    space: gs.Space[Any] = gs.Dict({"place": BOX, "room": gs.Discrete(2)}) if key else BOX

    class Sick(BreaksWhen):
        def _drawn(self) -> Any:
            obs = super()._drawn()
            if self.t == at:
                (obs[key] if key else obs)[1] = np.nan
            return obs

    factory = make_env_factory(lambda: Sick(space, gs.Discrete(2), 0.0))
    outcome = replay(Record(broken(set(), actions=[0, 1, 1]), Origin.of(factory), "", {}), factory)
    assert outcome.failure is not None
    where = "observation at 'place'" if key else "observation"
    assert outcome.failure.error == f"nan as entry 1 of its {where}"
    assert (outcome.failure.phase, outcome.failure.step) == (("step", 2) if at else ("reset", 0))


def twister(position: int) -> dict[str, Any]:
    """A state that NumPy takes, and reads beyond its 624 words."""
    return {"bit_generator": "MT19937", "state": {"key": [1] * 624, "pos": position}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"whole": False}, "cannot be run again"),
        ({"random_state": {"bit_generator": "os.system"}}, "'os.system' is not known"),
        ({"random_state": {}}, "'None' is not known"),
        ({"random_state": {"bit_generator": "PCG64", "state": 3}}, "no state of a generator"),
        ({"random_state": {"bit_generator": "PCG64"}}, "no state of a generator"),
        ({"random_state": twister(625)}, "its position is 625"),
        ({"random_state": twister(-1)}, "its position is -1"),
        ({"random_state": {"bit_generator": "Philox", "buffer_pos": -9}}, "its position is -9"),
    ],
)
def test_a_record_that_cannot_be_run_is_refused(changes: dict[str, Any], told: str) -> None:
    plan = Plan()
    with pytest.raises(UserError, match=told):
        run(plan, dataclasses.replace(broken(set()), **changes))
    assert plan.made == 0


def test_unknown_random_numbers_are_said() -> None:
    import dataclasses

    outcome = run(Plan(), dataclasses.replace(broken(set()), seed=None))
    assert outcome.note == "Its random numbers at the beginning of the episode were not known."


def test_options_go_to_reset() -> None:
    got: list[Any] = []

    class Told(ConstantReward):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            got.append((seed, options))
            return super().reset(seed=seed, options=options)

    import dataclasses

    factory = make_env_factory(lambda: Told(9))
    replay(Record(dataclasses.replace(broken(set()), options={"level": 3}), Origin.of(factory), "", {}), factory)
    assert got == [(1, {"level": 3})]


@pytest.fixture
def document(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    path = failures.write(tmp_path, broken(set()), Origin("Walk", "/there/walk.py:Walk", {"start": (2, 1.5)}, 50))
    found: dict[str, Any] = json.loads(path.read_text())
    return path, found


def test_a_file_says_everything_and_has_a_name_of_its_own(document: tuple[Path, dict[str, Any]]) -> None:
    path, found = document
    assert path.name.endswith("Z-env4.json")
    record = failures.read(path)
    assert record.origin == Origin("Walk", "/there/walk.py:Walk", {"start": (2, 1.5)}, 50)
    assert record.failure.actions == [0, 1, 1]
    assert record.versions == failures.versions() == found["versions"]
    again = failures.write(path.parent, broken(set()), record.origin)
    assert again != path
    assert {child.name for child in path.parent.iterdir()} == {path.name, again.name}


MIXED: list[list[Any]] = [
    [{"a": 1}, {"a": 1}, {"b": 1}],
    [{"a": 1}, {"a": 1}, {"a": 1.5}],
    [(1, 2), (1, 2), (1, 2, 3)],
    [{}] * 3,
    [{"a": "left"}] * 3,
    [{"$type": 1}] * 3,  # the word that marks arrays in a file
    [{1: 1}] * 3,
]


def test_actions_of_several_kinds_are_left_out_and_said(tmp_path: Path) -> None:
    for actions in ([0, "left", 1], [np.zeros(2), np.zeros(3), np.zeros(2)], *MIXED):
        record = failures.read(failures.write(tmp_path, broken(set(), actions=actions), Origin("X", None, {}, None)))
        assert (record.failure.actions, record.failure.whole) == ([], False)


@pytest.mark.parametrize("action", [gs.Dict({"a": gs.Tuple((gs.Discrete(9), BOX))}), gs.Tuple((gs.Discrete(9), BOX))])
def test_the_actions_of_a_worker_that_died_are_known_by_their_paths(action: gym.Space[Any], tmp_path: Path) -> None:
    """The parent kept rows of its structured array: the environment gets its own structure of them again."""
    got: list[Any] = []

    class Taking(BreaksWhen):
        def step(self, action: Any) -> Any:
            got.append(bits(action))
            return self._drawn(), 0.0, False, False, {}

    rng = np.random.default_rng(1)
    actions = [_drawn(action, rng) for _ in range(3)]
    rows = [row.copy() for row in _batch(action, actions)]
    factory = make_env_factory(lambda: Taking(BOX, action))
    record = written(tmp_path, broken(set(), actions=rows), factory)
    assert record.failure.whole
    assert replay(record, factory).result == "none"
    assert got == list(map(bits, actions))


def test_a_very_deep_structure_is_left_out_and_no_file_that_cannot_be_read(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(40):
        deep = {"a": deep}
    record = failures.read(failures.write(tmp_path, broken(set(), actions=[deep] * 3), Origin("X", None, {}, None)))
    assert (record.failure.actions, record.failure.whole) == ([], False)


WRONG: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda d: d.update(format="zip"), "'format' is not 'steadyrl-failure'"),
    (lambda d: d.update(version=2), "'version' is 2"),
    (lambda d: d.update(version="1"), "'version' is 1"),
    *[
        ((lambda d, n=name: d.pop(n)), f"'{name}' is missing")
        for name in failures._TYPES
        if name not in ("format", "version")
    ],
    *[((lambda d, n=name: d["env"].pop(n)), f"'env.{name}' is missing") for name in failures._ENV_TYPES],
    (lambda d: d.update(more=1), "unknown field 'more'"),
    (lambda d: d["env"].update(code="x"), "unknown field 'env.code'"),
    (lambda d: d.update(step=True), "'step' is a bool, not int"),
    (lambda d: d.update(seed="1"), "'seed' is a str, not int or null"),
    (lambda d: d.update(seed=-1), "'seed' is -1, below 0"),
    (lambda d: d.update(step=4), "'actions' has 3 rows, but 'step' says 4"),
    (lambda d: d["actions"].update(shape=[4]), "'actions' cannot be read: an array of 24 bytes"),
    (lambda d: d["actions"].update(dtype="object"), "'actions' cannot be read: 'object' is no element type"),
    (lambda d: d.update(actions={}), "'actions' is no array"),
    (lambda d: d.update(actions={"a": d["actions"], "b": 3}), "'actions' is no array"),
    (lambda d: d.update(actions={"a": d["actions"], "b": {}}), "'actions' is no array"),
    (
        lambda d: d.update(
            actions={"a": d["actions"], "b": {"$type": "array", "dtype": "int8", "shape": [0], "base64": ""}}
        ),
        "its parts have [0, 3] rows",
    ),
    (
        lambda d: d.update(actions={"$type": "array", "dtype": "int8", "shape": [10**6 + 1, 0], "base64": ""}),
        "its parts have [1000001] rows",
    ),
    (lambda d: d.update(actions={"$type": "tuple", "value": [d["actions"]]}, step=4), "has 3 rows, but 'step' says 4"),
    (lambda d: d.update(actions=None), "'actions' is no array"),
    (
        lambda d: d.update(options={"x": {"$type": "unknown", "value": "a lock"}}),
        "'options' cannot be read: it holds a lock",
    ),
    (lambda d: d["env"]["kwargs"].update(x={"$type": "y"}), "'env.kwargs' cannot be read"),
    (lambda d: d.update(phase="think"), "'phase' is 'think'"),
    (lambda d: d.update(versions={"numpy": 2}), "'versions' are not text"),
]


@pytest.mark.parametrize(("change", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_in_a_file_is_named(
    change: Callable[[dict[str, Any]], Any], told: str, document: tuple[Path, dict[str, Any]]
) -> None:
    path, found = document
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(UserError) as caught:
        failures.read(path)
    assert told in caught.value.message
    assert str(path) in caught.value.message


def test_files_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(UserError, match="There is no file"):
        failures.read(path)
    path.write_bytes(b'{"format": NaN}')
    with pytest.raises(UserError, match="NaN is not a finite number"):
        failures.read(path)
    with pytest.raises(UserError, match="is no record of a failure"):
        failures.read(tmp_path)
    monkeypatch.setattr(failures, "MAX_BYTES", 5)
    with pytest.raises(UserError, match="larger than 5 bytes"):
        failures.read(path)


def test_what_may_have_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UserError) as caught:
            failures.read(path)
        assert caught.value.message == f"{path} is no record of a failure: it is no regular file."


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        failures.write(tmp_path, broken(set()), Origin("X", None, {}, None))
    assert list(tmp_path.iterdir()) == []


def test_where_an_environment_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "walk.py").write_text("from support.envs import ConstantReward\n")
    monkeypatch.chdir(tmp_path)
    found = {
        "CartPole-v1": "CartPole-v1",
        "gymnasium.envs:CartPole-v1": "gymnasium.envs:CartPole-v1",
        "walk.py:ConstantReward": f"{tmp_path / 'walk.py'}:ConstantReward",
    }
    for name, address in found.items():
        kwargs = {"horizon": 3} if name.startswith("walk") else {}
        factory = make_env_factory(name, env_kwargs=kwargs)
        assert Origin.of(factory) == Origin(name, address, kwargs, None)
    monkeypatch.chdir("/")
    assert make_env_factory(Plan()).address is None
    instance = make_env_factory(gym.make("CartPole-v1", max_episode_steps=9))
    assert instance.address is None
    assert instance.remake().address is None


def test_of_a_very_long_error_the_file_keeps_the_ends_and_says_so(tmp_path: Path) -> None:
    traceback = "first\n" + "x" * 300_000 + "\nlast"
    failure = Failure(0, None, "make", 0, None, None, None, [], True, "ValueError: long", traceback)
    path = failures.write(tmp_path, failure, failures.Origin("X", None, {}, None))
    kept = failures.read(path).failure.traceback
    left_out = len(traceback) - 2 * LONGEST
    assert f"... ({left_out:,} characters are left out here)" in kept
    assert (kept[:LONGEST], kept[-LONGEST:]) == (traceback[:LONGEST], traceback[-LONGEST:])
    whole = dataclasses.replace(failure, traceback="x" * 2 * LONGEST)
    path = failures.write(tmp_path, whole, failures.Origin("X", None, {}, None))
    assert failures.read(path).failure.traceback == whole.traceback
