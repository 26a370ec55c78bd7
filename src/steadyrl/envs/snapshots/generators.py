"""Random generators as plain values: NumPy's and Python's, with the seeds from which they spawn further ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from steadyrl.errors import UserError

_BITS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


def is_generator(value: Any) -> bool:
    """Whether this is a random generator whose state can be kept."""
    return type(value) in (np.random.Generator, np.random.RandomState, random.Random)


def bits_state(bits: Any) -> dict[str, Any] | None:
    """The state of a bit generator and of the seed sequence that `spawn` draws on; None where it is not NumPy's."""
    seeds = bits.seed_seq
    if _BITS.get(type(bits).__name__) is not type(bits) or type(seeds) not in (np.random.SeedSequence, type(None)):
        return None
    return {
        "kind": type(bits).__name__,
        "state": bits.state,
        "seeds": None if seeds is None else _seeds_state(seeds),
    }


def insist_on_position(kind: Any, state: Any) -> None:
    """Raise ValueError where a state points out of its own buffer: NumPy would read there, and end the process."""
    if kind == "MT19937":
        place, most = state["state"]["pos"], 624
    elif kind == "Philox":
        place, most = state["buffer_pos"], 4
    else:
        return
    if not 0 <= int(place) <= most:
        raise ValueError(f"its position is {place}, not between 0 and {most}")


def bits_of(state: dict[str, Any]) -> Any:
    """The bit generator with this state."""
    insist_on_position(state["kind"], state["state"])
    seeds = state["seeds"]
    made = _BITS[state["kind"]](0 if seeds is None else _seeds_of(seeds))
    if seeds is None and isinstance(made, np.random.MT19937):
        made._legacy_seeding(0)  # as RandomState(seed) does: there is no seed sequence then
    made.state = state["state"]
    return made


def python_state(generator: random.Random) -> dict[str, Any]:
    """The state of a generator of Python's `random`."""
    version, words, gauss = generator.getstate()
    return {"version": version, "words": np.array(words, dtype=np.uint64), "gauss": gauss}


def set_python_state(generator: random.Random, state: dict[str, Any]) -> None:
    """Let a generator of Python's `random` go on from this state."""
    generator.setstate((state["version"], tuple(int(word) for word in state["words"]), state["gauss"]))


def process_state() -> dict[str, Any]:
    """The state of the generators that NumPy and Python keep for the whole process."""
    return {
        "numpy": np.random.get_state(legacy=False),
        "python": python_state(random._inst),
    }


def set_process_state(state: dict[str, Any]) -> None:
    """Let the process's generators go on from this state.

    Raises:
        UserError: the state is damaged.
    """
    try:
        insist_on_position("MT19937", state["numpy"])
        np.random.set_state(state["numpy"])
        set_python_state(random._inst, state["python"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"The stored state of the process's random generators is damaged: {error}.",
            remedy="Use another checkpoint.",
            code="state-damaged",
        ) from error


def process_mark() -> tuple[Any, ...]:
    """What changes where somebody draws from the process's generators, cheap enough to be compared around a call."""
    state = np.random.get_state(legacy=False)["state"]
    return state["pos"], int(state["key"][0]), random.getstate()


def _seeds_state(seeds: np.random.SeedSequence) -> dict[str, Any]:
    entropy: Any = seeds.entropy
    return {
        "entropy": [int(x) for x in entropy] if isinstance(entropy, list | tuple | np.ndarray) else entropy,
        "spawn_key": [int(x) for x in seeds.spawn_key],
        "pool_size": int(seeds.pool_size),
        "children": int(seeds.n_children_spawned),
    }


def _seeds_of(state: dict[str, Any]) -> np.random.SeedSequence:
    return np.random.SeedSequence(
        state["entropy"],
        spawn_key=tuple(state["spawn_key"]),
        pool_size=state["pool_size"],
        n_children_spawned=state["children"],
    )
