"""What an encoder of the user's has to be, on leaves whose numbers are not those of a vector."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor, nn

from steadyrl.errors import UserError
from steadyrl.nn.own_leaf import OwnLeaf
from steadyrl.seeding import Stream
from steadyrl.spaces import Leaf, ObsSpec, Reading

GRAPH = gs.Graph(gs.Box(0.0, 1.0, (1,)), None)
SPACES: dict[str, gs.Space[Any]] = {
    "text": gs.Text(6, charset="abc"),
    "codes": gs.Sequence(gs.Discrete(4)),
    "sequence": gs.Sequence(gs.Box(-1.0, 1.0, (2,))),
    "own": GRAPH,
    "multidiscrete": gs.MultiDiscrete([3, 4]),
    "multibinary": gs.MultiBinary(5),
}


class Summary(nn.Module):
    """A layer over all numbers of a leaf."""

    shape = (2,)

    @staticmethod
    def to_array(value: Any) -> Any:
        return np.array([len(value.nodes), value.nodes.sum()])

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.features = 3
        self.layer: nn.Module = nn.Linear(int(np.prod(leaf.stored_shape)), 3)
        self.extra()

    def extra(self) -> None:
        """What others have besides."""

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.layer(self.seen(obs.float()).flatten(1))
        return found

    def seen(self, obs: Tensor) -> Tensor:
        return obs


class DropsInput(Summary):
    def seen(self, obs: Tensor) -> Tensor:
        return nn.functional.dropout(obs, 0.5)


class WritesInput(Summary):
    def forward(self, obs: Tensor) -> Tensor:
        obs //= 2
        return super().forward(obs)


class Shares(Summary):
    """Without a number where there is nothing to share."""

    def seen(self, obs: Tensor) -> Tensor:
        return obs / obs.flatten(1).sum(1).view(-1, *(1,) * (obs.ndim - 1))


class Placed(Summary):
    """Its numbers are places in a table, of which there is none but the first."""

    def extra(self) -> None:
        self.table = nn.Embedding(1, 2)

    def seen(self, obs: Tensor) -> Tensor:
        found: Tensor = self.table(obs.long())[..., 0]
        return found


def leaf_of(kind: str, own: Any) -> Leaf:
    (leaf,) = ObsSpec.of(SPACES[kind], Reading(sequence_length=4, own={"": own} if kind == "own" else {})).leaves
    return leaf


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize(("encoder", "said"), [(DropsInput, "gives other numbers when"), (WritesInput, "changes the")])
def test_what_shows_on_other_numbers_than_zeros_is_found(kind: str, encoder: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        OwnLeaf(leaf_of(kind, encoder), encoder)


@pytest.mark.parametrize(("kind", "encoder"), [("own", Shares), ("own", Placed), *((kind, Summary) for kind in SPACES)])
def test_what_is_sound_is_taken(kind: str, encoder: Any) -> None:
    assert OwnLeaf(leaf_of(kind, encoder), encoder).features == 3


class Extra(Summary):
    def get_extra_state(self) -> Any:
        return {"a": 1}

    def set_extra_state(self, state: Any) -> None:
        pass


class Narrow(Summary):
    def extra(self) -> None:
        self.register_buffer("scale", torch.ones(3, dtype=torch.bfloat16))


class Spread(Summary):
    def extra(self) -> None:
        self.register_buffer("scale", torch.ones(1).expand(3))


class Unseeded(Summary):
    def extra(self) -> None:
        self.noise = torch.from_numpy(np.random.default_rng().random(3, dtype=np.float32))

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs) + self.noise


class Scripted(Summary):
    def extra(self) -> None:
        self.layer = torch.jit.script(self.layer)


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        (Extra, "keeps _extra_state, which is a dict and no tensor"),
        (Narrow, "has the buffer scale of torch.bfloat16, which no saved policy holds"),
        (Spread, r"has the buffer scale, whose entries share memory: .clone\(\) parts them"),
        (Unseeded, "gives other numbers each time it is made"),
        (Scripted, "has the part 'layer' in TorchScript"),
    ],
)
def test_what_no_saved_policy_holds_is_refused(encoder: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        OwnLeaf(leaf_of("multibinary", encoder), encoder)
    assert "np.random" in caught.value.remedy


class Drawn(Summary):
    """Draws from every generator there is, into its state and beside it."""

    def extra(self) -> None:
        self.register_buffer("kept", torch.from_numpy(np.random.random(3).astype(np.float32)))
        self.beside = torch.rand(3) + random.random()

    def forward(self, obs: Tensor) -> Tensor:
        kept: Tensor = self.kept  # type: ignore[assignment]
        return super().forward(obs) + kept + self.beside


def test_what_a_constructor_draws_hangs_on_the_seed_and_leaves_the_generators_alone() -> None:
    plain, numpys = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    leaf = leaf_of("multibinary", Drawn)
    leaves = [OwnLeaf(leaf, Drawn) for _ in range(2)]
    for one in leaves:
        one.initialise(Stream(5, "policy-init"))
    obs = torch.ones(2, 5)
    assert torch.equal(leaves[0](obs), leaves[1](obs))
    loaded = OwnLeaf(leaf, Drawn)
    loaded.load_state_dict(leaves[0].state_dict())
    assert torch.equal(loaded(obs), leaves[0](obs))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == (plain, numpys)  # type: ignore[index]
