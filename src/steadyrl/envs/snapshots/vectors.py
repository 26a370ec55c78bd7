"""The state of a Gymnasium vector environment: of its environments one by one, or of the whole as it is.

One whose environments are `Canonical` offers `abilities()`, `states()` and `restore_states(states)`, wherever these
environments live. Any other is read like a single environment, natively or not at all: nobody recorded its episodes.
"""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AsyncVectorEnv, VectorEnv

from steadyrl.envs.snapshots.encode import OpaqueError
from steadyrl.envs.snapshots.native import obstacle, restore_layers, save_layers
from steadyrl.envs.snapshots.state import Ability, State
from steadyrl.envs.snapshots.values import Value
from steadyrl.errors import RunFailedError, UserError


def by_environment(env: VectorEnv[Any, Any, Any]) -> bool:
    """Whether the vector environment saves its environments one by one."""
    return hasattr(env, "restore_states")


def vector_ability(env: VectorEnv[Any, Any, Any]) -> Ability:
    """How the state of the vector environment can be saved; of its environments the least able decides."""
    if by_environment(env):
        abilities: list[Ability] = env.abilities()  # type: ignore[attr-defined]
        return min(abilities, key=lambda ability: ("none", "replay", "native").index(ability.kind))
    reason = _reason(env)
    return Ability("none", reason) if reason else Ability("native")


def vector_state(env: VectorEnv[Any, Any, Any], name: str) -> Value:
    """The state of the vector environment as a plain value.

    Raises:
        RunFailedError: it cannot be saved; `vector_ability` says why.
    """
    if by_environment(env):
        return {"each": env.states()}  # type: ignore[attr-defined]
    reason = _reason(env)
    if not reason:
        try:
            return {"whole": State.made("native", name, save_layers(env, name)).value()}
        except OpaqueError as opaque:
            reason = str(opaque)
    raise RunFailedError(
        f"The state of the vector environment {name} cannot be saved: {reason}.",
        remedy="Use vec='sync' or vec='async', which save every environment by itself.",
        code="snapshot-none",
    )


def vector_restore(env: VectorEnv[Any, Any, Any], name: str, state: Value) -> Any:
    """Put back what `vector_state` gave; a batch of last observations, None where only the caller knows them.

    Raises:
        UserError: the state is damaged or of another kind of vector environment.
        RunFailedError: it was not restored exactly.
    """
    if type(state) is not dict or state.keys() != {"each" if by_environment(env) else "whole"}:
        raise UserError(
            f"The state was saved from another kind of vector environment than {name} is now.",
            remedy="Go on with the same vec= as before.",
            code="snapshot-kind",
        )
    if by_environment(env):
        return env.restore_states(state["each"])  # type: ignore[attr-defined]
    restore_layers(env, name, State.of(state["whole"]).content)
    return None


def _reason(env: VectorEnv[Any, Any, Any]) -> str:
    if isinstance(env.unwrapped, AsyncVectorEnv):
        return "its environments live in processes that do not tell their state"
    return obstacle(env)
