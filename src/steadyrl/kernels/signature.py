"""What a trace is made for: the structure, shapes and fixed objects among a function's arguments."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import torch
from torch import Tensor

from steadyrl.kernels.errors import CannotTrace

# Numbers of `Dtype` in native/arrays.h.
_DTYPES = {torch.float32: 0, torch.int64: 1, torch.uint8: 2, torch.bool: 3}

_MOST_DIMS = 8  # of `Array` there

Token = tuple[Any, ...]
Leaf = Tensor | float


def describe(value: Any) -> tuple[list[Token], list[Leaf]]:
    """Walk tuples, lists, named tuples and dicts in order.

    Returns:
        Tokens, as `native.Tape` reads them and hashable together, and the leaves: tensors and floats. Everything else
        is fixed: a token holds it.

    Raises:
        CannotTrace: A tensor that the machine does not know, or an object that is not hashable.
    """
    tokens: list[Token] = []
    leaves: list[Leaf] = []
    _walk(value, tokens, leaves)
    return tokens, leaves


def _walk(value: Any, tokens: list[Token], leaves: list[Leaf]) -> None:
    if isinstance(value, Tensor):
        tokens.append(_tensor(value))
        leaves.append(value)
    elif isinstance(value, float):
        tokens.append(("number",))
        leaves.append(value)
    elif isinstance(value, tuple | list):
        tokens.append(("sequence", type(value), len(value)))
        for part in value:
            _walk(part, tokens, leaves)
    elif type(value) is dict:
        tokens.append(("mapping", tuple(value)))
        for part in value.values():
            _walk(part, tokens, leaves)
    else:
        if not isinstance(value, Hashable):
            raise CannotTrace(f"an argument is a {type(value).__name__}, which is not hashable.")
        tokens.append(("fixed", value, type(value)))


def _tensor(tensor: Tensor) -> Token:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.dtype not in _DTYPES:
        raise CannotTrace(f"a tensor is {tensor.dtype} on {tensor.device}; the machine takes float32, int64 and bool.")
    if tensor.dim() > _MOST_DIMS:
        raise CannotTrace(f"a tensor has {tensor.dim()} dimensions.")
    if tensor.numel() == 0:
        raise CannotTrace("a tensor is empty.")
    return "tensor", _DTYPES[tensor.dtype], tuple(tensor.shape)


def replaced(value: Any, leaves: Iterator[Any]) -> Any:
    """The same structure with other leaves."""
    if isinstance(value, Tensor | float):
        return next(leaves)
    if isinstance(value, tuple | list):
        parts = [replaced(part, leaves) for part in value]
        if isinstance(value, list):
            return parts
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if type(value) is dict:
        return {key: replaced(part, leaves) for key, part in value.items()}
    return value
