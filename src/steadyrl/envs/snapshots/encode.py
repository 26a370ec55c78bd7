"""Attributes of Python objects as plain values, with what they share, or the reason why that cannot be.

Nothing is guessed: an object of a kind that is not known here raises `OpaqueError`. What stands in the tree beside
plain values is a dictionary with a first key that starts with `~`; `decode.py` reads them.
"""

from __future__ import annotations

import enum
import random
import types
import zlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec

from steadyrl.envs.snapshots import foreign
from steadyrl.envs.snapshots.generators import bits_state, is_generator, python_state
from steadyrl.envs.snapshots.layers import attributes_of, found, name_of, own_protocol, package_of, slots_of
from steadyrl.envs.snapshots.values import storable

ATOMS = frozenset({type(None), bool, int, float, str, bytes})
FACTORIES: dict[str, Any] = {kind.__name__: kind for kind in (int, float, str, bool, list, dict, set, tuple)}
_RANDOM = ("_np_random", "_np_random_seed")
_KEPT = (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc, np.dtype, EnvSpec)


class OpaqueError(Exception):
    """Something whose state cannot be read; the message says what and where."""


class Encoder:
    """Encodes the attributes of the layers of one environment (or vector of environments).

    Args:
        layers: Outermost first; a reference to one of them stays a reference.
        probe: Only find out whether all can be encoded: no code of the environment's author runs, nothing is copied.
    """

    def __init__(self, layers: list[Any], probe: bool = False) -> None:
        self._layers = layers
        self._probe = probe
        self._numbers = {id(layer): i for i, layer in enumerate(layers)}
        self._packages = packages_of(layers)
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []  # keeps what was seen alive, so that no id is used twice
        self._spans: list[tuple[int, int, str]] = []
        self._kinds: dict[type, Callable[[Any, str], Any]] = {
            np.ndarray: self._array,
            list: lambda x, place: self._entries(x, place),
            dict: self._dict,
            tuple: lambda x, place: {"~tuple": self._entries(x, place)},
            set: self._set,
            frozenset: self._set,
            deque: lambda x, place: {"~deque": self._entries(x, place), "maxlen": x.maxlen},
            OrderedDict: lambda x, place: {"~ordered": self._items(x, place)},
            defaultdict: self._defaultdict,
            np.random.Generator: lambda x, place: {"~generator": self.node(x.bit_generator, place)},
            np.random.RandomState: self._random_state,
            random.Random: lambda x, _: {"~python": python_state(x)},
            types.FunctionType: self._function,
            types.MethodType: self._method,
            partial: self._partial,
        }

    def layers(self) -> list[Any]:
        """Every layer, whole.

        Raises:
            OpaqueError: something in it cannot be encoded.
        """
        nodes = [self._layer(layer) for layer in self._layers]
        self._insist_on_own_memory()
        return nodes

    def around(self) -> list[Any]:
        """What can be encoded of the layers around an innermost one that is opaque, and its random generators."""
        nodes = []
        for layer in self._layers:
            attributes, _ = attributes_of(layer)
            if layer is self._layers[-1]:
                attributes = {k: v for k, v in attributes.items() if k in _RANDOM or is_generator(v) or is_space(v)}
            nodes.append({"~class": name_of(type(layer)), "attributes": self._readable(attributes)[0], "partial": True})
        return nodes

    def innermost(self) -> dict[str, Any]:
        """Every attribute of the innermost layer that can be encoded."""
        return self._readable(attributes_of(self._layers[-1])[0])[0]

    def opaque(self) -> dict[tuple[int, str], Any]:
        """What cannot be encoded, by layer and name."""
        return {
            (i, name): value
            for i, layer in enumerate(self._layers)
            for name, value in self._readable(attributes_of(layer)[0])[1].items()
        }

    def _readable(self, attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The attributes that can be encoded, as they are encoded, and the others."""
        part, others = {}, {}
        for name, value in attributes.items():
            held, spans = len(self._held), len(self._spans)
            try:
                part[name] = self.node(value, name)
            except OpaqueError:
                others[name] = value
                for forgotten in self._held[held:]:
                    del self._seen[id(forgotten)]
                del self._held[held:], self._spans[spans:]
        return part, others

    def node(self, x: Any, place: str) -> Any:
        """One value, encoded."""
        kind = type(x)
        if kind in ATOMS or (isinstance(x, np.generic) and storable(x.dtype)):
            return x
        key = id(x)
        if key in self._seen:
            return {"~ref": self._seen[key]}
        if key in self._numbers:
            return {"~layer": self._numbers[key]}
        if kind is not tuple:
            self._seen[key] = len(self._held)
            self._held.append(x)
        known = self._kinds.get(kind)
        return known(x, place) if known else self._other(x, place)

    def _layer(self, layer: Any) -> dict[str, Any]:
        place = type(layer).__name__
        if own_protocol(layer):
            told = None if self._probe else self.node(layer.get_state(), f"{place}.get_state()")
            own = {k: v for k, v in vars(layer).items() if k in _RANDOM}
            return {"~own": told, "class": name_of(type(layer)), "attributes": self._attributes(own, place)}
        if slots_of(type(layer)):
            raise OpaqueError(f"{place} has __slots__")
        attributes, kept = attributes_of(layer)
        return {
            "~class": name_of(type(layer)),
            "attributes": self._attributes(attributes, place),
            "kept": sorted(kept),
        }

    def _attributes(self, attributes: dict[str, Any], place: str) -> dict[str, Any]:
        return {name: self.node(value, f"{place}.{name}") for name, value in attributes.items()}

    def _entries(self, x: Iterable[Any], place: str) -> list[Any]:
        return [self.node(entry, f"{place}[{i}]") for i, entry in enumerate(x)]

    def _items(self, x: dict[Any, Any], place: str) -> list[Any]:
        return [[self.node(k, place), self.node(v, f"{place}[{k!r}]")] for k, v in x.items()]

    def _dict(self, x: dict[Any, Any], place: str) -> Any:
        if all(type(key) is str and not key.startswith("~") for key in x):
            return {key: self.node(value, f"{place}[{key!r}]") for key, value in x.items()}
        return {"~dict": self._items(x, place)}

    def _defaultdict(self, x: defaultdict[Any, Any], place: str) -> Any:
        factory = x.default_factory
        name = None if factory is None else getattr(factory, "__name__", "")
        if name is not None and FACTORIES.get(name) is not factory:
            raise OpaqueError(f"{place} is a defaultdict of {factory!r}")
        return {"~defaultdict": self._items(x, place), "factory": name}

    def _set(self, x: set[Any] | frozenset[Any], place: str) -> Any:
        entries = list(x)
        if len(entries) > 1 and (list(type(x)(entries)) != entries or not all(_hashes_alike(e) for e in entries)):
            raise OpaqueError(f"{place} is a set whose order cannot be kept")
        return {"~set": self._entries(entries, place), "frozen": type(x) is frozenset}

    def _array(self, x: npt.NDArray[Any], place: str) -> Any:
        if not storable(x.dtype):
            raise OpaqueError(f"{place} is an array of dtype {x.dtype}")
        if not (x.flags.c_contiguous or x.flags.f_contiguous):
            raise OpaqueError(f"{place} is a strided view of another array")
        base: Any = x.base
        while type(base) is np.ndarray:
            base = base.base
        if base is not None and type(base) is not bytes and not foreign.lends_memory(self._layers[-1], base):
            raise OpaqueError(f"{place} is memory of a {name_of(type(base))}")
        if x.size:
            start = x.__array_interface__["data"][0]
            self._spans.append((start, start + x.nbytes, place))
        if self._probe:
            return None
        copy = x.copy(order="K")
        return copy if x.flags.writeable else {"~frozen": copy}  # the flag itself is lost between processes

    def _random_state(self, x: np.random.RandomState, place: str) -> Any:
        state = x.get_state(legacy=False)
        bits = self.node(x._bit_generator, place)
        return {"~random_state": bits, "gauss": [state["has_gauss"], state["gauss"]]}

    def _function(self, x: types.FunctionType, place: str) -> Any:
        cells = [self.node(cell.cell_contents, f"a closure of {place}") for cell in x.__closure__ or ()]
        defaults = self._entries(x.__defaults__ or (), f"a default of {place}")
        code = zlib.crc32(x.__code__.co_code)
        return {"~kept": f"function {x.__module__}:{x.__qualname__} {code}", "closure": cells, "defaults": defaults}

    def _method(self, x: types.MethodType, place: str) -> Any:
        if not isinstance(getattr(type(x.__self__), x.__name__, None), types.FunctionType):
            raise OpaqueError(f"{place} is a method of {x.__self__!r}")
        return {"~method": x.__name__, "of": self.node(x.__self__, f"the object of {place}")}

    def _partial(self, x: partial[Any], place: str) -> Any:
        parts = self._entries([x.func, x.args, x.keywords], place)
        return {"~kept": "partial", "parts": parts}

    def _other(self, x: Any, place: str) -> Any:
        if isinstance(x, gym.Space):
            return {"~space": [self.node(g, place) for g in space_generators(x)]}
        if isinstance(x, _KEPT):
            return {"~kept": f"{type(x).__name__} {getattr(x, '__name__', '')}"}
        bits = bits_state(x) if isinstance(x, np.random.BitGenerator) else None
        if bits is not None:
            return {"~bits": bits}
        handled = foreign.handler_of(self._layers[-1], x)
        if handled is not None:
            return {"~foreign": handled.name, "state": None if self._probe else handled.save(x)}
        return self._object(x, place)

    def _object(self, x: Any, place: str) -> Any:
        kind = type(x)
        name = name_of(kind)
        if found(name, self._packages) is kind:
            if isinstance(x, enum.Enum):
                return {"~enum": name, "member": x.name}
            if isinstance(x, tuple) and hasattr(kind, "_fields"):
                return {"~namedtuple": name, "entries": self._entries(x, place)}
            slots = slots_of(kind)
            if slots is not None:
                values = {slot: getattr(x, slot) for slot in slots if hasattr(x, slot)} | getattr(x, "__dict__", {})
                return {"~object": name, "attributes": self._attributes(values, place)}
        raise OpaqueError(f"{place} is a {name.replace(':', '.')}, whose state cannot be read")

    def _insist_on_own_memory(self) -> None:
        """Raise OpaqueError where two arrays share memory: they would be two after restoring."""
        for (_, end, one), (start, _, other) in pairwise(sorted(self._spans)):
            if start < end:
                raise OpaqueError(f"{one} and {other} share memory")


def is_space(x: Any) -> bool:
    """Whether this is a Gymnasium space."""
    return isinstance(x, gym.Space)


def packages_of(layers: list[Any]) -> frozenset[str]:
    """The packages whose classes may stand in the state: those of the environment and its wrappers, and Gymnasium."""
    return frozenset({package_of(type(layer)) for layer in layers} | {"gymnasium"})


def space_generators(space: gym.Space[Any]) -> list[np.random.Generator | None]:
    """The generator of a space and of all spaces in it, None where it has none (yet)."""
    return [vars(part).get("_np_random") for part in space_parts(space)]


def space_parts(space: gym.Space[Any]) -> list[gym.Space[Any]]:
    """A space and all spaces in it."""
    parts = [space]
    for value in vars(space).values():
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
        for part in inner:
            if isinstance(part, gym.Space):
                parts += space_parts(part)
    return parts


def _hashes_alike(x: Any) -> bool:
    """Whether it has the same hash in every process, as text has not."""
    if type(x) is tuple:
        return all(_hashes_alike(entry) for entry in x)
    return isinstance(x, bool | int | float | np.integer | np.bool_)
