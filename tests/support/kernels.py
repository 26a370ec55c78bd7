"""What tests of the native kernels share: when to skip them, and flat networks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from steadyrl import kernels
from steadyrl.kernels.reference import Linear, Member
from steadyrl.seeding import Stream

# `make test` skips these by name where there is no compiler; tests/kernels/test_build.py insists in `make test-full`.
needs_native = pytest.mark.skipif(not kernels.available(), reason=kernels.reason() or "kernels are there")

ALIGN = 16


@dataclass(frozen=True)
class FlatNet:
    """Multilayer perceptrons of one shape in one buffer of `size` numbers."""

    inputs: int
    members: list[Member]
    size: int
    norms: list[list[Linear]] = field(default_factory=list)

    @property
    def outputs(self) -> int:
        return sum(width for *_, width in self.members[0][1])

    def spots(self) -> Tensor:
        """[size], where there is a parameter and not padding."""
        found = torch.zeros(self.size, dtype=torch.bool)
        for layers, heads in self.members:
            widths = [self.inputs, *(width for *_, width in layers)]
            pairs = [*zip(widths, layers, strict=False), *((widths[-1], head) for head in heads)]
            for inner, (weight, bias, width) in pairs:
                found[weight : weight + inner * width] = True
                found[bias : bias + width] = True
        for gain, shift, width in itertools.chain.from_iterable(self.norms):
            found[gain : gain + width] = found[shift : shift + width] = True
        return found


def flat_net(
    inputs: int, hidden: Sequence[int], heads: Sequence[int], members: int = 1, start: int = 0, *, norm: bool = False
) -> FlatNet:
    """Each parameter at a multiple of 16 numbers, from `start` on."""
    at = start

    def place(inner: int, width: int) -> Linear:
        nonlocal at
        weight, bias = at, at + -(-inner * width // ALIGN) * ALIGN
        at = bias + -(-width // ALIGN) * ALIGN
        return weight, bias, width

    def member() -> Member:
        layers = [place(inner, width) for inner, width in itertools.pairwise([inputs, *hidden])]
        last = hidden[-1] if hidden else inputs
        return layers, [place(last, width) for width in heads]

    found = [member() for _ in range(members)]
    norms = [[place(1, width) for width in hidden] for _ in range(members)] if norm else []
    return FlatNet(inputs, found, at, norms)


def normal(name: str, *shape: int, scale: float = 1.0) -> Tensor:
    """Gaussian numbers, the same for the same name."""
    return torch.from_numpy(scale * Stream(0, name).normal(shape)).to(torch.float32)


@contextmanager
def native_threads(n: int) -> Iterator[None]:
    """Kernels use `n` threads inside, also more than there are cores."""
    from steadyrl.kernels import _native

    before = _native.threads()
    _native.set_threads(n)
    try:
        yield
    finally:
        _native.set_threads(before)
