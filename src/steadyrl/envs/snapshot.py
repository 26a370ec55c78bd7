"""The state of any environment, saved and restored exactly, without pickle.

`native` reads and sets the attributes of the environment and of every wrapper around it. Where one of them holds
something whose state cannot be read (Box2D's world, say), `replay` runs the episode once more from its recorded start.
Both are compared with what was saved. What can be exact in neither way is said, with the reason.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from steadyrl.envs.snapshots.encode import OpaqueError
from steadyrl.envs.snapshots.native import obstacle, restore_layers, save_layers
from steadyrl.envs.snapshots.replay import replay, save_episode
from steadyrl.envs.snapshots.state import Ability, State, plain_id
from steadyrl.envs.snapshots.values import Value, flatten, unflatten
from steadyrl.envs.trace import MAX_ACTIONS, EpisodeTrace
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import RunFailedError, UserError, words

__all__ = [
    "Ability",
    "State",
    "block_restore",
    "block_state",
    "flatten",
    "how",
    "restore",
    "save",
    "unflatten",
]


def how(env: Canonical) -> Ability:
    """How the state of an environment can be saved, as far as it can be known; best asked after its first reset.

    That a replay is exact is seen only when it is made.
    """
    try:
        flatten(env.last)
    except UserError as error:
        return Ability("none", f"its observations cannot be kept: {error.message}")
    reason = obstacle(env.env)
    return _without_native(env, reason) if reason else Ability("native")


def save(env: Canonical) -> State:
    """The state of an environment between two of its steps.

    Raises:
        RunFailedError: it can be saved in neither way (`how` says why), or its own `get_state()` failed.
    """
    around = {"elapsed": env.elapsed, "last": env.last, "notes": list(env._notes)}
    try:
        content = save_layers(env.env, env.name, env.draws)
        kind = "native"
    except OpaqueError as reason:
        ability = _without_native(env, str(reason))
        if ability.kind == "none":
            raise RunFailedError(
                f"The state of the environment {env.name} cannot be saved: {ability.reason}.",
                remedy="Give it get_state() and set_state(state), or start the episode anew where the run is resumed.",
                code="snapshot-none",
            ) from None
        content = save_episode(env)
        kind = "replay"
    trace = _trace_value(env.trace)
    return State.made(kind, env.name, content | {"canonical": around | {"trace": trace}})  # type: ignore[arg-type]


def restore(env: Canonical, state: State) -> Any:
    """Let a newly made environment of the same kind go on where another was saved.

    Returns:
        The observation that is the last one there, the caller's own.

    Raises:
        UserError: the state is of another environment, or damaged.
        RunFailedError: what was restored is not exactly what was saved; the message says why.
    """
    if state.env_id != plain_id(env.name):
        raise UserError(
            f"The state is of the environment {state.env_id}, and this is {env.name}.",
            remedy="Make the environment that was saved.",
            code="snapshot-kind",
        )
    content = state.content
    try:
        around = content["canonical"]
        trace = _trace_of(around["trace"])
        env._notes[:] = around["notes"]
        if state.kind == "replay":
            replay(env, trace, content, around["last"])
            trace.start = content["start"]
        else:
            restore_layers(env.env, env.name, content)
        env.elapsed, env.last = int(around["elapsed"]), copy.deepcopy(around["last"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"The state of the environment {env.name} is damaged: {type(error).__name__}: {words(error)}.",
            remedy="Use another checkpoint.",
            code="state-damaged",
        ) from error
    env.trace, env.kind = trace, state.kind
    return copy.deepcopy(env.last)


def block_abilities(envs: Sequence[Canonical]) -> list[Ability]:
    """How the state of each environment can be saved."""
    return [how(env) for env in envs]


def block_state(envs: Sequence[Canonical]) -> list[Value]:
    """The states of environments of one process, as plain values.

    Raises:
        RunFailedError: one of them cannot be saved.
    """
    return [save(env).value() for env in envs]


def block_restore(envs: Sequence[Canonical], states: Sequence[Value]) -> list[Any]:
    """Let newly made environments go on; the last observation of each.

    Raises:
        UserError: the states are of others, of another number, or damaged.
        RunFailedError: one was not restored exactly.
    """
    if len(states) != len(envs):
        raise UserError(
            f"{len(states)} states for {len(envs)} environments.",
            remedy="Use as many environments as were saved.",
            code="snapshot-kind",
        )
    return [restore(env, State.of(state)) for env, state in zip(envs, states, strict=True)]


def _without_native(env: Canonical, reason: str) -> Ability:
    trace = env.trace
    if env.outlived:
        return Ability("none", f"{reason}, and running its episode again need not lead there: {env.outlived}")
    if not trace.whole:
        return Ability("none", f"{reason}, and its episode is longer than the {MAX_ACTIONS} actions that are kept")
    try:
        flatten([trace.options, trace.actions[-1:]])
    except UserError as error:
        return Ability("none", f"{reason}, and its options or actions cannot be kept: {error.message}")
    return Ability("replay", reason)


def _trace_value(trace: EpisodeTrace) -> dict[str, Value]:
    return {
        "seed": None if trace.seed is None else int(trace.seed),
        "options": trace.options,
        "random_state": trace.random_state,
        "actions": _packed(trace.actions) if trace.whole else [],
        "whole": trace.whole,
        "begun": trace.begun,
        "seen": trace.seen,
        "marks": np.array(trace.marks, dtype=np.uint32),
    }


def _trace_of(value: dict[str, Value]) -> EpisodeTrace:
    actions = value["actions"]
    return EpisodeTrace(
        seed=value["seed"],
        options=value["options"],
        random_state=value["random_state"],
        actions=list(actions.copy()) if isinstance(actions, np.ndarray) else list(actions),
        whole=value["whole"],
        begun=value["begun"],
        seen=value["seen"],
        marks=[int(mark) for mark in value["marks"]],
    )


def _packed(actions: list[Any]) -> Any:
    """Actions of one shape and dtype as one array, [T, ...]."""
    first = actions[0] if actions else None
    if not isinstance(first, np.generic | np.ndarray) or len({action.shape for action in actions}) > 1:
        return list(actions)
    return np.frombuffer(b"".join(actions), dtype=first.dtype).reshape(len(actions), *first.shape).copy()
