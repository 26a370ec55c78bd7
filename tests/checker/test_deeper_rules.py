"""Rules about what shows late, elsewhere, or only to who looks for it, each with a faulty and a sound environment."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from steadyrl.checker.probe.facts import facts
from steadyrl.checker.probe.stage import Stage
from support.checked_envs import Hops, Masked, Painted, Told, Walk, at, changed, raising, variant, with_spaces
from support.checker import SMALL, Case, codes, found, hold


class Noting(Walk):
    """Writes into its own specification."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.spec is not None:
            self.spec.kwargs["episode"] = 1
        return super().reset(seed=seed, options=options)


SLEEP = shutil.which("sleep") or ""
UNIT = spaces.Box(-1, 1, (1,), np.float32)


def needs_seed(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    return Walk.reset(self, seed=abs(seed))  # type: ignore[arg-type]


def needs_options(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    options.get("start")
    return Walk.reset(self, seed=seed)


def falsy_seed(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
    return Walk.reset(self, seed=seed or None)


def said_in_info(self: Any, told: Told) -> Told:
    obs, reward, terminated, truncated, info = told
    return obs, reward, terminated or truncated, False, info | {"TimeLimit.truncated": truncated}


def cut_as_end(self: Any, told: Told) -> Told:
    obs, reward, terminated, truncated, info = told
    return obs, reward, terminated or truncated, False, info


class Guarded(Walk):
    """Sound: refuses a step before the first reset."""

    def step(self, action: Any) -> Told:
        if self._np_random is None:
            raise ResetNeeded("reset() first")
        return super().step(action)


class Harder(Walk):
    """Strong wind from the thirtieth episode on."""

    played = 0

    def begin(self) -> None:
        super().begin()
        self.played += 1
        self.wind += 0.3 * (self.played > 30)


def by_the_day(self: Any) -> None:
    Walk.begin(self)
    self.wind = (time.time() // 3_600 % 24) / 24


def by_the_first(self: Any, action: Any) -> float:
    if self.t == 1:
        self.first = Walk.push(self, action)
    return float(self.first)


def paid_by_chance(self: Any, action: Any) -> float:
    self.x = np.clip(self.x + 0.01 * self.push(action), -0.9, 0.9)
    return float(self.np_random.uniform())


def rarely_paid(self: Any, action: Any) -> float:
    Walk.move(self, action)
    return float(abs(self.x) > 0.995)


class Parts(Walk):
    """Sound, with an action of two parts."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.action_space = spaces.Dict(gas=UNIT, gear=spaces.Discrete(2))

    def push(self, action: Any) -> float:
        return float(action["gas"][0]) * (0.5 + 0.5 * int(action["gear"]))


class FourWays(Walk):
    """Sound: four actions."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.action_space = spaces.Discrete(4)


class Choices(Masked):
    """Sound: two choices at once, and the mask of both in one row; a forbidden one raises."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.action_space = spaces.MultiDiscrete([2, 2])

    def info(self) -> dict[str, Any]:
        return {"action_mask": np.array([self.x > -0.8, self.x < 0.8, 1, 0], np.int8)}

    def push(self, action: Any) -> float:
        if action[1]:
            raise ValueError("masked")
        return 2.0 * int(action[0]) - 1.0


def in_any_order(self: Any, obs: Any) -> Any:
    pairs = [("x", obs[:1].copy()), ("wind", obs[1:].copy())]
    return dict(pairs if self.t % 2 else pairs[::-1])


PAIR = spaces.Dict(x=UNIT, wind=UNIT)
PICTURE = spaces.Dict(x=UNIT, view=spaces.Box(0, 255, (4, 4, 1), np.uint8))
FLAGGED = spaces.Dict(x=UNIT, flag=spaces.Discrete(2))


def blank(self: Any, obs: Any) -> Any:
    return {"x": obs[:1].copy(), "view": np.zeros((4, 4, 1), np.uint8)}


def seen(self: Any, obs: Any) -> Any:
    return {"x": obs[:1].copy(), "view": np.full((4, 4, 1), 20 * self.t, np.uint8)}


def stuck(self: Any, obs: Any) -> Any:
    return {"x": obs[:1].copy(), "flag": 1}


def raised(self: Any, obs: Any) -> Any:
    return {"x": obs[:1].copy(), "flag": int(self.t > 9)}


def shaped(self: Any) -> dict[str, Any]:
    return {"seen": np.zeros(1 + (self.x > 0))}


STARTED: list[int] = []  # processes
STOP = threading.Event()  # of threads


def program() -> int:
    """A program that only waits."""
    STARTED.append(os.posix_spawn(SLEEP, ["sleep", "600"], os.environ))
    return STARTED[-1]


def end(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    STARTED.remove(process)


@pytest.fixture(autouse=True)
def cleared() -> Iterator[None]:
    """Nothing that an environment started or set outlives its test."""
    STOP.clear()
    before = np.geterr()
    yield
    np.seterr(**before)
    STOP.set()
    for process in list(STARTED):
        end(process)


class Server(Walk):
    """Starts a program, which `close` should end."""

    ends = True

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.program = program()

    def close(self) -> None:
        if self.ends and self.program in STARTED:
            end(self.program)


def forking(self: Any) -> None:
    Walk.begin(self)
    program()


def threading_begin(self: Any) -> None:
    Walk.begin(self)
    threading.Thread(target=STOP.wait, daemon=True).start()


def ignoring_overflow(self: Any) -> None:
    Walk.begin(self)
    np.seterr(over="ignore")


def ignoring_here(self: Any) -> None:
    with np.errstate(over="ignore"):
        Walk.begin(self)


class Registered(Walk):
    """Every instance stays in a list."""

    instances: list[Any] = []  # noqa: RUF012 - the fault

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.map = np.zeros(1 << 19)
        self.instances.append(self)


class Unlisted(Walk):
    """Sound: as large."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.map = np.zeros(1 << 19)


def leaving(self: Any) -> None:
    sys.exit(0)


class Framed(Painted):
    """The frame that `close` forgets was made by `render`."""

    frame: Any = None

    def render(self) -> Any:
        self.frame = super().render()
        return self.frame

    def close(self) -> None:
        if self.frame is not None:
            self.frame.resize(0)
            self.frame = ()


class Vector(Walk):
    """The state is the array that was returned."""

    state = np.zeros(2, np.float32)

    def begin(self) -> None:
        super().begin()
        self.state = np.array([self.x, self.wind], np.float32)

    def move(self, action: Any) -> float:
        self.state = self.state + np.array([0.15 * self.push(action), 0], np.float32)
        self.x = float(self.state[0])
        return -abs(self.x)

    def observe(self) -> Any:
        return self.state


def copied(self: Any) -> Any:
    return self.state.copy()


def only_right(self: Any, action: Any) -> float:
    if self.t > 6 and int(action) == 1:
        raise IndexError("no such row")
    return 0.0


def cut_too(self: Any, told: Told) -> Told:
    obs, reward, terminated, truncated, info = told
    return obs, reward, terminated, terminated or truncated, info


class Drawn(Painted):
    """Another start where pictures are made."""

    def begin(self) -> None:
        super().begin()
        self.wind += 0.1 * (self.render_mode is not None)


class Deck(Hops):
    """Sound: ends when the deck is empty, which is seen; its size differs, and the longest are whole ones."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.observation_space = spaces.Dict(x=UNIT, deck=spaces.MultiBinary(12))

    def begin(self) -> None:
        super().begin()
        self.deck = self.np_random.permutation(12)[: self.np_random.integers(9, 13)]

    def observe(self) -> Any:
        return {"x": super().observe()[:1], "deck": np.isin(np.arange(12), self.deck).astype(np.int8)}

    def step(self, action: Any) -> Told:
        self.deck = self.deck[1:]
        self.x *= 0.5
        _, reward, _, _, info = super().step(action)
        return self.observe(), reward, not len(self.deck), False, info


CASES = [
    Case("SRL-SPC-009", "facts", with_spaces(observation=spaces.Box(-1, 1, (3, 0))), Parts),
    Case("SRL-SPC-009", "facts", with_spaces(observation=spaces.Dict(x=UNIT, y=spaces.Dict()))),
    Case("SRL-API-001", "facts", variant(reset=needs_seed)),
    Case("SRL-API-002", "facts", variant(reset=needs_options)),
    Case("SRL-OBS-010", "survey", with_spaces(changed("observe", in_any_order), PAIR), Parts),
    Case(
        "SRL-OBS-011",
        "survey",
        with_spaces(changed("observe", blank), PICTURE),
        with_spaces(changed("observe", seen), PICTURE),
    ),
    Case("SRL-SEED-001", "repeat", variant(reset=falsy_seed)),
    Case("SRL-SEED-014", "survey repeat again", Harder),
    Case("SRL-SEED-015", "survey repeat again", variant(begin=by_the_day)),
    Case("SRL-EPI-001", "survey", changed("step", cut_as_end), Deck),
    Case("SRL-EPI-007", "survey", changed("step", said_in_info)),
    Case("SRL-EPI-008", "ends", Walk, Guarded),
    Case("SRL-ACT-002", "facts", with_spaces(action=spaces.Tuple((UNIT, spaces.Discrete(1)))), Parts),
    Case("SRL-ACT-006", "acting", variant(Parts, push=lambda self, action: float(action["gas"][0])), Parts),
    Case("SRL-ACT-009", "acting", variant(push=by_the_first)),
    Case("SRL-REW-004", "acting", variant(move=paid_by_chance)),
    Case("SRL-REW-005", "survey", variant(move=rarely_paid)),
    Case("SRL-OBS-012", "acting", Vector, variant(Vector, observe=copied)),
    Case("SRL-ACT-010", "survey", variant(FourWays, push=only_right), FourWays),
    Case("SRL-EPI-002", "survey", changed("step", cut_too, variant(push=lambda self, action: 2.0)), Walk),
    Case("SRL-RND-003", "render", Drawn, Painted),
    Case("SRL-PRC-012", "process", variant(Server, ends=False), Server),
    Case("SRL-PRC-013", "process", variant(close=leaving)),
    Case("SRL-PRC-015", "process", variant(begin=ignoring_overflow), variant(begin=ignoring_here)),
    Case("SRL-RES-003", "resources", variant(begin=forking), Server),
    Case("SRL-RES-004", "resources", variant(begin=threading_begin)),
    Case("SRL-RES-005", "resources", Registered, Unlisted),
    Case("SRL-RND-007", "render", Framed, Painted),
    Case("SRL-VEC-012", "batched", variant(info=shaped)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_rule_tells_faulty_from_sound(case: Case) -> None:
    hold(case, replace(SMALL, survey_steps=1_200, seeds=2))


def test_a_whole_part_of_integers_is_dead_only_after_very_many_steps() -> None:
    faulty, sound = (with_spaces(changed("observe", change), FLAGGED) for change in (stuck, raised))
    many = replace(SMALL, survey_steps=6_000)
    assert "SRL-OBS-008" in codes(found(faulty, "survey", plan=many))
    assert "SRL-OBS-008" not in codes(found(sound, "survey", plan=many))
    assert "SRL-OBS-008" not in codes(found(faulty, "survey"))


@pytest.mark.parametrize("make", [Guarded, Parts, Choices, Hops])
def test_sound_environments_pass(make: type[Walk]) -> None:
    names = ("facts", "survey", "resources", "repeat", "together", "acting", "ends", "process", "batched", "again")
    assert [f for f in found(make, *names) if f.severity != "note" or f.code == "SRL-CHK-001"] == []


def test_a_specification_that_a_reset_changes_is_found() -> None:
    gym.register("Noting-v0", entry_point=Noting)  # type: ignore[arg-type]
    try:
        given = gym.spec("Noting-v0")
        stage = Stage(lambda mode: gym.make(given, disable_env_checker=True), SMALL, registered=given)
        fault = facts(stage).spec_fault
    finally:
        del gym.registry["Noting-v0"]
    assert "raised TypeError" in fault
    assert "'episode'" in fault


@pytest.mark.parametrize("kind", [int, np.int64])
def test_actions_that_only_python_may_give_are_a_crash_of_the_action(kind: type) -> None:
    class Strict(Hops):
        def step(self, action: Any) -> Told:
            if not isinstance(action, kind):
                raise TypeError("not that kind of number")
            return super().step(action)

    assert ("SRL-ACT-007" in codes(found(Strict, "acting"))) is (kind is int)


def test_a_broken_neighbour_is_no_interference() -> None:
    broken = at(5, raising(IndexError("row 5")))
    assert codes(found(broken, "together")) == set()


def test_six_values_are_one_fault() -> None:
    more = changed("step", lambda self, told: (*told, 0.5))
    assert {f.code for f in found(more, "survey") if f.severity != "note"} == {"SRL-API-004"}


@pytest.mark.parametrize("daemon", [True, False])
def test_threads_that_keep_a_process_alive_are_an_error(daemon: bool) -> None:
    def begin(self: Any) -> None:
        Walk.begin(self)
        threading.Thread(target=STOP.wait, daemon=daemon).start()

    told = [f for f in found(variant(begin=begin), "process") if f.code == "SRL-PRC-011"]
    assert [f.severity for f in told] == ["note" if daemon else "error"]
