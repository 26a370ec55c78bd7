"""Objects of simulators whose state their own library hands out: MuJoCo's and the Arcade Learning Environment's."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.envs.snapshots import ale
from steadyrl.envs.snapshots.layers import name_of
from steadyrl.errors import RunFailedError


@dataclass(frozen=True)
class Handler:
    """How one kind of object is read and set.

    Attributes:
        name: What the state calls it.
        save: A plain value from the object.
        load: Puts it into an object of the same kind.
    """

    name: str
    save: Callable[[Any], Any]
    load: Callable[[Any, Any], None]


def handler_of(env: Any, x: Any) -> Handler | None:
    """The handler of an object that the innermost environment `env` holds, None where there is none.

    That of MuJoCo's data is for Gymnasium's own environments only: they read nothing of it that is not restored.
    Others may read contacts, whose number changes and which MuJoCo sets by computing them.
    """
    handler = _HANDLERS.get(name_of(type(x)))
    if handler is _DATA and not type(env).__module__.startswith("gymnasium.envs.mujoco."):
        return None
    return handler


def is_reset(env: Any, x: Any) -> bool:
    """Whether a reset makes this object of the innermost environment as new: `mj_resetData` does so with all of it."""
    reset = getattr(type(env).reset, "__module__", "")
    return _HANDLERS.get(name_of(type(x))) is _DATA and reset == "gymnasium.envs.mujoco.mujoco_env"


def lends_memory(env: Any, base: Any) -> bool:
    """Whether arrays in memory of `base` are fresh ones: the emulator hands out a new buffer with each picture."""
    return type(base) is memoryview and type(env).__module__.startswith("ale_py.")


def _save_data(data: Any) -> dict[str, Any]:
    """Everything of fixed size in an MjData, what was computed from the state included.

    Gymnasium's environments read positions, forces and inertias that the last step left behind; computing them anew
    from the state would give those of another moment. Contacts and constraints are computed by every step.
    """
    version, names = _mujoco().__version__, _fields(data)
    floats, others = _parts(data, names)
    return {
        "version": version,
        "time": float(data.time),
        "floats": np.concatenate(floats) if floats else np.zeros(0),
        "others": np.frombuffer(bytearray(b"".join(part.tobytes() for part in others)), dtype=np.uint8),
    }


def _load_data(data: Any, state: Any) -> None:
    version, names = _mujoco().__version__, _fields(data)
    if state["version"] != version:
        raise RunFailedError(
            f"The state was saved with MuJoCo {state['version']}, and this is {version}, which computes other bits.",
            remedy=f"Install mujoco=={state['version']}, or start a new run.",
            code="snapshot-version",
        )
    floats, others = _parts(data, names)
    expected = sum(part.size for part in floats), sum(part.nbytes for part in others)
    if (state["floats"].size, state["others"].size) != expected:
        raise ValueError(f"{state['floats'].size} floats and {state['others'].size} bytes for {expected} of MuJoCo")
    data.time = state["time"]
    at = 0
    for part in floats:
        part[:] = state["floats"][at : at + part.size]
        at += part.size
    at = 0
    for part in others:
        part[:] = state["others"][at : at + part.nbytes].view(part.dtype)
        at += part.nbytes


def _parts(data: Any, names: tuple[str, ...]) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
    arrays = [getattr(data, name).reshape(-1) for name in names]
    return [a for a in arrays if a.dtype == np.float64], [a for a in arrays if a.dtype != np.float64]


def _fields(data: Any) -> tuple[str, ...]:
    """The names of the arrays that lie in the buffer of fixed size, in the order of their places in it."""
    key = (data.model.signature, data.nbuffer)
    if key not in _FIELDS:
        start = data.qpos.__array_interface__["data"][0]
        places = {}
        for name in dir(data):
            array = None if name.startswith("_") else getattr(data, name, None)
            if type(array) is np.ndarray and array.size:
                place = array.__array_interface__["data"][0]
                if start <= place < start + data.nbuffer and name not in ("plugin", "plugin_data"):
                    places[place] = name
        _FIELDS[key] = tuple(name for _, name in sorted(places.items()))
    return _FIELDS[key]


_FIELDS: dict[tuple[int, int], tuple[str, ...]] = {}


def _save_model(model: Any) -> dict[str, Any]:
    """A hash of the numbers of a model: it is made by the constructor, and only has to be the same one."""
    hashed = hashlib.blake2b(digest_size=16)
    for name in _MODEL(model):
        hashed.update(getattr(model, name).data)
    for name in _OPTIONS(model.opt):
        hashed.update(np.asarray(getattr(model.opt, name)).tobytes())
    return {"hash": hashed.hexdigest()}


class _Numbers:
    """The names of the numeric attributes of objects of one class, looked up once."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes
        self._names: dict[type, list[str]] = {}

    def __call__(self, x: Any) -> list[str]:
        if type(x) not in self._names:
            names = [name for name in dir(x) if name.startswith(self._prefixes) and not name.startswith("_")]
            self._names[type(x)] = [n for n in names if isinstance(getattr(x, n), np.ndarray | int | float)]
        return self._names[type(x)]


def _check_model(model: Any, state: Any) -> None:
    """The model stays as it is: saving again tells whether it is the same one."""


def _mujoco() -> Any:
    return sys.modules["mujoco"]


# What the physics depends on; textures and meshes do not change.
_MODEL = _Numbers(("body_", "jnt_", "dof_", "geom_", "site_", "actuator_", "tendon_", "eq_", "qpos"))
_OPTIONS = _Numbers(("",))
_DATA = Handler("mujoco.MjData", _save_data, _load_data)
_HANDLERS = {
    "mujoco._structs:MjData": _DATA,
    "mujoco._structs:MjModel": Handler("mujoco.MjModel", _save_model, _check_model),
    "ale_py._ale_py:ALEInterface": Handler("ale_py.ALEInterface", ale.save, ale.load),
}
