"""The layers of an environment, wrappers and all, and which of their attributes are no state."""

from __future__ import annotations

import sys
import types
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv, VectorWrapper

# What the constructor was told, what describes the environment, and what only looks at the data that passes through.
_NO_STATE = frozenset(
    [
        "spec",
        "_cached_spec",
        "metadata",
        "_metadata",
        "render_mode",
        "_saved_kwargs",
        "_ezpickle_args",
        "_ezpickle_kwargs",
    ]
)
_NO_STATE_OF = {
    "gymnasium.wrappers.common:PassiveEnvChecker": {"_previous_data"},
    "gymnasium.wrappers.common:RecordEpisodeStatistics": {"episode_start_time", "time_queue"},
    "gymnasium.vector.sync_vector_env:SyncVectorEnv": {"env_fns"},
    "steadyrl.envs.score:RawScore": {"_told"},
}
# Made by the constructor alone: large tables.
_NO_STATE_BELOW = {"gymnasium.envs.toy_text.": {"P"}}

_KNOWN_LEFT_OUT: dict[type, frozenset[str]] = {}
_KNOWN_SLOTS: dict[type, tuple[str, ...] | None] = {}

_PICTURES = ("pygame", "cv2")


def layers_of(env: Any) -> list[Any]:
    """The environment and what it wraps, outermost first; for a vector of environments these follow, one by one."""
    layers = [env]
    while isinstance(env, gym.Wrapper | VectorWrapper) and "env" in vars(env):
        env = env.env
        layers.append(env)
    if isinstance(env, VectorEnv):
        for inner in vars(env).get("envs", ()):
            layers += layers_of(inner)
    return layers


def name_of(cls: type) -> str:
    """`module:Class`; some extensions leave the module out."""
    return f"{getattr(cls, '__module__', '')}:{cls.__qualname__}"


def package_of(cls: type) -> str:
    """The top-level package that a class comes from."""
    return name_of(cls).partition(":")[0].partition(".")[0]


def attributes_of(layer: Any) -> tuple[dict[str, Any], set[str]]:
    """The attributes of a layer that are its state, and the names of those that are none."""
    values = vars(layer)
    left_out = {name for name in _left_out(type(layer)) if name in values}
    if type(layer).__module__.startswith("gymnasium.envs."):
        left_out |= {name for name, value in values.items() if _is_picture(value)}
    return {name: value for name, value in values.items() if name not in left_out}, left_out


def _left_out(cls: type) -> frozenset[str]:
    if cls in _KNOWN_LEFT_OUT:
        return _KNOWN_LEFT_OUT[cls]
    names = set(_NO_STATE)
    if issubclass(cls, gym.Wrapper | VectorWrapper):
        names.add("env")
    names |= _NO_STATE_OF.get(name_of(cls), set())
    for prefix, more in _NO_STATE_BELOW.items():
        if cls.__module__.startswith(prefix):
            names |= more
    if any(base.__module__ == "gymnasium.envs.mujoco.mujoco_env" for base in cls.__mro__):
        names |= {"fullpath", "mujoco_renderer"}
    return _KNOWN_LEFT_OUT.setdefault(cls, frozenset(names))


def _is_picture(value: Any) -> bool:
    """Whether Gymnasium's own environments only draw with it: their observations come from elsewhere."""
    if isinstance(value, list | tuple):
        return bool(value) and all(_is_picture(entry) for entry in value)
    return package_of(type(value)) in _PICTURES


def own_protocol(layer: Any) -> bool:
    """Whether its class says itself what its state is, by `get_state()` and `set_state(state)`.

    Gymnasium's MuJoCo environments have another `set_state(qpos, qvel)`, and so do wrappers that pass it on.
    """
    get, put = getattr(type(layer), "get_state", None), getattr(type(layer), "set_state", None)
    if not (isinstance(get, types.FunctionType) and isinstance(put, types.FunctionType)):
        return False
    return _required(get) == 1 and _required(put) == 2


def _required(function: types.FunctionType) -> int:
    code = function.__code__
    return code.co_argcount - len(function.__defaults__ or ())


def slots_of(cls: type) -> tuple[str, ...] | None:
    """The slots of a plain Python class; None where an object of it is more than its attributes."""
    if cls not in _KNOWN_SLOTS:
        _KNOWN_SLOTS[cls] = _slots_of(cls)
    return _KNOWN_SLOTS[cls]


def _slots_of(cls: type) -> tuple[str, ...] | None:
    slots: list[str] = []
    for base in cls.__mro__:
        if base is object or base.__module__ in ("typing", "abc"):
            continue
        if not base.__flags__ & _HEAP_TYPE or any(name in vars(base) for name in _MORE):
            return None
        own = vars(base).get("__slots__", ())
        slots += [own] if isinstance(own, str) else list(own)
    try:
        object.__new__(cls)
    except TypeError:
        return None
    return tuple(name for name in slots if name not in ("__dict__", "__weakref__"))


# One that tidies up holds something beside its attributes; made from a damaged state, it would tidy up the wrong thing.
_MORE = ("__setstate__", "__reduce__", "__del__")
_HEAP_TYPE = (
    1 << 9
)  # Py_TPFLAGS_HEAPTYPE: made by a `class` statement (or an extension, which `object.__new__` refuses)


def found(name: str, packages: frozenset[str]) -> type | None:
    """The class of this name, where it comes from one of these packages and is already imported."""
    module, _, path = name.partition(":")
    if module.partition(".")[0] not in packages:
        return None
    value: Any = sys.modules.get(module)
    for part in path.split("."):
        value = vars(value).get(part) if isinstance(value, types.ModuleType | type) else None
    return value if isinstance(value, type) and name_of(value) == name else None
