"""Whether the declared ways to render work."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Broken, Driver, Fault
from steadyrl.checker.probe.play import Split, over, play, split
from steadyrl.checker.probe.policies import act, at_random
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import brief
from steadyrl.errors import SteadyRLError

# Errors from within these say what the machine lacks: a display, a driver, a package.
_GRAPHICS = {
    "pygame",
    "mujoco",
    "glfw",
    "OpenGL",
    "pyglet",
    "matplotlib",
    "cv2",
    "Xlib",
    "tkinter",
    "ctypes",
    "moviepy",
    "imageio",
    "PIL",
}
_NOT_TRIED = ("human",)  # opens a window
_PICTURES, _FEW = 300, 4  # of a mode, and the fewest of a slow one
_PICTURES_S, _QUICK_S = 0.4, 0.1


@dataclass
class Rendering:
    """What came of rendering.

    Attributes:
        declared: The modes.
        fps: The declared frame rate.
        fails: Mode -> what is wrong.
        untried: Mode -> why it was not tried.
        changed: Where a play with pictures left the course of the one without.
        bad_modes: The declaration itself where it is no list of words.
        close: What closing raised after pictures had been made.
    """

    declared: list[Any] = field(default_factory=list)
    fps: Any = None
    fails: dict[str, str] = field(default_factory=dict)
    untried: dict[str, str] = field(default_factory=dict)
    changed: Split | None = None
    bad_modes: str = ""
    close: Fault | None = None


def rendering(stage: Stage, metadata: dict[str, Any]) -> Rendering:
    """Try each declared mode but those that open a window."""
    modes = metadata.get("render_modes", [])
    found = Rendering(fps=metadata.get("render_fps"))
    if not isinstance(modes, list | tuple | set | frozenset):
        found.bad_modes = brief(modes)
        return found
    found.declared = sorted(str(mode) for mode in modes if mode is not None)
    for mode in found.declared:
        if mode in _NOT_TRIED:
            found.untried[mode] = "it opens a window"
        else:
            _try(stage, mode, found)
    return found


def _try(stage: Stage, mode: str, found: Rendering) -> None:
    try:
        driver = stage.drive(mode)
    except Broken as broken:
        _fault(found, mode, broken)
        return
    except SteadyRLError as error:
        found.untried[mode] = error.message
        return
    try:
        if driver.env.render_mode != mode:
            found.fails[mode] = f"the environment that was asked for it has render_mode {driver.env.render_mode!r}"
            return
        wrong = _pictures(driver, mode, _QUICK_S if stage.plan.quick else _PICTURES_S)
        if wrong:
            found.fails[mode] = wrong
        elif found.changed is None:
            found.changed = _disturbs(stage, driver)
    except Broken as broken:
        _fault(found, mode, broken)
    finally:
        _close(driver, found)


def _close(driver: Driver, found: Rendering) -> None:
    """Twice, as anywhere else."""
    try:
        for _ in range(2):
            driver.call("close", driver.env.close)
    except Broken as broken:
        if not _lacking(broken.fault):
            found.close = found.close or broken.fault


def _fault(found: Rendering, mode: str, broken: Broken) -> None:
    fault = broken.fault
    if _lacking(fault):
        found.untried[mode] = fault.error
    elif fault.phase not in ("step", "reset"):  # these are found elsewhere
        found.fails[mode] = f"{fault.phase} raised {fault.error}" + (f" ({fault.where})" if fault.where else "")


def _lacking(fault: Fault) -> bool:
    """Whether the machine lacks what it takes."""
    missing = re.search(r"No module named '(\w+)", fault.error)
    if missing:  # of a package that nobody knows it cannot be said that the machine lacks it
        return missing[1] in _GRAPHICS
    return fault.library in _GRAPHICS or "DependencyNotInstalled" in fault.error or "ImportError" in fault.error


def _pictures(driver: Driver, mode: str, limit_s: float) -> str:
    """What is wrong with what is drawn at a reset and in some episodes, their ends included, in words."""
    policy, first, spent = at_random(driver.env.action_space)(SEED), None, driver.spent
    driver.reset(seed=SEED)
    for number in range(_PICTURES):
        picture = driver.call("render", driver.env.render)
        wrong = _wrong(picture, mode) or _other_size(first, picture)
        if wrong:
            return f"render() returned {wrong}"
        first = picture if first is None else first
        if driver.steps and any(map(bool, driver.tap.flags)):
            driver.reset()
        elif driver.spent - spent > limit_s and number >= _FEW:
            break
        else:
            driver.step(act(policy, driver))
    return ""


def _other_size(first: Any, picture: Any) -> str:
    """In words, for films: all pictures are of one size."""
    if isinstance(first, np.ndarray) and isinstance(picture, np.ndarray) and first.shape != picture.shape:
        return f"an array of shape {picture.shape} after one of {first.shape}"
    return ""


def _wrong(picture: Any, mode: str) -> str:
    if mode.endswith("_list"):
        return "" if isinstance(picture, list) else f"a {type(picture).__name__} instead of a list"
    if mode == "rgb_array":
        if not isinstance(picture, np.ndarray):
            return f"{brief(picture)} ({type(picture).__name__}) instead of an array"
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] not in (3, 4):
            return f"{brief(picture)} instead of uint8 [height, width, 3]"
    if mode == "ansi" and not isinstance(picture, str | io.StringIO):
        return f"{brief(picture)} ({type(picture).__name__}) instead of a text"
    return ""


def _disturbs(stage: Stage, driver: Driver) -> Split | None:
    """Where drawing, or the render mode alone, changes the course of an episode."""
    policy, steps = at_random(driver.env.action_space), 30
    one, again = (play(driver, policy, SEED, steps, cpu_s=0.4) for _ in range(2))
    if split(one, again) is not None:
        return None

    def draw(number: int, action: Any, step: Any) -> None:
        if not over(step):
            driver.call("render", driver.env.render)

    drawn = split(one, play(driver, policy, SEED, steps, cpu_s=1.0, after=draw))
    if drawn is not None:
        return drawn
    plain = [stage.drive() for _ in range(2)]
    courses = [play(each, policy, SEED, steps, cpu_s=0.4) for each in plain]
    for each in plain:
        each.close()
    return None if split(*courses) is not None else split(courses[0], one)
