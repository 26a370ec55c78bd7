"""ATen operations that only rearrange: views, joins, constants, indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from steadyrl.kernels.errors import CannotTrace
from steadyrl.kernels.layout import View
from steadyrl.kernels.lowering import Lowering, Result, operation
from steadyrl.kernels.tracing import Node

Shape = Sequence[int]


@operation(
    "detach", "alias", "clone", "lift_fresh", "lift_fresh_copy", "contiguous", "_conj", "view_as", "_reshape_copy"
)
def _same(low: Lowering, node: Node, a: View, *args: Any, **kwargs: Any) -> View:
    return a


@operation("expand")
def _expand(low: Lowering, node: Node, a: View, size: Shape, implicit: bool = False) -> View:
    return low.assembler.expand(a, tuple(node.result.shape))


@operation("view", "_unsafe_view", "reshape", "_reshape_alias")
def _view(low: Lowering, node: Node, a: View, *args: Any) -> View:
    return low.reshape(a, node.result.shape)


@operation("unsqueeze")
def _unsqueeze(low: Lowering, node: Node, a: View, dim: int) -> View:
    d = dim % (len(a.shape) + 1)
    return a._replace(shape=(*a.shape[:d], 1, *a.shape[d:]), strides=(*a.strides[:d], 0, *a.strides[d:]))


@operation("squeeze")
def _squeeze(low: Lowering, node: Node, a: View, dim: int | Shape | None = None) -> View:
    return low.without(a, [d for d in low.dims(a, dim) if a.shape[d] == 1])


@operation("permute")
def _permute(low: Lowering, node: Node, a: View, dims: Shape) -> View:
    order = low.dims(a, dims)
    return a._replace(shape=tuple(a.shape[d] for d in order), strides=tuple(a.strides[d] for d in order))


@operation("transpose", "t", "numpy_T")
def _transpose(low: Lowering, node: Node, a: View, first: int = 0, second: int = 1) -> View:
    if len(a.shape) < 2:
        return a
    order = list(range(len(a.shape)))
    order[first], order[second] = order[second], order[first]
    return _permute(low, node, a, order)


def _cut(a: View, dim: int, start: int, length: int, step: int = 1) -> View:
    """`length` of the entries of a dimension, from `start` on; a single one has stride 0."""
    shape = (*a.shape[:dim], length, *a.shape[dim + 1 :])
    stride = a.strides[dim] * step if length != 1 else 0
    return View(a.register, a.offset + start * a.strides[dim], shape, (*a.strides[:dim], stride, *a.strides[dim + 1 :]))


@operation("select")
def _select(low: Lowering, node: Node, a: View, dim: int, index: int) -> View:
    d = dim % len(a.shape)
    return low.without(_cut(a, d, index % a.shape[d], 1), [d])


@operation("slice")
def _slice(
    low: Lowering, node: Node, a: View, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> View:
    d = dim % len(a.shape)
    chosen = range(*slice(start, end, step).indices(a.shape[d]))
    return _cut(a, d, chosen.start, len(chosen), step)


@operation("split_with_sizes", "split", "chunk")
def _split(low: Lowering, node: Node, a: View, sizes: Any, dim: int = 0) -> Result:
    d, start, parts = dim % len(a.shape), 0, []
    for part in node.result:
        parts.append(_cut(a, d, start, part.shape[d]))
        start += part.shape[d]
    return tuple(parts)


@operation("unbind")
def _unbind(low: Lowering, node: Node, a: View, dim: int = 0) -> Result:
    d = dim % len(a.shape)
    return tuple(low.without(_cut(a, d, i, 1), [d]) for i in range(a.shape[d]))


@operation("cat")
def _cat(low: Lowering, node: Node, parts: list[View], dim: int = 0) -> View:
    out = low.assembler.temporary(tuple(node.result.shape))
    d, start = dim % len(out.shape), 0
    for part in parts:
        if part.shape == (0,):
            continue
        low.assembler.emit("copy", _cut(out, d, start, part.shape[d]), [part])
        start += part.shape[d]
    return out


@operation("stack")
def _stack(low: Lowering, node: Node, parts: list[View], dim: int = 0) -> View:
    d = dim % (len(parts[0].shape) + 1)
    return _cat(low, node, [_unsqueeze(low, node, part, d) for part in parts], d)


@operation("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
def _zeros(low: Lowering, node: Node, *args: Any, **kwargs: Any) -> View:
    return low.filled(0.0, node.result.shape)


@operation("ones", "ones_like", "new_ones")
def _ones(low: Lowering, node: Node, *args: Any, **kwargs: Any) -> View:
    return low.filled(1.0, node.result.shape)


@operation("full", "full_like")
def _full(low: Lowering, node: Node, like: Any, value: float, **kwargs: Any) -> View:
    return low.filled(value, node.result.shape)


@operation("new_full")
def _new_full(low: Lowering, node: Node, like: Any, size: Any, value: float, **kwargs: Any) -> View:
    return low.filled(value, node.result.shape)


@operation("scalar_tensor")
def _scalar(low: Lowering, node: Node, value: float, **kwargs: Any) -> View:
    return low.filled(value, ())


@operation("fill")
def _fill(low: Lowering, node: Node, a: View, value: View | float) -> View:
    return low.assembler.expand(low.as_view(value), a.shape)


@operation("zero")
def _zero(low: Lowering, node: Node, a: View) -> View:
    return low.filled(0.0, a.shape)


@operation("copy")
def _copy(low: Lowering, node: Node, a: View, source: View, non_blocking: bool = False) -> View:
    if node.args[0].dtype != node.args[1].dtype:
        raise CannotTrace("the function copies between types in place.")
    return low.assembler.expand(source, a.shape)


@operation("arange")
def _arange(low: Lowering, node: Node, *bounds: float, **kwargs: Any) -> View:
    start, step = (0 if len(bounds) < 2 else bounds[0]), (1 if len(bounds) < 3 else bounds[2])
    counted = low.counting(len(node.result))
    if (start, step) == (0, 1):
        return counted
    return low.apply("add", low.apply("mul", counted, step), start)


@operation("gather")
def _gather(low: Lowering, node: Node, a: View, dim: int, index: View, sparse_grad: bool = False) -> View:
    return low.picked(a, dim % len(a.shape), index)


@operation("scatter_add", "scatter")
def _scatter(low: Lowering, node: Node, a: View, dim: int, index: View, source: View | float) -> View:
    d = dim % len(a.shape)
    source = low.as_view(source)
    if node.name.startswith("scatter_add") and index.shape[d] != 1:
        out = low.assembler.temporary(a.shape)
        low.assembler.emit("copy", out, [a])
        low.assembler.indexed("scatter_add", out, (low.assembler.expand(source, index.shape), index), d, a.shape[d])
        return out
    return low.placed(a, d, index, low.assembler.expand(source, index.shape), add=node.name.startswith("scatter_add"))


@operation("select_backward")
def _select_backward(low: Lowering, node: Node, grad: View, size: Shape, dim: int, index: int) -> View:
    d = dim % len(size)
    return _inside(low, _unsqueeze(low, node, grad, d), size, d, index % size[d], 1)


@operation("slice_backward")
def _slice_backward(
    low: Lowering, node: Node, grad: View, size: Shape, dim: int, start: int, end: int, step: int
) -> View:
    chosen = range(*slice(start, end, step).indices(size[dim]))
    return _inside(low, grad, size, dim % len(size), chosen.start, step)


def _inside(low: Lowering, part: View, size: Shape, dim: int, start: int, step: int) -> View:
    """Zeros with a part of them replaced."""
    out = low.assembler.temporary(tuple(size))
    low.assembler.emit("copy", out, [low.filled(0.0, size)])
    low.assembler.emit("copy", _cut(out, dim, start, part.shape[dim], step), [part])
    return out


def _row_index(low: Lowering, node: Node, a: View, indices: list[View | None]) -> View:
    """The index of `a[torch.arange(B), index]` as that of a gather along dimension 1, [B, 1, 1, ...]."""
    if len(indices) != 2 or len(a.shape) < 2:
        raise CannotTrace(f"indexing with {len(indices)} tensors is known as x[torch.arange(B), index] only.")
    rows, index = indices
    bools = any(isinstance(i, Tensor) and i.dtype != node.args[1][1].dtype for i in node.args[1])
    if rows is None or index is None or bools or not low.is_counting(rows) or index.shape != rows.shape:
        raise CannotTrace("indexing with tensors is known as x[torch.arange(B), index] only; write x.gather(1, ...).")
    if rows.shape != a.shape[:1]:
        raise CannotTrace("indexing with tensors is known for all rows, x[torch.arange(B), index], only.")
    trailing = len(a.shape) - 1
    return index._replace(shape=(*index.shape, *(1,) * trailing), strides=(*index.strides, *(0,) * trailing))


@operation("index")
def _index(low: Lowering, node: Node, a: View, indices: list[View | None]) -> View:
    index = _row_index(low, node, a, indices)
    shape = (a.shape[0], 1, *a.shape[2:])
    return low.without(low.picked(a, 1, index._replace(shape=shape)), [1])


@operation("index_put")
def _index_put(
    low: Lowering, node: Node, a: View, indices: list[View | None], values: View, accumulate: bool = False
) -> View:
    index = _row_index(low, node, a, indices)
    outside = (a.shape[0], 1, *a.shape[2:])
    source = _unsqueeze(low, node, low.assembler.expand(values, (a.shape[0], *a.shape[2:])), 1)
    return low.placed(a, 1, index._replace(shape=outside), source, add=accumulate)
