"""Rules about rendering."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.render import Rendering
from steadyrl.checker.records import Died, crashed_in_graphics
from steadyrl.checker.rules.telling import of_split

_PICTURES = {"human", "rgb_array", "rgb_array_list"}


@rule(
    "SRL-RND-001",
    "render-fails",
    "error",
    "render",
    "a declared render mode does not work",
    "Return a uint8 array [height, width, 3] for rgb_array, a text for ansi, or do not declare the mode.",
)
def render_fails(rendering: Rendering) -> Iterator[Found]:
    """What is declared works."""
    for mode, why in rendering.fails.items():
        yield Found(f"Render mode {mode!r} is declared, but {why}.", {"key": mode, "value": why})


@rule(
    "SRL-RND-002",
    "render-fps-missing",
    "warning",
    "render",
    "no frame rate is declared",
    'Add "render_fps" to metadata, so that videos have the right speed.',
)
def fps_missing(rendering: Rendering) -> Iterator[Found]:
    """Pictures come with a frame rate."""
    pictures = _PICTURES & set(rendering.declared)
    good = isinstance(rendering.fps, int | float) and rendering.fps > 0
    if pictures and not good:
        yield Found(f"metadata has render_modes, but its render_fps is {rendering.fps!r}.", {"key": "render_fps"})


@rule(
    "SRL-RND-003",
    "render-disturbs",
    "error",
    "render",
    "rendering changes the course of an episode",
    "Draw from what is there: use no random numbers and change no state in render().",
)
def disturbs(rendering: Rendering) -> Iterator[Found]:
    """A film shows what would have happened without it."""
    yield from of_split(rendering.changed, "With pictures the same seed gave another course: {where}.")


@rule(
    "SRL-RND-004",
    "render-modes-invalid",
    "warning",
    "render",
    "render_modes is no list",
    'Declare metadata = {"render_modes": ["rgb_array"], "render_fps": 30}.',
)
def bad_modes(rendering: Rendering) -> Iterator[Found]:
    """metadata says which modes there are."""
    if rendering.bad_modes:
        yield Found(f"render_modes is {rendering.bad_modes}.", {"key": "render_modes", "value": rendering.bad_modes})


@rule(
    "SRL-RND-005",
    "render-untried",
    "note",
    "render",
    "a render mode could not be tried here",
    "Try it on a machine that has what it needs.",
)
def untried(rendering: Rendering) -> Iterator[Found]:
    """What the machine lacks is no fault of the environment."""
    for mode, why in rendering.untried.items():
        if mode != "human":
            yield Found(f"Render mode {mode!r} was not tried: {why.rstrip('.')}.", {"key": mode, "value": why})


@rule(
    "SRL-RND-006",
    "render-untried",
    "note",
    "died",
    "the process was ended by a signal while it drew",
    "Try it on a machine that has what it needs; for MuJoCo without a display, MUJOCO_GL=egl or osmesa may help.",
)
def crashed(died: Died) -> Iterator[Found]:
    """Graphics libraries end the process where they find no display."""
    if crashed_in_graphics(died):
        yield Found(f"Rendering ended the process by signal {-(died.status or 0)}.", {"value": died.status})


@rule(
    "SRL-RND-007",
    "close-fails",
    "error",
    "render",
    "close raises after something was drawn",
    "Let close() do nothing where there is nothing to close, and allow it twice.",
)
def close_fails(rendering: Rendering) -> Iterator[Found]:
    """A window or a picture buffer is closed once, and a second close does nothing."""
    if rendering.close is not None:
        fault = rendering.close
        yield Found(f"Closing it after rendering raised {fault.error}.", {"value": fault.error, "where": fault.where})
