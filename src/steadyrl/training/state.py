"""Everything that a training goes on from, as one tree; and the tree put back into a fresh training."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.spaces import GraphInstance
from torch import Tensor

from steadyrl.envs.snapshots.state import Ability
from steadyrl.errors import UserError
from steadyrl.training.generators import generators_state, restore_generators

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent

_TENSOR = "tensor"  # the only key of what stands for a tensor
_ESCAPED = re.compile("tensor_*")  # a part of an observation may be called so too: it gets one underscore more


def training_state(agent: Agent, ability: Ability) -> dict[str, Any]:
    """Weights, optimisers, buffers, normalisers, counters, random streams and environments; a replay is apart.

    Its leaves are JSON values and arrays. What is in it belongs to the caller.
    """
    loop = agent.loop
    state = {
        "policy": agent.policy.state_dict(),
        "value_scale": agent.policy.value_scale,
        "notes": dict(agent.policy.notes),
        "loop": loop.state_dict(),
        "generators": generators_state(),
        "predict": agent.predict_stream.state_dict(),
        "told": sorted(agent.told),
    }
    envs = loop.venv.state() if ability.kind != "none" else None
    return {**_as_arrays(state), "envs": _copied(envs)}


def restore_training(agent: Agent, state: dict[str, Any]) -> None:
    """Put what `training_state` gave into an agent of the same configuration that has not yet learnt.

    Raises:
        UserError: a part is missing, or of another type, shape or name than this agent's.
        RunFailedError: an environment does not come to the state that it was in.
    """
    loop = agent.loop
    found = {name: part if name == "envs" else _as_tensors(part) for name, part in state.items()}
    generators = generators_state()
    generators["python"]["gauss"] = None  # there is one after every other draw of a normal number
    own = {
        "policy": agent.policy.state_dict(),
        "value_scale": agent.policy.value_scale,
        "notes": None,
        "loop": {name: None if name == "rollout" else part for name, part in loop.state_dict().items()},
        "generators": generators,
        "predict": agent.predict_stream.state_dict(),
        "told": sorted(agent.told),
    }
    require_alike(own, {name: part for name, part in found.items() if name not in ("envs", "replay", "session")})
    if found["envs"] is not None:
        loop.venv.restore(found["envs"])
    agent.policy.load_state_dict(found["policy"])
    agent.policy.value_scale = found["value_scale"]
    agent.policy.notes.update(found["notes"])
    loop.load_state_dict(found["loop"])
    if found["envs"] is None:
        name = f"resume-{loop.counters.timesteps}"
        loop.start_anew([agent.seeds.stream("env", name, i).seed() for i in range(loop.venv.num_envs)])
    agent.predict_stream.load_state_dict(found["predict"])
    agent.told = set(found["told"])
    restore_generators(found["generators"])


def require_alike(own: Any, found: Any, place: str = "") -> None:
    """Raises UserError where a state does not have the form of this agent's own; what is None there may be anything.

    Keys, types, shapes and dtypes have to be the same, and so have texts (names of streams and generators) and the
    keys of streams, which follow from the seed.
    """
    if own is None:
        return
    if isinstance(own, dict):
        if not isinstance(found, dict) or found.keys() != own.keys():
            names = sorted(set(own) ^ set(found)) if isinstance(found, dict) else ["all of it"]
            raise _unlike(place or "the state", f"not the parts of this agent ({', '.join(map(str, names[:5]))})")
        if own.keys() >= {"name", "key", "counter"} and own["key"] != found["key"]:
            raise _unlike(place, "a random stream of another seed")
        for name, part in own.items():
            require_alike(part, found[name], f"{place}/{name}" if place else str(name))
    elif isinstance(own, Tensor | np.ndarray):
        same = type(own) is type(found) and own.shape == found.shape and own.dtype == found.dtype
        if not same:
            raise _unlike(place, f"{_form(found)}, not {_form(own)}")
    elif type(own) is not type(found) or (isinstance(own, str) and own != found):
        is_text = isinstance(own, str) and isinstance(found, str)
        raise _unlike(place, f"{found[:80]!r}, not {own!r}" if is_text else f"{_form(found)}, not {_form(own)}")


def _form(value: Any) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return f"{type(value).__name__} {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return type(value).__name__


def _unlike(place: str, what: str) -> UserError:
    return UserError(
        f"The checkpoint's '{place}' is {what}.",
        remedy="Go on with the configuration, environment and version that it was saved with.",
        code="bad-state",
    )


def _as_arrays(value: Any) -> Any:
    """The tree with tensors as marked arrays, all of them copies."""
    if isinstance(value, Tensor):
        return {_TENSOR: value.detach().cpu().numpy().copy()}
    if isinstance(value, np.ndarray | np.generic):
        return np.array(value)
    if isinstance(value, dict):
        alone = next(iter(value)) if len(value) == 1 else None
        if isinstance(alone, str) and _ESCAPED.fullmatch(alone):
            return {f"{alone}_": _as_arrays(value[alone])}
        return {name: _as_arrays(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_arrays(item) for item in value]
    return value


def _copied(value: Any) -> Any:
    """A plain value with arrays of its own, in the same order in memory: the last observation is an environment's."""
    if isinstance(value, np.ndarray):
        copy = value.copy(order="K")
        copy.flags.writeable = value.flags.writeable
        return copy
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, GraphInstance):
        return GraphInstance(*map(_copied, value))
    return type(value)(map(_copied, value)) if isinstance(value, list | tuple) else value


def _as_tensors(value: Any) -> Any:
    """The inverse of `_as_arrays`."""
    if isinstance(value, dict):
        if value.keys() == {_TENSOR}:
            return torch.from_numpy(np.array(value[_TENSOR]))
        alone = next(iter(value)) if len(value) == 1 else None
        if isinstance(alone, str) and _ESCAPED.fullmatch(alone):
            return {alone[:-1]: _as_tensors(value[alone])}
        return {name: _as_tensors(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_tensors(item) for item in value]
    return value
