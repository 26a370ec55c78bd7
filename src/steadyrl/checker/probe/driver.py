"""One instance of an environment, called as the interface says, whatever it returns or raises."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym

from steadyrl.checker.probe.clock import Clock
from steadyrl.checker.probe.values import brief
from steadyrl.checker.probe.world import COPIES
from steadyrl.errors import words


class Step(NamedTuple):
    """What a step told."""

    obs: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


@dataclass(frozen=True)
class Fault:
    """What an environment raised, in plain values.

    Attributes:
        phase: `make`, `reset`, `step`, `render` or `close`.
        step: Of the episode.
        error: Type and text.
        where: File and line of its own code.
        exits: It asked to end the process.
        library: The top package of the code that raised it.
    """

    phase: str
    step: int
    error: str
    where: str
    exits: bool = False
    library: str = ""


class Broken(Exception):  # noqa: N818 - it stops a play, and is no error of this program
    """The environment raised something."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.error)
        self.fault = fault


def fault_of(error: BaseException, phase: str, step: int) -> Fault:
    """The fault that an exception is."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}steadyrl{os.sep}checker{os.sep}" not in frame.filename]
    where = f"{os.path.basename(own[-1].filename)}, line {own[-1].lineno}" if own else ""
    tail, last = error.__traceback__, None
    while tail is not None:
        last, tail = tail.tb_frame, tail.tb_next
    library = str(last.f_globals.get("__name__", "")).partition(".")[0] if last is not None else ""
    exits = isinstance(error, SystemExit)
    text = f"{type(error).__name__}: {brief_words(error)}"
    return Fault(phase, step, text, where, exits, library)


def brief_words(error: BaseException) -> str:
    """The first line of what an error says."""
    return (words(error).splitlines() or [""])[0][:200]


@dataclass(frozen=True)
class Signature:
    """What the environment's own `reset` takes.

    Attributes:
        seed: `missing`, `required`, or its default in words.
        options: The same.
    """

    seed: str = "None"
    options: str = "None"


def signature_of(method: Callable[..., Any]) -> Signature:
    """What a `reset` takes; what cannot be told is taken to be right."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return Signature()
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def told(name: str) -> str:
        parameter = parameters.get(name)
        if parameter is None or parameter.kind is parameter.POSITIONAL_ONLY:
            return "None" if anything else "missing"
        return "required" if parameter.default is parameter.empty else brief(parameter.default)

    return Signature(told("seed"), told("options"))


class Tap(gym.Wrapper[Any, Any, Any, Any]):
    """Directly around the environment's own code: notes what that returns, and mends its form for the wrappers outside.

    Attributes:
        arity: Of the last reset and step, where it was not two or five values; else empty.
        flags: What the environment itself said of the last step, before a TimeLimit did.
        takes: The arguments of its reset.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.arity: dict[str, str] = {}
        self.flags: tuple[Any, Any] = (False, False)
        self.takes = signature_of(env.reset)

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The environment's own: this wrapper is no part of how to make it."""
        return self.env.spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset with the arguments that it takes."""
        given: dict[str, Any] = {}
        if self.takes.seed != "missing":
            given["seed"] = seed
        if self.takes.options == "required" or (self.takes.options != "missing" and options is not None):
            given["options"] = options
        result: Any = self.env.reset(**given)
        obs, info, told = mended_reset(result)
        self.arity.update({"reset": told} if told else {})
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step, with five values whatever comes."""
        step, told = mended_step(self.env.step(action))
        self.arity.update({"step": told} if told else {})
        self.flags = (step.terminated, step.truncated)
        return tuple(step)


def mended_reset(result: Any) -> tuple[Any, Any, str]:
    """Observation and info of what a reset returned, and what it was where that is not a pair."""
    if isinstance(result, tuple) and len(result) == 2:
        return result[0], result[1], ""
    if isinstance(result, list) and len(result) == 2 and isinstance(result[1], dict):
        return result[0], result[1], "a list"
    if isinstance(result, tuple) and len(result) > 2:
        return result[0], result[-1] if isinstance(result[-1], dict) else {}, f"{len(result)} values"
    return result, {}, f"one {type(result).__name__}"


def mended_step(result: Any) -> tuple[Step, str]:
    """What a step returned as five values, and what it was where it was something else."""
    if isinstance(result, tuple) and len(result) == 5:
        return Step(*result), ""
    if isinstance(result, tuple | list) and len(result) == 4:
        return Step(result[0], result[1], bool(result[2]), False, result[3]), "4 values"
    if isinstance(result, tuple | list) and len(result) >= 5:
        kind = "a list" if isinstance(result, list) else f"{len(result)} values"
        info = next((part for part in result[4:] if isinstance(part, dict)), {})
        return Step(result[0], result[1], result[2], result[3], info if len(result) > 5 else result[4]), kind
    return Step(result, 0.0, False, True, {}), f"{len(result)} values" if isinstance(result, tuple) else "one value"


class Driver:
    """One instance.

    Attributes:
        env: The environment with its wrappers, and the tap inside.
        tap: The innermost wrapper.
        steps: Of the running episode.
        seed: Its seed; None where it was reset without one.
        took: Seconds of the last call, without the time that others had the processor.
        idle: Those of them in which it waited for something.
        spent: Seconds of all calls.
        obs: The last observation.
        info: The last info.

    Args:
        env: As it was made.
        beat: Called before each call of the environment with phase, step and seed; afterwards with no phase.
    """

    def __init__(self, env: gym.Env[Any, Any], beat: Callable[[str, int, int | None], None]) -> None:
        self.env, self.tap = tapped(env)
        self._beat = beat
        self.steps = 0
        self.seed: int | None = None
        self.took = self.idle = self.spent = 0.0
        self.obs: Any = None
        self.info: Any = None

    @property
    def arity(self) -> dict[str, str]:
        """What reset and step returned, where that was not two and five values."""
        return self.tap.arity

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Start an episode.

        Raises:
            Broken: it raised something.
        """
        self.steps, self.seed = 0, seed
        result = self.call("reset", lambda: self.env.reset(seed=seed, options=options))
        obs, info, told = mended_reset(result)
        self.arity.update({"reset": told} if told else {})
        self.obs, self.info = obs, info
        return obs, info

    def step(self, action: Any) -> Step:
        """Take a step.

        Raises:
            Broken: it raised something.
        """
        self.steps += 1
        step, told = mended_step(self.call("step", lambda: self.env.step(action)))
        self.arity.update({"step": told} if told else {})
        self.obs, self.info = step.obs, step.info
        return step

    def close(self) -> None:
        """Close it; an error is of no interest here."""
        try:
            self.call("close", self.env.close)
        except Broken:
            return

    def call(self, phase: str, function: Callable[[], Any]) -> Any:
        """The result of some call of the environment.

        Raises:
            Broken: it raised something, a `sys.exit()` included.
        """
        self._beat(phase, self.steps, self.seed)
        clock = Clock()
        try:
            return function()
        except BaseException as error:
            COPIES.end_copy()
            raise Broken(fault_of(error, phase, self.steps)) from error
        finally:
            COPIES.end_copy()
            self._beat("", self.steps, self.seed)
            self.took, self.idle = clock.seconds()
            self.spent += self.took


def tapped(env: gym.Env[Any, Any]) -> tuple[gym.Env[Any, Any], Tap]:
    """The environment with a tap directly around its own code."""
    if not isinstance(env, gym.Wrapper):
        tap = Tap(env)
        return tap, tap
    layer: Any = env
    while isinstance(layer.env, gym.Wrapper):
        layer = layer.env
    tap = Tap(layer.env)
    layer.env = tap
    return env, tap
