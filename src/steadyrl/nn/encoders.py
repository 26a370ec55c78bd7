"""Stored observations -> features: one module for each kind of leaf, side by side."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from steadyrl.errors import UserError
from steadyrl.nn.encoding import EMBEDDING, Encoding
from steadyrl.nn.images import ImpalaCnn, PlainCnn
from steadyrl.nn.init import (
    BlankEmbedding,
    BlankLinear,
    init_default,
    init_embeddings,
    init_orthogonal,
    layers_of,
    linear_layers,
)
from steadyrl.nn.own_leaf import OwnLeaf
from steadyrl.seeding import Stream
from steadyrl.spaces import Leaf, ObsSpec

Obs = Mapping[str, Tensor]
PLAIN = Encoding()
_GAIN = 2.0**0.5


class FloatLeaf(nn.Module):
    """A leaf of numbers [B, ...] as features [B, size], times its scale; a vector of scale 1 is passed through."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.size, self.scale = leaf.size, leaf.scale

    def forward(self, obs: Tensor) -> Tensor:
        """[B, size]."""
        flat = obs.reshape(obs.shape[0], self.size)
        return flat if self.scale == 1.0 else flat.to(torch.float32) * self.scale


class OneHotLeaf(nn.Module):
    """An integer leaf [B, K], counted from 0, as its K one-hot codes side by side, [B, sum(nvec)]."""

    entry: Tensor  # [sum(nvec)], which entry of the leaf a feature looks at
    value: Tensor  # [sum(nvec)], and for which value it is 1

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        counts = torch.tensor(leaf.nvec)
        entry = torch.repeat_interleave(torch.arange(len(leaf.nvec)), counts, output_size=sum(leaf.nvec))
        value = torch.cat([torch.arange(n) for n in leaf.nvec])
        # Constants of the space, not weights: kept out of the state_dict.
        self.register_buffer("entry", entry, persistent=False)
        self.register_buffer("value", value, persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, sum(nvec)]."""
        return (obs.index_select(1, self.entry) == self.value).to(torch.float32)


class EmbeddedLeaf(nn.Module):
    """An integer leaf [B, K] as K learnt vectors side by side, [B, K * 64]; each entry has vectors of its own."""

    start: Tensor  # [K], where an entry's vectors begin

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        counts = torch.tensor(leaf.nvec)
        self.register_buffer("start", counts.cumsum(0) - counts, persistent=False)
        self.vectors = BlankEmbedding(sum(leaf.nvec), EMBEDDING)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, K * 64]."""
        found: Tensor = self.vectors(obs + self.start).flatten(1)
        return found


class PooledCodes(nn.Module):
    """Codes [B, L], 0 beyond the end, as the share of each code, and that of the length in L: [B, n + 1]."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.codes, self.length = leaf.nvec[0], leaf.shape[0]

    def forward(self, obs: Tensor) -> Tensor:
        """[B, n + 1]."""
        ones = torch.ones(obs.shape, dtype=torch.float32, device=obs.device)
        counts = torch.zeros((obs.shape[0], self.codes + 1), dtype=torch.float32, device=obs.device)
        counts = counts.scatter_add(1, obs, ones)[:, 1:]
        total = counts.sum(dim=1, keepdim=True)
        return torch.cat([counts / total.clamp(min=1.0), total / self.length], dim=1)


class EmbeddedCodes(nn.Module):
    """Codes [B, L], 0 beyond the end, as the mean of their learnt vectors, and the share of the length: [B, 64 + 1]."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.length = leaf.shape[0]
        self.vectors = BlankEmbedding(leaf.nvec[0], EMBEDDING)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, 65]."""
        there = (obs > 0).to(torch.float32).unsqueeze(-1)
        summed = (self.vectors((obs - 1).clamp(min=0)) * there).sum(dim=1)
        count = there.sum(dim=1)
        return torch.cat([summed / count.clamp(min=1.0), count / self.length], dim=1)


class PooledSequence(nn.Module):
    """Entries [B, L, F] with a mask as last column, each through a linear layer and ReLU, then their mean (Zaheer et
    al. 2017, arXiv:1703.06114), and the share of the length in L: [B, 64 + 1].
    """

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.length, self.scale = leaf.shape[0], leaf.scale
        self.entry = BlankLinear(leaf.features, EMBEDDING)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, 65]."""
        entries, there = obs[..., :-1] * self.scale, obs[..., -1:]
        summed = (self.entry(entries).relu() * there).sum(dim=1)
        count = there.sum(dim=1)
        return torch.cat([summed / count.clamp(min=1.0), count / self.length], dim=1)


def encoder_of(leaf: Leaf, encoding: Encoding) -> nn.Module:
    """The module of a leaf."""
    way = encoding.way(leaf)
    if way == "own":
        return OwnLeaf(leaf, encoding.own[leaf.path])
    if way in ("nature", "small"):
        return PlainCnn(leaf, small=way == "small")
    if way == "impala":
        return ImpalaCnn(leaf)
    if way == "pooled and embedded":
        return PooledSequence(leaf) if leaf.kind == "sequence" else EmbeddedCodes(leaf)
    if way == "pooled":
        return PooledCodes(leaf)
    if way == "embedded":
        return EmbeddedLeaf(leaf)
    if leaf.kind == "own":
        raise UserError(
            f"The observation{leaf.where} needs the class of its own encoder.",
            remedy=f"Pass it: encoders={{{leaf.path!r}: MyEncoder}}.",
            code="no-encoder",
        )
    return OneHotLeaf(leaf) if way == "one-hot" else FloatLeaf(leaf)


class Encoder(nn.Module):
    """Stored observations -> features [B, F], the leaves side by side in the space's order."""

    def __init__(self, obs_spec: ObsSpec, encoding: Encoding = PLAIN) -> None:
        super().__init__()
        self.paths = [leaf.path for leaf in obs_spec.leaves]
        first = obs_spec.leaves[0]
        plain = len(obs_spec.leaves) == 1 and first.kind in ("box", "multibinary") and first.scale == 1.0
        plain = plain and len(first.shape) == 1 and first.path not in encoding.own
        self.given = first.path if plain else None  # one vector, which is its own features
        self.leaves = nn.ModuleList(encoder_of(leaf, encoding) for leaf in obs_spec.leaves)
        widths = [
            module.features if isinstance(module, OwnLeaf) else encoding.width(leaf)
            for module, leaf in zip(self.leaves, obs_spec.leaves, strict=True)
        ]
        self.features = sum(int(width) for width in widths if width is not None)
        self.learns = any(True for _ in self.parameters())

    def initialise(self, stream: Stream, *, ortho: bool) -> None:
        """Fill every weight from the stream: orthogonally with gain sqrt 2, or as torch does."""
        for module in self.leaves:
            if isinstance(module, OwnLeaf):
                module.initialise(stream)
            elif ortho:
                init_orthogonal(layers_of(module), _GAIN, stream)
            else:
                init_default(layers_of(module), stream)
            init_embeddings(module, stream)

    def forward(self, obs: Obs) -> Tensor:
        """[B, F]."""
        if self.given is not None:
            return obs[self.given]
        parts = [leaf(obs[path]) for path, leaf in zip(self.paths, self.leaves, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def feature_dim(obs_spec: ObsSpec, encoding: Encoding = PLAIN) -> int:
    """Width of what the encoder hands out."""
    return Encoder(obs_spec, encoding).features if encoding.own else sum(map(encoding.width, obs_spec.leaves))


def init_part(part: nn.Module, stream: Stream) -> None:
    """Fill every weight of a network as torch does: those of its encoders first, then the linear layers."""
    encoders = [module for module in part.modules() if isinstance(module, Encoder)]
    inside = {id(layer) for encoder in encoders for layer in encoder.modules()}
    for encoder in encoders:
        encoder.initialise(stream, ortho=False)
    init_default([layer for layer in linear_layers(part) if id(layer) not in inside], stream)
