"""A module of the user's as the encoder of a leaf."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from steadyrl.errors import UserError, words
from steadyrl.nn.example import example
from steadyrl.seeding import Stream
from steadyrl.spaces import Leaf

_FORM = (
    "It has to be a class: MyEncoder(leaf) is a torch.nn.Module with an attribute `features`, whose output is float32 "
    "[B, features]."
)
_FUNCTION = (
    "An encoder is a function of the observation and of its weights, so that runs repeat and a saved policy acts as it "
    "did: LayerNorm or GroupNorm instead of BatchNorm, dropout=0, no random numbers, `x = x - 5` instead of `x -= 5`."
)
_STATE = (
    "What it knows has to be in parameters, in buffers that are arrays of their own, or follow from what its "
    "constructor draws from the generators of torch, NumPy (np.random) and random, which are seeded for it."
)
_HELD: tuple[torch.dtype, ...] = (
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32),
    *(torch.int64, torch.float16, torch.float32, torch.float64),
)

_LOOKS = 4  # dropout on a few features may agree with itself once


class OwnLeaf(nn.Module):
    """A module of the user's, made of a class that is called with the leaf.

    It stays in the mode it was made in: a part in evaluation mode is meant so, and where PyTorch has a faster way for
    that mode, its bits are others.

    Raises:
        UserError: it is no module, its output is not [B, features], or it is no function of observation and weights.
    """

    def __init__(self, leaf: Leaf, kind: Any) -> None:
        super().__init__()
        self._leaf, self._kind = leaf, kind
        self.inner = self._made(0)
        self.features = getattr(self.inner, "features", None)
        if type(self.features) is not int or self.features < 1:
            raise self._bad(f"has features = {self.features!r}, not a whole number of at least 1")
        self._insist_on_state()
        with _drawn_apart(0):
            self._try()

    def _made(self, seed: int) -> nn.Module:
        """With every shape known; what a constructor draws hangs on the seed alone."""
        try:
            with _drawn_apart(seed):
                made = self._kind(self._leaf)
                if isinstance(made, nn.Module) and _is_lazy(made):
                    with torch.no_grad():
                        made(example(self._leaf))
        except Exception as error:
            raise self._bad(f"could not be made: {type(error).__name__}: {words(error)}") from error
        if not isinstance(made, nn.Module):
            raise self._bad(f"made a {type(made).__name__}, not a torch.nn.Module")
        return made

    def _insist_on_state(self) -> None:
        """Raises UserError unless all that it knows can be learnt, saved and put back."""
        for name, parameter in self.inner.named_parameters():
            if parameter.dtype != torch.float32:
                raise self._bad(f"has the parameter {name}, which is not float32")
        for name, part in self.inner.named_modules():
            if isinstance(part, torch.jit.ScriptModule):
                raise self._bad(f"has the part {name!r} in TorchScript, which cannot be copied", _STATE)
        for name, value in self.inner.state_dict().items():
            if not isinstance(value, Tensor):
                raise self._bad(f"keeps {name}, which is a {type(value).__name__} and no tensor", _STATE)
            if value.dtype not in _HELD:
                raise self._bad(f"has the buffer {name} of {value.dtype}, which no saved policy holds", _STATE)
            if any(size > 1 and not step for size, step in zip(value.shape, value.stride(), strict=True)):
                raise self._bad(f"has the buffer {name}, whose entries share memory: .clone() parts them", _STATE)

    def _try(self) -> None:
        given, before = example(self._leaf), _copied(self.inner)
        if self._leaf.kind == "own":
            given = self._fitting(given)
        kept = given.clone()
        out, *others = [self._looked(given) for _ in range(_LOOKS)]
        self._insist_on_form(out, 2)
        if not torch.equal(given, kept):
            raise self._bad("changes the observations that it is given", _FUNCTION)
        if not _same(before, _copied(self.inner)):
            raise self._bad("changes numbers of its own while it looks at observations", _FUNCTION)
        if not all(_equal(out, other) for other in others):
            raise self._bad("gives other numbers when it looks at the same observation again", _FUNCTION)
        self._insist_on_form(self._looked(given[:1]), 1)
        with _drawn_apart(0), torch.no_grad():
            again = self._made(0)(given)
        if not _equal(out, again):
            raise self._bad("gives other numbers each time it is made", _STATE)

    def _fitting(self, given: Tensor) -> Tensor:
        """Zeros, where it can look at them and not at what is given."""
        zeros = torch.zeros_like(given)
        with torch.no_grad():
            try:
                self.inner(given.clone())
            except Exception:
                return zeros
        return given

    def _looked(self, given: Tensor) -> Any:
        try:
            with torch.no_grad():
                return self.inner(given)
        except Exception as error:
            shape = ", ".join(map(str, ("B", *self._leaf.stored_shape)))
            failed = f"failed on {given.dtype} [{shape}]: {type(error).__name__}: {words(error)}"
            raise self._bad(failed) from error

    def _insist_on_form(self, out: Any, count: int) -> None:
        if isinstance(out, Tensor) and out.dtype == torch.float32 and out.shape == (count, self.features):
            return
        what = f"{out.dtype} {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        many = "one observation" if count == 1 else "two observations"
        raise self._bad(f"gave {what} for {many}, not float32 ({count}, {self.features})")

    def _bad(self, what: str, remedy: str = _FORM) -> UserError:
        name = getattr(self._kind, "__name__", self._kind)
        return UserError(f"The encoder {name!s}{self._leaf.where} {what}.", remedy=remedy, code="bad-encoder")

    def initialise(self, stream: Stream) -> None:
        """The weights that its constructor gives it, drawn from the stream."""
        fresh = self._made(int(stream.integers(0, 2**31, (1,))[0]))
        self.inner.load_state_dict(fresh.state_dict())

    def forward(self, obs: Tensor) -> Tensor:
        """[B, features]."""
        found: Tensor = self.inner(obs)
        return found


@contextmanager
def _drawn_apart(seed: int) -> Iterator[None]:
    """The generators of torch, NumPy and Python begin at the seed and are put back; tensors are made in memory.

    A network whose shapes alone are asked for is made without memory, where a user's code could not run.
    """
    plain, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(numpys)


def _is_lazy(module: nn.Module) -> bool:
    tensors = (*module.parameters(), *module.buffers())
    return any(isinstance(tensor, UninitializedParameter | UninitializedBuffer) for tensor in tensors)


def _copied(module: nn.Module) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in (*module.parameters(), *module.buffers())]


def _equal(one: Any, other: Any) -> bool:
    """Whether two outputs are the same, NaN for NaN."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _same(before: list[Tensor], after: list[Tensor]) -> bool:
    return len(before) == len(after) and all(map(torch.equal, before, after))
