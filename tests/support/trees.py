"""Every kind of leaf, every place for one in a tree, and an environment that samples such spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces as gs
from hypothesis import strategies as st

VECTOR = gs.Box(-1.0, 1.0, (3,))
LEAVES: dict[str, gs.Space[Any]] = {
    "vector": VECTOR,
    "float64-matrix": gs.Box(-2.0, 2.0, (2, 2), np.float64),
    "integers": gs.Box(-5, 5, (2,), np.int16),
    "image": gs.Box(0, 255, (6, 5, 3), np.uint8),
    "frames": gs.Box(0, 255, (2, 5, 6, 1), np.uint8),
    "discrete": gs.Discrete(3, start=-1),
    "multidiscrete": gs.MultiDiscrete(np.array([[2], [3]])),
    "multibinary": gs.MultiBinary((2, 2)),
    "text": gs.Text(6),
    "sequence": gs.Sequence(gs.Box(-1.0, 1.0, (2,))),
    "codes": gs.Sequence(gs.Discrete(5, start=2)),
}
PLACES: dict[str, Callable[[gs.Space[Any]], gs.Space[Any]]] = {
    "top": lambda leaf: leaf,
    "dict": lambda leaf: gs.Dict({"other": VECTOR, "leaf": leaf}),
    "tuple": lambda leaf: gs.Tuple((leaf, gs.Discrete(2))),
    "nested": lambda leaf: gs.Dict({"a": gs.Tuple((gs.Dict({"b": leaf}), VECTOR))}),
}
PATHS = {"top": "", "dict": "leaf", "tuple": "0", "nested": "a/0/b"}
ACTIONS: dict[str, gs.Space[Any]] = {
    "box": gs.Box(np.array([-1.0, 0.0]), np.array([1.0, 100.0]), dtype=np.float64),
    "discrete": gs.Discrete(3, start=-1),
    "multidiscrete": gs.MultiDiscrete(np.array([[2], [3]]), start=np.array([[5], [-1]])),
    "multibinary": gs.MultiBinary((2, 2)),
}
ACTION_TREE = gs.Dict({"move": ACTIONS["discrete"], "arm": gs.Tuple((ACTIONS["box"], ACTIONS["multibinary"]))})


class Sampler(gym.Env[Any, Any]):
    """Observes samples of its space; refuses actions outside its own; pays 1 a step for nine steps.

    Attributes:
        taken: The actions so far, as they came.
    """

    def __init__(self, observation: gs.Space[Any] = VECTOR, action: gs.Space[Any] | None = None) -> None:
        self.observation_space = observation
        self.action_space = gs.Discrete(2) if action is None else action
        self.taken: list[Any] = []
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._drawn(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.taken.append(action)
        self.t += 1
        return self._drawn(), 1.0, False, self.t >= 9, {}

    def _drawn(self) -> Any:
        return drawn(self.observation_space, int(self.np_random.integers(2**31)))


def drawn(space: gs.Space[Any], seed: int) -> Any:
    """A sample of the space that follows from the seed."""
    space.seed(seed)
    return space.sample()


def equal(a: Any, b: Any) -> bool:
    """Whether two values of a space are equal: structure, types of elements, numbers."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, str):
        return bool(a == b)
    return bool(np.asarray(a).dtype == np.asarray(b).dtype) and np.array_equal(a, b)


def spaces(leaves: list[gs.Space[Any]]) -> st.SearchStrategy[gs.Space[Any]]:
    """Nested spaces of these leaves."""
    keys = st.text("abc", min_size=1, max_size=2)

    def grown(inner: st.SearchStrategy[gs.Space[Any]]) -> st.SearchStrategy[gs.Space[Any]]:
        dicts = st.dictionaries(keys, inner, min_size=1, max_size=3).map(gs.Dict)
        return dicts | st.lists(inner, min_size=1, max_size=3).map(lambda parts: gs.Tuple(tuple(parts)))

    return st.recursive(st.sampled_from(leaves), grown, max_leaves=5)
