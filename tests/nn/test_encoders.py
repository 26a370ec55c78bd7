"""Encoders: what each leaf becomes, how many weights that takes, and initial weights from the stream alone."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor, nn

from steadyrl.errors import UserError
from steadyrl.nn.encoders import Encoder
from steadyrl.nn.encoding import EMBEDDING, Encoding
from steadyrl.nn.images import Pixels
from steadyrl.seeding import Stream
from steadyrl.spaces import Leaf, ObsSpec
from support.trees import LEAVES, drawn

NATURE = gs.Box(0, 255, (4, 84, 84), np.uint8)


def tensors(spec: ObsSpec, values: list[Any]) -> dict[str, Tensor]:
    return {path: torch.from_numpy(leaf) for path, leaf in spec.store(spec.tree.batch(values), batch=True).items()}


def made(space: gs.Space[Any], encoding: Encoding, seed: int = 0, *, ortho: bool = False) -> tuple[ObsSpec, Encoder]:
    spec = ObsSpec.of(space)
    encoder = Encoder(spec, encoding)
    encoder.initialise(Stream(seed, "weights"), ortho=ortho)
    return spec, encoder


ENCODINGS = {
    "plain": Encoding(),
    "nature": Encoding("nature", 1024),
    "impala": Encoding("impala", 2),
}
SPACES = LEAVES | {
    "nature": NATURE,
    "wide": gs.Box(0, 255, (40, 96, 3), np.uint8),
    "pixel": gs.Box(0, 255, (1, 1), np.uint8),
}


@pytest.mark.parametrize(("name", "how"), list(product(SPACES, ENCODINGS)))
def test_widths_and_weights_are_counted_beforehand(name: str, how: str) -> None:
    encoding = ENCODINGS[how]
    spec, encoder = made(SPACES[name], encoding)
    (leaf,) = spec.leaves
    assert sum(parameter.numel() for parameter in encoder.parameters()) == encoding.weights(leaf)
    assert encoder.features == encoding.width(leaf)
    assert encoder.learns == (encoding.weights(leaf) > 0)
    features = encoder(tensors(spec, [drawn(SPACES[name], seed) for seed in (1, 2)]))
    assert (features.shape, features.dtype) == ((2, encoder.features), torch.float32)
    assert features.isfinite().all()


def test_the_nature_network_has_its_published_size() -> None:
    """Convolutions 32 x 8 x 8, 64 x 4 x 4, 64 x 3 x 3 on 4 frames of 84 x 84, then 512 (Mnih et al. 2015)."""
    (leaf,) = ObsSpec.of(NATURE).leaves
    assert Encoding("nature").weights(leaf) == 8_224 + 32_832 + 36_928 + (3_136 * 512 + 512)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5, 6), None),
        ((5, 6, 3), (2, 0, 1)),
        ((3, 5, 6), (0, 1, 2)),
        ((2, 5, 6, 1), (0, 3, 1, 2)),
        ((2, 3, 5, 6), None),
    ],
    ids=str,
)
def test_pixels_keep_their_places_and_are_scaled_once(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    (leaf,) = ObsSpec.of(gs.Box(0, 255, shape, np.uint8)).leaves
    image = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    moved = image if axes is None else image.transpose(axes)
    found = Pixels(leaf)(torch.from_numpy(image[None]))[0]
    expected = torch.from_numpy(moved.reshape(-1, 5, 6).astype(np.float32)) / 255
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, rtol=1e-6, atol=0)


def test_a_small_image_gets_the_smaller_network() -> None:
    ways = {
        size: Encoding("nature").way(ObsSpec.of(gs.Box(0, 255, (size, 96), np.uint8)).leaves[0]) for size in (35, 36)
    }
    assert ways == {35: "small", 36: "nature"}


def test_pooled_codes_are_shares() -> None:
    spec, encoder = made(gs.Text(4, charset="ab"), Encoding())
    assert encoder(tensors(spec, ["abb", "", "a"])).tolist() == [
        [pytest.approx(1 / 3), pytest.approx(2 / 3), 0.75],
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.25],
    ]


def test_embedded_codes_are_the_mean_of_their_vectors() -> None:
    spec, encoder = made(gs.Text(4, charset="ab"), Encoding(embed_above=1))
    a, b = encoder.get_parameter("leaves.0.vectors.weight")
    features = encoder(tensors(spec, ["abb", ""]))
    assert torch.allclose(features[0, :EMBEDDING], (a + 2 * b) / 3, atol=1e-6)
    assert features[0, EMBEDDING].item() == 0.75
    assert (features[1] == 0).all()


def test_embedded_integers_have_vectors_of_their_own() -> None:
    spec, encoder = made(gs.MultiDiscrete([2, 3], start=[0, -1]), Encoding(embed_above=2))
    vectors = encoder.get_parameter("leaves.0.vectors.weight")
    assert vectors.shape == (5, EMBEDDING)
    assert encoder(tensors(spec, [[1, -1]]))[0].tolist() == torch.cat([vectors[1], vectors[2]]).tolist()


def test_what_is_beyond_the_end_of_a_sequence_has_no_part() -> None:
    spec, encoder = made(gs.Sequence(gs.Box(-1, 1, (2,))), Encoding())
    obs = tensors(spec, [(np.array([1.0, 0.5]), np.array([0.0, -1.0]))])
    layer: Any = encoder.leaves[0].entry
    entries = layer(obs[""][0, :2, :2]).relu()
    expected = torch.cat([entries.mean(dim=0), torch.tensor([2 / 128])])
    assert torch.allclose(encoder(obs)[0], expected, atol=1e-6)
    before = encoder(obs)
    obs[""][0, 2:, :2] = 99.0
    assert torch.equal(encoder(obs), before)


@pytest.mark.parametrize("ortho", [True, False])
def test_initial_weights_come_from_the_stream_alone(ortho: bool) -> None:
    space = gs.Dict({"i": LEAVES["image"], "d": LEAVES["discrete"], "s": LEAVES["sequence"]})
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    encoding = Encoding("impala", 2)
    first, again, other = (made(space, encoding, seed, ortho=ortho)[1].state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert all(not torch.equal(first[name], other[name]) for name in first if "bias" not in name)
    for name, weight in first.items():
        if ortho and name.endswith("weight") and "vectors" not in name:
            rows = weight.flatten(1) if weight.shape[0] <= weight[0].numel() else weight.flatten(1).T
            assert torch.allclose(rows @ rows.T, 2 * torch.eye(len(rows)), atol=1e-4)


class Mine(nn.Module):
    """An own encoder with a weight of no known kind."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.features = 2
        self.layer = nn.Linear(leaf.size, 2)
        self.gain = nn.Parameter(torch.rand(2))

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.layer(obs.flatten(1).float()) * self.gain
        return found


def test_an_own_encoder_gets_its_own_initial_weights_from_the_stream() -> None:
    space = gs.Dict({"i": LEAVES["image"], "v": LEAVES["vector"]})
    before = torch.random.get_rng_state()
    encoding = Encoding("nature", own={"i": Mine})
    spec, encoder = made(space, encoding, 3)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert encoder.features == 2 + 3
    first, again, other = (made(space, encoding, seed)[1].state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)
    assert first["leaves.0.inner.gain"].min() >= 0
    assert encoder(tensors(spec, [drawn(space, 0)])).shape == (1, 5)


class NoModule:
    features = 3

    def __init__(self, leaf: Leaf) -> None:
        pass


class NoFeatures(Mine):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.features = 0


class OtherWidth(Mine):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.features = 5


class Double(Mine):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.double()


class Raises(Mine):
    def __init__(self, leaf: Leaf) -> None:
        raise LookupError("no such file")


class RaisesLater(Mine):
    def forward(self, obs: Tensor) -> Tensor:
        raise LookupError("no such file")


class Dropping(Mine):
    def forward(self, obs: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(obs), 0.5)


class Noisy(Mine):
    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = super().forward(obs)
        return found + torch.randn_like(found)


class Normalised(Mine):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        self.norm = nn.BatchNorm1d(leaf.size)

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(self.norm(obs))


class Spectral(Mine):
    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf)
        nn.utils.parametrizations.spectral_norm(self.layer)


class InPlace(Mine):
    def forward(self, obs: Tensor) -> Tensor:
        obs -= 5.0
        return super().forward(obs)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Dropping, "gives other numbers when it looks at the same observation again"),
        (Noisy, "gives other numbers when it looks at the same observation again"),
        (Normalised, "changes numbers of its own while it looks at observations"),
        (Spectral, "changes numbers of its own while it looks at observations"),
        (InPlace, "changes the observations that it is given"),
    ],
)
def test_an_own_encoder_is_a_function_of_the_observation_and_its_weights(kind: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        Encoder(ObsSpec.of(gs.Dict({"v": LEAVES["vector"]})), Encoding(own={"v": kind}))
    assert caught.value.message == f"The encoder {kind.__name__} at 'v' {said}."
    assert "LayerNorm" in caught.value.remedy


def test_a_part_of_an_own_encoder_stays_in_the_mode_it_was_made_in() -> None:
    class Pretrained(Normalised):
        def __init__(self, leaf: Leaf) -> None:
            super().__init__(leaf)
            self.norm.eval()

    (leaf,) = Encoder(ObsSpec.of(gs.Dict({"v": LEAVES["vector"]})), Encoding(own={"v": Pretrained})).leaves
    assert {name: part.training for name, part in leaf.named_modules() if name.startswith("inner.")} == {
        "inner.layer": True,
        "inner.norm": False,
    }


def test_trying_an_own_encoder_draws_nothing_of_torchs() -> None:
    before = torch.get_rng_state()
    with pytest.raises(UserError):
        Encoder(ObsSpec.of(gs.Dict({"v": LEAVES["vector"]})), Encoding(own={"v": Noisy}))
    Encoder(ObsSpec.of(gs.Dict({"v": LEAVES["vector"]})), Encoding(own={"v": Mine}))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (NoModule, "not a torch.nn.Module"),
        (NoFeatures, "features = 0"),
        (OtherWidth, "(2, 2) for two observations, not float32 (2, 5)"),
        (Double, "layer.weight, which is not float32"),
        (Raises, "could not be made: LookupError: no such file"),
        (RaisesLater, "failed on torch.float32 [B, 3]: LookupError: no such file"),
    ],
)
def test_an_own_encoder_that_is_none_is_a_user_error(kind: Any, said: str) -> None:
    if kind is Double:
        kind = type("Double", (Double,), {})
    with pytest.raises(UserError) as caught:
        Encoder(ObsSpec.of(gs.Dict({"v": LEAVES["vector"]})), Encoding(own={"v": kind}))
    assert caught.value.code == "bad-encoder"
    assert said.replace("gain", "layer.weight") in caught.value.message.replace(
        "parameter gain", "parameter layer.weight"
    )
    assert "at 'v'" in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("fields", [{"cnn": "vgg"}, {"embed_above": -1}, {"embed_above": 1.5}], ids=str)
def test_an_encoding_that_is_none_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no encoding"):
        Encoding(**fields)
