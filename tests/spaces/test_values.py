"""Texts, sequences and what own encoders make of values: stored with a mark of what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs

from steadyrl.errors import UserError
from steadyrl.spaces import ObsSpec, Reading
from steadyrl.spaces.leaf import Leaf

SHORT = Reading(sequence_length=4)


class Mission(gs.Space[str]):
    """A space of texts that says neither length nor characters, as MiniGrid's."""

    def __init__(self) -> None:
        super().__init__(dtype=str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "go"

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


def stored(space: gs.Space[Any], value: Any) -> Any:
    return ObsSpec.of(space, SHORT).store(value, batch=False)[""].tolist()


def test_a_text_is_the_places_of_its_characters() -> None:
    space = gs.Text(5, charset="cab")
    assert ObsSpec.of(space).leaves[0].characters == "abc"
    assert stored(space, "cab") == [[3, 1, 2, 0, 0]]
    assert stored(space, "") == [[0] * 5]
    with pytest.raises(UserError, match="'x'"):
        stored(space, "ax")


def test_a_text_without_a_length_is_kept_up_to_the_declared_one() -> None:
    assert stored(Mission(), "a~") == [[66, 95, 0, 0]]
    assert stored(Mission(), "\N{SNOWMAN}") == [[96, 0, 0, 0]]
    with pytest.raises(UserError, match="longer than the 4") as caught:
        stored(Mission(), "hello")
    assert "--sequence-length" in (caught.value.remedy or "")


def test_a_sequence_has_a_mask() -> None:
    space = gs.Sequence(gs.Box(-1, 1, (2,)))
    assert stored(space, ([1, 0.5], [0, -1])) == [[[1, 0.5, 1], [0, -1, 1], [0, 0, 0], [0, 0, 0]]]
    assert stored(space, np.zeros((1, 2))) == [[[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]]
    assert stored(space, ()) == [[[0, 0, 0]] * 4]


def test_codes_count_from_one() -> None:
    space = gs.Sequence(gs.Discrete(3, start=-1))
    assert stored(space, (-1, 1, 0)) == [[1, 3, 2, 0]]
    for wrong in ((2,), (-2,), (0.5,)):
        with pytest.raises(UserError, match="not from -1 to 1"):
            stored(space, wrong)


@pytest.mark.parametrize(
    ("space", "value", "code"),
    [
        (gs.Text(3), 3, "obs-type"),
        (gs.Text(3), "aaaa", "obs-length"),
        (gs.Sequence(gs.Discrete(3)), "012", "obs-type"),
        (gs.Sequence(gs.Discrete(3)), 1, "obs-type"),
        (gs.Sequence(gs.Discrete(3)), (0,) * 5, "obs-length"),
        (gs.Sequence(gs.Box(-1, 1, (2,))), ([1, 2, 3],), "obs-type"),
        (gs.Sequence(gs.Box(-1, 1, (2,))), ([1, 2], [1]), "obs-type"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_a_user_error(space: gs.Space[Any], value: Any, code: str) -> None:
    with pytest.raises(UserError) as caught:
        stored(space, value)
    assert caught.value.code == code
    assert caught.value.remedy


class Graphs:
    """What is asked of the class of an own encoder before torch is there."""

    shape = (2,)

    @staticmethod
    def to_array(value: Any) -> Any:
        return [len(value.nodes), value.nodes.sum()]


def test_a_graph_is_stored_as_its_encoder_says() -> None:
    space = gs.Dict({"g": gs.Graph(gs.Box(0, 1, (1,)), None), "x": gs.Discrete(2)})
    spec = ObsSpec.of(space, Reading(own={"g": Graphs}))
    graph = gs.GraphInstance(np.array([[0.25], [0.5]], np.float32), None, None)
    assert spec.leaves[0] == Leaf("g", "own", (2,), "float32")
    assert spec.store({"g": graph, "x": 0}, batch=False)["g"].tolist() == [[2, 0.75]]
    batch = {"g": [graph, graph], "x": [0, 1]}
    assert spec.store(batch, batch=True)["g"].shape == (2, 2)
    assert spec.is_single({"g": graph, "x": 0})


def test_an_encoder_for_a_leaf_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="'y'") as caught:
        ObsSpec.of(gs.Dict({"x": gs.Discrete(2)}), Reading(own={"y": Graphs}))
    assert "'x'" in (caught.value.remedy or "")


def test_an_encoder_without_to_array_cannot_take_a_graph() -> None:
    with pytest.raises(UserError, match="how its leaf is stored"):
        ObsSpec.of(gs.Graph(gs.Box(0, 1, (1,)), None), Reading(own={"": dict}))


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "text", "shape": (3,), "nvec": (3,), "start": (0,), "characters": "aa"},
        {"kind": "text", "shape": (3,), "nvec": (5,), "start": (0,), "characters": "abc"},
        {"kind": "text", "shape": (0,), "nvec": (3,), "start": (0,), "characters": "abc"},
        {"kind": "codes", "shape": (3,), "nvec": (), "start": ()},
        {"kind": "codes", "shape": (3,), "nvec": (3,), "start": (0,), "characters": "abc"},
        {"kind": "sequence", "shape": (), "nvec": (), "start": ()},
        {"kind": "image", "shape": (3, 3), "dtype": "uint8", "nvec": (), "start": (), "layout": "hwc"},
        {"kind": "image", "shape": (3, 3), "nvec": (), "start": (), "layout": "hw"},
        {"kind": "box", "shape": (3,), "nvec": (), "start": (), "layout": "hw"},
    ],
    ids=str,
)
def test_a_leaf_that_does_not_fit_together_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no part of an observation space"):
        Leaf(**{"path": "", "dtype": "int64", **fields})
