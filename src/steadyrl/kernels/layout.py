"""Where numbers lie: views with strides, and loops over several of them."""

from __future__ import annotations

from typing import NamedTuple

from steadyrl.kernels.errors import CannotTrace

Shape = tuple[int, ...]

_LONG = 32  # numbers from which a dimension fills vectors well


class View(NamedTuple):
    """Numbers in a register; strides are 0 in dimensions of size 1."""

    register: int
    offset: int
    shape: Shape
    strides: tuple[int, ...]


def row_major(shape: Shape) -> tuple[int, ...]:
    """Strides of a contiguous tensor, 0 where the size is 1."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step if size != 1 else 0)
        step *= size
    return tuple(reversed(strides))


def nesting(shape: Shape) -> list[int]:
    """Dimensions in the order in which values lie in memory, outermost first.

    As in PyTorch where the last one fills vectors; else the largest comes innermost, the last of equal ones.
    """
    if shape and shape[-1] >= _LONG:
        return list(range(len(shape)))
    return sorted(range(len(shape)), key=lambda d: (shape[d], d))


def long_inner(shape: Shape) -> tuple[int, ...]:
    """Strides of values; 0 where the size is 1."""
    strides, step = [0] * len(shape), 1
    for d in reversed(nesting(shape)):
        if shape[d] != 1:
            strides[d] = step
            step *= shape[d]
    return tuple(strides)


def reshaped(view: View, shape: Shape) -> View | None:
    """The same numbers in row-major order as another shape, or None where they must be copied for it."""
    old = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    groups: list[tuple[int, int]] = []  # runs of dimensions that are one in memory: size, stride
    for n, s in old:
        if groups and groups[-1][1] == n * s:
            groups[-1] = (groups[-1][0] * n, s)
        else:
            groups.append((n, s))
    strides, left, step = [0] * len(shape), 1, 0
    for d in reversed(range(len(shape))):
        if shape[d] == 1:
            continue
        if left == 1:
            if not groups:
                return None
            left, step = groups.pop()
        if left % shape[d]:
            return None
        strides[d], step, left = step, step * shape[d], left // shape[d]
    return View(view.register, view.offset, shape, tuple(strides))


def merged(dims: list[tuple[int, tuple[int, ...]]], most: int) -> list[tuple[int, tuple[int, ...]]]:
    """Loops (size, stride of each operand), outermost first, with those joined that are one in every operand."""
    joined: list[tuple[int, tuple[int, ...]]] = []
    for size, strides in dims:
        if size == 1:
            continue
        if joined and all(outer == inner * size for outer, inner in zip(joined[-1][1], strides, strict=True)):
            joined[-1] = (joined[-1][0] * size, strides)
        else:
            joined.append((size, strides))
    if len(joined) > most:
        raise CannotTrace(f"an operation needs {len(joined)} nested loops, more than {most}.")
    return joined
