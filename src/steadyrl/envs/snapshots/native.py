"""The state of an environment read from its attributes, and put back into another of the same kind."""

from __future__ import annotations

from typing import Any

from steadyrl.envs.snapshots.decode import Decoder
from steadyrl.envs.snapshots.encode import Encoder, OpaqueError
from steadyrl.envs.snapshots.generators import process_state, set_process_state
from steadyrl.envs.snapshots.layers import layers_of
from steadyrl.envs.snapshots.values import Value, digest
from steadyrl.errors import RunFailedError, words


def obstacle(env: Any) -> str:
    """Why the state of an environment (or vector of them) cannot be read; empty where it can be.

    No code of the environment's author runs.
    """
    try:
        Encoder(layers_of(env), probe=True).layers()
    except OpaqueError as reason:
        return str(reason)
    except RecursionError:
        return "its attributes are nested too deeply"
    except Exception as error:
        return f"its attributes cannot be read: {words(error)}"
    return ""


def save_layers(env: Any, name: str, process: bool = False) -> Value:
    """All layers of an environment as a plain value.

    Args:
        env: With its wrappers, or a vector of environments.
        name: How errors call it.
        process: Also the generators that NumPy and Python keep for the whole process.

    Raises:
        OpaqueError: something in it cannot be read.
        RunFailedError: its own `get_state()` raised an error.
    """
    try:
        content: dict[str, Any] = {"layers": Encoder(layers_of(env)).layers()}
    except OpaqueError:
        raise
    except Exception as error:
        raise RunFailedError(
            f"Reading the state of the environment {name} raised {type(error).__name__}: {words(error)}",
            remedy="Where it has a get_state() of its own, the fault is there: its traceback says where.",
            code="snapshot-save",
        ) from error
    if process:
        content["process"] = process_state()
    return content


def restore_layers(env: Any, name: str, content: Value) -> None:
    """Put back what `save_layers` read, and read it again for comparison.

    Raises:
        UserError: the state is damaged or of another kind of environment.
        RunFailedError: the state read again is another one.
    """
    Decoder(layers_of(env), name).layers(content["layers"])
    if "process" in content:
        set_process_state(content["process"])
    try:
        again = save_layers(env, name)["layers"]
    except OpaqueError as reason:
        raise _not_exact(name, f"it cannot be read there: {reason}") from None
    if digest(again) != digest(content["layers"]):
        raise _not_exact(name, f"read again it differs {first_difference(content['layers'], again)}")


def first_difference(one: Value, other: Value, place: str = "") -> str:
    """Where two plain values differ first, in words."""
    if type(one) is type(other) is dict:
        for key in [*one, *(other.keys() - one.keys())]:
            if key not in one or key not in other:
                return f"at {place or 'the top'}: {key!r} is on one side only"
            if digest(one[key]) != digest(other[key]):
                known = key in ("attributes", "~class") or key.startswith("~")
                return first_difference(one[key], other[key], place if known else f"{place}.{key}".lstrip("."))
    if type(one) is type(other) and isinstance(one, list | tuple) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            if digest(a) != digest(b):
                name = str(a.get("~class", i)).rpartition(":")[2] if isinstance(a, dict) else str(i)
                return first_difference(a, b, f"{place}.{name}".lstrip("."))
    return f"at {place or 'the top'}"


def _not_exact(name: str, why: str) -> RunFailedError:
    return RunFailedError(
        f"The state of the environment {name} was not restored exactly: {why}.",
        remedy="Give the environment get_state() and set_state(state), or start the episode anew.",
        code="snapshot-inexact",
    )
