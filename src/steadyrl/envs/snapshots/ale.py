"""The state of the Arcade Learning Environment's emulator, with the action that its "sticky actions" hold.

The emulator's own state (`cloneState` with its random generator) leaves out one thing that decides what comes next:
with `repeat_action_probability` above 0 each frame repeats the action of the frame before, and that action is told
nowhere. It is found by trial: with a generator that always repeats, the next frames show the held action; with one that
never does, the frames of each action that it may be. The first action with the same frames is as good as the held one:
they would differ only if it were repeated for longer than was looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import repeat
from typing import Any

from steadyrl.errors import RunFailedError

# At the usual probability of 0.25 an action is held for longer with a probability of 4e-15.
_FRAMES = 24
_GENERATOR = re.compile(rb"(?:\d+ ){624}\d+")  # std::mt19937 as text: its 624 words and the place of the next one
_ALWAYS, _NEVER = 0, 2197632  # words from which that generator makes the numbers 0 and 0.993, in [0, 1)


def save(ale: Any) -> dict[str, Any]:
    """The state of an emulator, which afterwards goes on as if nothing had happened."""
    system = ale.cloneState(include_rng=True).serialize()
    sticky = ale.getFloat("repeat_action_probability") > 0.0
    return {"version": _package().__version__, "system": system, "held": _held(ale, system) if sticky else None}


def load(ale: Any, state: Any) -> None:
    """Let an emulator of the same game go on from this state.

    Raises:
        RunFailedError: it was saved by another version of ale-py.
    """
    package = _package()
    if state["version"] != package.__version__:
        raise RunFailedError(
            f"The state was saved with ale-py {state['version']}, and this is {package.__version__}.",
            remedy=f"Install ale-py=={state['version']}, or start a new run.",
            code="snapshot-version",
        )
    system, held = state["system"], state["held"]
    if type(system) is not bytes:
        raise TypeError("the emulator's state is no bytes")
    if held is not None:
        _hold(ale, system, held)
    _put(ale, system)


def _held(ale: Any, system: bytes) -> int:
    """The first action whose frames are those of the action that the emulator holds."""
    if ale.game_over():  # no frame would follow; the held action outlives a reset
        ale.reset_game()
    base = ale.cloneState(include_rng=True).serialize()
    shown = list(_frames(ale, base, _ALWAYS, 0))
    actions: list[int] = [action.value for action in [*ale.getMinimalActionSet(), *ale.getLegalActionSet()]]
    for action in actions:
        if all(one == other for one, other in zip(_frames(ale, base, _NEVER, action), shown, strict=True)):
            break
    else:
        raise RunFailedError(
            "The action that the Atari emulator holds (repeat_action_probability) was not found.",
            remedy="Make the environment with repeat_action_probability=0.0.",
            code="snapshot-inexact",
        )
    _hold(ale, base, action)
    _put(ale, system)
    return action


def _frames(ale: Any, system: bytes, word: int, action: int) -> Iterable[bytes]:
    """The emulator's state after each of the next frames, without its generator."""
    _put(ale, _with_generator(system, word))
    for told in repeat(_package().Action(action), _FRAMES):
        ale.act(told)
        yield ale.cloneState(include_rng=False).serialize()


def _hold(ale: Any, system: bytes, action: int) -> None:
    _put(ale, _with_generator(system, _NEVER))
    ale.act(_package().Action(action))


def _put(ale: Any, system: bytes) -> None:
    ale.restoreState(_package().ALEState(system))


def _with_generator(system: bytes, word: int) -> bytes:
    """A state whose generator has nothing but this word; of the same length, filled up with spaces."""
    found = list(_GENERATOR.finditer(system))  # the console's own comes first, which games without it leave alone
    if len(found) != 2:
        raise RunFailedError(
            "The random generator of the Atari emulator is stored in an unknown way by this version of ale-py.",
            remedy="Make the environment with repeat_action_probability=0.0.",
            code="snapshot-inexact",
        )
    text = b" ".join([str(word).encode()] * 624 + [b"0"])
    start, end = found[-1].span()
    return system[:start] + text[: end - start].ljust(end - start) + system[end:]


def _package() -> Any:
    return sys.modules["ale_py"]
