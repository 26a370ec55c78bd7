"""The state of an environment reached again: its episode is run once more from its recorded start.

Before reset, what can be read of the wrappers, and the random generators of the environment itself, are recorded. A
replay puts these back, resets and takes all actions; observations and rewards on the way hash to what was recorded, the
last observation is the same, and so are all attributes of the environment that can be read. Then the wrappers get the
attributes that they had when the state was saved: they may count across episodes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from steadyrl.envs.drawing import drawing_in, parted
from steadyrl.envs.snapshots.decode import Decoder
from steadyrl.envs.snapshots.encode import Encoder
from steadyrl.envs.snapshots.foreign import is_reset
from steadyrl.envs.snapshots.generators import bits_of, process_state, set_process_state
from steadyrl.envs.snapshots.layers import layers_of
from steadyrl.envs.snapshots.native import first_difference
from steadyrl.envs.snapshots.values import Value, digest
from steadyrl.envs.trace import MARK_EVERY, EpisodeTrace
from steadyrl.errors import RunFailedError, SteadyRLError

if TYPE_CHECKING:
    from steadyrl.envs.wrappers import Canonical


def readable(env: Any, process: bool) -> Value:
    """What can be read of an environment that is opaque: its wrappers and its random generators."""
    return {"layers": Encoder(layers_of(env)).around(), "process": process_state() if process else None}


def start_of(env: Any, process: bool) -> Value | None:
    """What can be read before reset; None where even that fails, which a replay will find out."""
    try:
        return readable(env, process)
    except Exception:
        return None


def save_episode(env: Canonical) -> Value:
    """How the episode of an environment began, and what can be read of it now."""
    start = env.trace.start
    if start is not None and not env.draws:
        start = start | {"process": None}  # it is nobody's business to set generators that it does not draw from
    return {"start": start, "now": readable(env.env, env.draws), "inside": _inside(env)}


def opaque_parts(env: Any) -> dict[tuple[int, str], Any]:
    """What cannot be read of an environment, by layer and attribute; nothing where even that fails."""
    try:
        return Encoder(layers_of(env), probe=True).opaque()
    except Exception:
        return {}


def outlived(env: Any, before: dict[tuple[int, str], Any]) -> str:
    """What of `before` a reset has left in place, in words; empty where there is nothing.

    Earlier episodes may have left something in it, as in a Box2D world, whose order of contacts remembers them: a
    replay that starts with a new one then goes another way, perhaps only after the observations compared.
    """
    now = opaque_parts(env)
    layers = layers_of(env)
    for (i, name), value in before.items():
        if now.get((i, name)) is value and not is_reset(layers[i], value):
            return f"{type(layers[i]).__name__}.{name} outlives its episodes and cannot be read"
    return ""


def replay(env: Canonical, trace: EpisodeTrace, content: Value, last: Value) -> None:
    """Run the episode of `trace` in `env`, and compare.

    Args:
        env: The environment, with all its wrappers.
        trace: Of the episode.
        content: What `save_episode` gave.
        last: The observation that the episode ends with.

    Raises:
        RunFailedError: something on the way is not what was recorded.
    """
    start, now = content["start"], content["now"]
    if start is not None:
        _put(env, start)
    elif trace.random_state is not None:
        own, wrappers = parted(trace.random_state)
        if own is not None:
            env.unwrapped._np_random = _generator_of(own)
        for layer, state in zip(drawing_in(env), wrappers, strict=True):
            layer.generator = _generator_of(state)
    env.kind = "replay"  # so that it hashes on the way
    try:
        env.reset(seed=trace.seed, options=copy.deepcopy(trace.options))
        for action in trace.actions:
            env.step(action)
    except SteadyRLError as error:
        raise _inexact(env, f"on the way {error.message[:1].lower()}{error.message[1:].rstrip('.')}") from error
    _compare(env, trace, content, last)
    _put(env, now)


def _inside(env: Canonical) -> Value:
    """The attributes of the environment itself that can be read, its spaces aside: others may draw from these."""
    attributes = Encoder(layers_of(env.env)).innermost()
    return {name: node for name, node in attributes.items() if not (isinstance(node, dict) and "~space" in node)}


def _compare(env: Canonical, trace: EpisodeTrace, content: Value, last: Value) -> None:
    again = env.trace
    if trace.seen is not None and again.seen != trace.seen:
        pairs = zip(trace.marks, again.marks, strict=False)
        same = next((i for i, (one, other) in enumerate(pairs) if one != other), len(trace.marks))
        raise _inexact(env, f"an observation or a reward {_between(same, len(trace.actions))} is another one")
    if digest(env.last) != digest(last):
        raise _inexact(env, f"the observation after {len(trace.actions)} steps is another one")
    inside = _inside(env)
    if digest(content["inside"]) != digest(inside):
        raise _inexact(env, f"the environment differs {first_difference(content['inside'], inside)}")


def _put(env: Canonical, part: Value) -> None:
    Decoder(layers_of(env.env), env.name).layers(part["layers"])
    if part["process"] is not None:
        set_process_state(part["process"])


def _generator_of(state: dict[str, Any]) -> np.random.Generator:
    return np.random.Generator(bits_of({"kind": state["bit_generator"], "state": state, "seeds": None}))


def _between(mark: int, steps: int) -> str:
    if mark == 0:
        return "at reset"
    return f"in steps {(mark - 1) * MARK_EVERY + 1} to {min(mark * MARK_EVERY, steps)}"


def _inexact(env: Canonical, why: str) -> RunFailedError:
    return RunFailedError(
        f"The state of the environment {env.name} was not reached again exactly by running its episode once more: "
        f"{why}.",
        remedy="It depends on more than its seed, its generators and the actions, such as earlier episodes: give it "
        "get_state() and set_state(state), or start the episode anew.",
        code="snapshot-inexact",
    )
