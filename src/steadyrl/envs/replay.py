"""A recorded failure run again in this process: the same environment, random state and actions, no learning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from steadyrl.envs.drawing import drawing_in, parted
from steadyrl.envs.failure import Failure
from steadyrl.envs.failures import Record
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.snapshots.generators import insist_on_position
from steadyrl.envs.wrappers import Canonical, failure_in_making, failure_of
from steadyrl.errors import RunFailedError, UserError
from steadyrl.spaces.tree import join

_ABSURD = 1e18  # as the vector adapter has it
_GENERATORS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.MT19937, np.random.SFC64)
}


@dataclass(frozen=True)
class Outcome:
    """What running a failure again showed.

    Attributes:
        result: `same` error at the same place, `other` error or place, or `none`.
        failure: What failed now.
        cause: What the environment raised; None where nothing did, or a number was not finite.
        steps: Steps taken.
        note: What else is worth knowing.
    """

    result: Literal["same", "other", "none"]
    failure: Failure | None
    cause: BaseException | None
    steps: int
    note: str = ""


def replay(record: Record, factory: EnvFactory, render_mode: str | None = None) -> Outcome:
    """Make the environment, give it the recorded seed or random state, take the recorded actions.

    Raises:
        UserError: the record cannot be run: not all actions were kept, its random state is none, or the environment
            cannot be made or breaks the Gymnasium interface.
    """
    recorded = record.failure
    if not recorded.whole:
        raise UserError(
            "This failure cannot be run again: the episode was too long or its actions of too many kinds for all to be "
            "kept.",
            remedy="Look at the traceback in the file.",
            code="bad-failure",
        )
    generator, drawing = _generators(recorded.random_state)
    try:
        env = factory(render_mode, index=recorded.env_index)
    except UserError as error:
        if recorded.phase != "make" or error.__cause__ is None:
            raise
        found = failure_in_making(recorded.env_index, error.__cause__)
        return Outcome(_compared(recorded, found), found, error.__cause__, 0)
    try:
        for layer, own in zip(drawing_in(env), drawing, strict=False):
            layer.generator = own
        outcome = _run(env, recorded, generator)
    except BaseException:
        env.close()
        raise
    return _closed(env, recorded, outcome)


def _run(env: Canonical, recorded: Failure, generator: np.random.Generator | None) -> Outcome:
    """The episode, until something fails or the recorded actions have been taken."""
    own: Any = env.unwrapped
    if generator is not None:
        own._np_random = generator
    note = ""
    try:
        obs, _ = env.reset(seed=recorded.seed, options=recorded.options)
        strange = _strange(obs, None)
        for action in recorded.actions:
            if strange:
                break
            obs, reward, terminated, truncated, _ = env.step(action)
            strange = _strange(obs, reward)
            if (terminated or truncated) and env.elapsed < len(recorded.actions):
                note = f"The episode ended by itself in step {env.elapsed}, so this is not what was recorded."
                break
        if strange:
            phase: Literal["step", "reset"] = "step" if env.elapsed else "reset"
            found = replace(recorded, phase=phase, step=env.elapsed, error=strange, traceback="")
            return Outcome(_compared(recorded, found), found, None, env.elapsed)
    except RunFailedError as error:
        if error.failure is None:
            raise
        return Outcome(_compared(recorded, error.failure), error.failure, error.__cause__, env.elapsed)
    if recorded.phase in ("reset", "step") and recorded.seed is None and generator is None:
        note = f"{note} Its random numbers at the beginning of the episode were not known.".lstrip()
    return Outcome("none", None, None, env.elapsed, note)


def _closed(env: Canonical, recorded: Failure, outcome: Outcome) -> Outcome:
    """The outcome once the environment is closed, which is where it may have failed."""
    if outcome.result != "none" or recorded.phase != "close":
        env.close()
        return outcome
    try:
        env.env.close()
    except Exception as error:
        found = failure_of(env, "close", error)
        return Outcome(_compared(recorded, found), found, error, env.elapsed)
    return outcome


def _compared(recorded: Failure, found: Failure) -> Literal["same", "other"]:
    """Whether both failed at the same place with the same error, whatever addresses stand in its text."""
    place = (found.phase, found.step) == (recorded.phase, recorded.step)
    texts = [re.sub(r"0x[0-9a-fA-F]+", "0x", failure.error) for failure in (recorded, found)]
    return "same" if place and (texts[1] == texts[0] or (not found.traceback and texts[1] in texts[0])) else "other"


def _strange(obs: Any, reward: float | None) -> str:
    """In words, the first number that is not finite or is absurd; empty where there is none."""
    parts = {f"observation at '{path}'" if path else "observation": part for path, part in _parts(obs, "")}
    if reward is not None:
        parts["reward"] = reward
    for what, part in parts.items():
        values = np.asarray(part)
        if values.dtype.kind not in "iuf":
            continue
        with np.errstate(invalid="ignore"):
            bad = np.argwhere(~(np.abs(values.reshape(-1).astype(np.float64)) <= _ABSURD))
        if len(bad):
            entry = int(bad[0, 0])
            place = f" entry {entry} of" if values.ndim else ""
            return f"{values.reshape(-1)[entry]!s} as{place} its {what}"
    return ""


def _parts(obs: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The leaves of an observation with their paths."""
    if not isinstance(obs, dict | tuple):
        yield path, obs
        return
    for key, part in obs.items() if isinstance(obs, dict) else enumerate(obs):
        yield from _parts(part, join(path, key))


def _generators(state: dict[str, Any] | None) -> tuple[np.random.Generator | None, list[np.random.Generator]]:
    """That of the environment itself, None where it has none, and those of its wrappers, outermost first."""
    if state is None:
        return None, []
    try:
        own, wrappers = parted(state)
        return None if own is None else _generator(own), [_generator(each) for each in wrappers]
    except (ValueError, TypeError, KeyError, OverflowError, IndexError) as error:
        raise UserError(
            f"The field 'random_state' is no state of a generator: {type(error).__name__}: {error}.",
            remedy="Give a file that a run wrote into its folder failures.",
            code="bad-failure",
        ) from error


def _generator(state: Any) -> np.random.Generator:
    told = state.get("bit_generator") if isinstance(state, dict) else state
    kind = _GENERATORS.get(str(told))
    if kind is None:
        raise ValueError(f"the generator {str(told)[:40]!r} is not known")
    insist_on_position(kind.__name__, state)
    bits = kind()
    bits.state = state
    return np.random.Generator(bits)
