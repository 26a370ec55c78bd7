"""The way back of `encode.py`: attributes put into the layers of an environment of the same kind.

Objects are made without their constructors, and only of classes that the environment's own packages have already
brought into the process; nothing is imported and no code of the state's author runs.
"""

from __future__ import annotations

import enum
import random
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from steadyrl.envs.snapshots import foreign
from steadyrl.envs.snapshots.encode import ATOMS, FACTORIES, packages_of, space_parts
from steadyrl.envs.snapshots.generators import bits_of, set_python_state
from steadyrl.envs.snapshots.layers import attributes_of, found, name_of, own_protocol, slots_of
from steadyrl.errors import SteadyRLError, UserError, words


class Decoder:
    """Puts encoded layers into the layers of an environment.

    Args:
        layers: Of the environment to set, outermost first.
        name: How errors call it.
    """

    def __init__(self, layers: list[Any], name: str) -> None:
        self._layers = layers
        self._name = name
        self._packages = packages_of(layers)
        self._made: list[Any] = []
        self._place = ""
        self._tags: dict[str, Callable[[dict[str, Any], Any], Any]] = {
            "~ref": lambda node, _: self._made[node["~ref"]],
            "~layer": lambda node, _: self._layers[node["~layer"]],
            "~tuple": lambda node, old: tuple(self._entries(node["~tuple"], old)),
            "~dict": lambda node, old: self._mapping({}, node["~dict"], old),
            "~ordered": lambda node, old: self._mapping(OrderedDict(), node["~ordered"], old),
            "~defaultdict": self._defaultdict,
            "~deque": self._deque,
            "~set": self._set,
            "~frozen": lambda node, _: self._filled(lambda: _frozen(node["~frozen"])),
            "~generator": lambda node, _: self._filled(lambda: np.random.Generator(self.value(node["~generator"]))),
            "~random_state": lambda node, _: self._filled(lambda: self._random_state(node)),
            "~bits": lambda node, _: self._filled(lambda: bits_of(node["~bits"])),
            "~python": lambda node, _: self._filled(lambda: self._python(node["~python"])),
            "~kept": self._kept,
            "~method": lambda node, old: self._filled(lambda: self._method(node, old)),
            "~space": self._space,
            "~foreign": self._foreign,
            "~enum": lambda node, _: self._filled(lambda: self._member(node)),
            "~namedtuple": lambda node, old: self._filled(lambda: self._namedtuple(node, old)),
            "~object": self._object,
        }

    def layers(self, nodes: Any) -> None:
        """Set every layer.

        Raises:
            UserError: the nodes are damaged, or of an environment of another kind.
        """
        names = [name_of(type(layer)) for layer in self._layers]
        try:
            stored = [node.get("~class") or node["class"] for node in nodes]
        except (AttributeError, KeyError, TypeError) as error:
            self._damaged(error)
        if stored != names:
            raise UserError(
                f"The state is of {' > '.join(stored)}, but the environment {self._name} is {' > '.join(names)}.",
                remedy="Make the environment with the same class and wrappers as the one that was saved.",
                code="snapshot-kind",
            )
        for layer, node in zip(self._layers, nodes, strict=True):
            self._place = type(layer).__name__
            try:
                self._layer(layer, node)
            except SteadyRLError:
                raise
            except Exception as error:
                self._damaged(error)

    def value(self, node: Any, old: Any = None) -> Any:
        """One value; `old` stands at its place in the environment that is set."""
        kind = type(node)
        if kind in ATOMS or isinstance(node, np.generic):
            return node
        if kind is np.ndarray:
            copy = node.copy(order="K")
            copy.flags.writeable = node.flags.writeable
            return self._filled(lambda: copy)
        if kind is list:
            made: list[Any] = []
            self._made.append(made)
            made += self._entries(node, old)
            return made
        if kind is not dict:
            raise TypeError(f"a {kind.__name__}")
        tag = next(iter(node), "")
        if not tag.startswith("~"):
            return self._mapping({}, [[key, entry] for key, entry in node.items()], old)
        return self._tags[tag](node, old)

    def _layer(self, layer: Any, node: dict[str, Any]) -> None:
        own = "~own" in node
        if own != (own_protocol(layer) and not node.get("partial")):
            raise TypeError("get_state() and set_state() are on one side only")
        told = self.value(node["~own"]) if own else None
        values = vars(layer)
        new = {}
        for name, value in node["attributes"].items():
            self._place = f"{type(layer).__name__}.{name}"
            new[name] = self.value(value, values.get(name))
        if own:
            layer.set_state(told)
        elif not node.get("partial"):
            current, _ = attributes_of(layer)
            for name in current.keys() - new.keys() - set(node["kept"]):
                del values[name]
        values.update(new)

    def _filled(self, make: Callable[[], Any]) -> Any:
        """What `make` gives, under the number that it got when it was encoded: before what it holds."""
        number = len(self._made)
        self._made.append(None)
        self._made[number] = made = make()
        return made

    def _entries(self, nodes: list[Any], old: Any) -> list[Any]:
        beside = list(old) if isinstance(old, list | tuple | deque) else []
        beside += [None] * (len(nodes) - len(beside))
        return [self.value(node, other) for node, other in zip(nodes, beside, strict=False)]

    def _mapping(self, made: Any, items: list[Any], old: Any) -> Any:
        self._made.append(made)
        for key, node in items:
            name = self.value(key)
            made[name] = self.value(node, old.get(name) if isinstance(old, dict) else None)
        return made

    def _defaultdict(self, node: dict[str, Any], old: Any) -> Any:
        name = node["factory"]
        return self._mapping(defaultdict(None if name is None else FACTORIES[name]), node["~defaultdict"], old)

    def _deque(self, node: dict[str, Any], old: Any) -> Any:
        made: deque[Any] = deque(maxlen=node["maxlen"])
        self._made.append(made)
        made.extend(self._entries(node["~deque"], old))
        return made

    def _set(self, node: dict[str, Any], old: Any) -> Any:
        return self._filled(lambda: (frozenset if node["frozen"] is True else set)(self._entries(node["~set"], None)))

    def _random_state(self, node: dict[str, Any]) -> np.random.RandomState:
        made = np.random.RandomState(self.value(node["~random_state"]))
        state = made.get_state(legacy=False)
        state["has_gauss"], state["gauss"] = node["gauss"]
        made.set_state(state)
        return made

    def _python(self, state: dict[str, Any]) -> random.Random:
        made = random.Random()
        set_python_state(made, state)
        return made

    def _kept(self, node: dict[str, Any], old: Any) -> Any:
        """What the constructor of the environment made; whether it is the same is seen when it is encoded again."""
        if old is None:
            raise TypeError(f"no {node['~kept']} is there")

        def visit() -> Any:
            for part in ("closure", "defaults", "parts"):
                for entry in node.get(part, ()):
                    self._visit(entry)
            return old

        return self._filled(visit)

    def _visit(self, node: Any) -> None:
        """Count what a kept object holds as the encoder did; where it cannot be made, it stays as it is there."""
        self.value(node, _Anything())

    def _method(self, node: dict[str, Any], old: Any) -> Any:
        owner = self.value(node["of"], getattr(old, "__self__", None))
        function = getattr(type(owner), node["~method"])
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"{node['~method']} is no method")
        return types.MethodType(function, owner)

    def _space(self, node: dict[str, Any], old: Any) -> Any:
        def visit() -> Any:
            generators = [self.value(entry) for entry in node["~space"]]
            if isinstance(old, gym.Space):
                for part, generator in zip(space_parts(old), generators, strict=True):
                    part._np_random = generator
            elif not isinstance(old, _Anything):
                raise TypeError("no space is there")
            return old

        return self._filled(visit)

    def _foreign(self, node: dict[str, Any], old: Any) -> Any:
        handler = foreign.handler_of(self._layers[-1], old)
        if handler is None or handler.name != node["~foreign"]:
            raise TypeError(f"no {node['~foreign']} is there")
        handler.load(old, node["state"])
        return self._filled(lambda: old)

    def _member(self, node: dict[str, Any]) -> Any:
        kind = self._class(node["~enum"])
        if not issubclass(kind, enum.Enum):
            raise TypeError(f"{node['~enum']} is no enumeration")
        return kind.__members__[node["member"]]

    def _namedtuple(self, node: dict[str, Any], old: Any) -> Any:
        kind = self._class(node["~namedtuple"])
        if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            raise TypeError(f"{node['~namedtuple']} is no named tuple")
        return tuple.__new__(kind, self._entries(node["entries"], old))

    def _object(self, node: dict[str, Any], old: Any) -> Any:
        kind = self._class(node["~object"])
        slots = slots_of(kind)
        if slots is None:
            raise TypeError(f"{node['~object']} is no plain class")
        made: Any = object.__new__(kind)
        self._made.append(made)
        beside = getattr(old, "__dict__", {})
        for name, entry in node["attributes"].items():
            value = self.value(entry, beside.get(name, getattr(old, name, None) if name in slots else None))
            if name in slots:
                object.__setattr__(made, name, value)
            else:
                vars(made)[name] = value
        return made

    def _class(self, name: str) -> type:
        kind = found(name, self._packages)
        if kind is None:
            raise TypeError(f"the class {name} is unknown")
        return kind

    def _damaged(self, error: Exception) -> NoReturn:
        raise UserError(
            f"The state of the environment {self._name} cannot be put back at {self._place or 'its layers'}: "
            f"{words(error)}.",
            remedy="It was damaged, or saved from another version of the environment: use another checkpoint.",
            code="snapshot-damaged",
        ) from error


def _frozen(array: Any) -> npt.NDArray[Any]:
    if type(array) is not np.ndarray:
        raise TypeError(f"a {type(array).__name__} instead of an array")
    copy = array.copy(order="K")
    copy.flags.writeable = False
    return copy


class _Anything:
    """Stands where a kept object hides what it holds."""
