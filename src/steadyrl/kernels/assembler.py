"""Programs of the native register machine: views of registers, instructions, and memory for what lies between them.

Values are float32 arrays whatever their type in PyTorch (bool and int64 are exact up to 2^24). Where the last dimension
is short, a value's largest one is innermost in memory, so that every loop is long: `[B, A]` logits lie as A rows of B
numbers, and a softmax is a handful of vector operations over B. A view costs nothing: it is a register with other
strides.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from steadyrl.kernels.layout import Shape, View, long_inner, merged, nesting

LOOPS, ALONG, ARGUMENTS = 4, 3, 3  # as in native/tape.h
_COMMUTATIVE = frozenset({"add", "mul", "max", "min", "eq", "ne", "logical_and", "logical_or"})


class Operand(NamedTuple):
    """A view with one stride for each loop of an instruction."""

    register: int
    offset: int
    strides: tuple[int, ...]
    along: tuple[int, ...]


@dataclass(slots=True)
class Instruction:
    """One loop nest; sizes outermost first."""

    op: str
    sizes: tuple[int, ...]
    along: tuple[int, ...]
    out: Operand
    args: tuple[Operand, ...]
    value: float = 1.0


@dataclass(slots=True)
class Register:
    """Memory with a name. `kind`: constant, input, temporary or output."""

    kind: str
    size: int
    data: tuple[float, ...] = ()  # of a constant
    number: int = 0  # of an input or output
    strides: tuple[int, ...] = ()  # of an input: as the program wants it


def float32(number: float) -> float:
    """The nearest float32, infinite where it is too large."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
        return rounded
    except OverflowError:
        return math.copysign(math.inf, number)


def _divide(a: float, b: float) -> float:
    return a / b if b else math.copysign(math.inf, a) if a else math.nan


_FOLDED: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "neg": lambda a: -a,
    "copy": lambda a: a,
    "eq": lambda a, b: float(a == b),
    "gt": lambda a, b: float(a > b),
    "lt": lambda a, b: float(a < b),
}


class Assembler:
    """Collects instructions; equal ones are made once."""

    def __init__(self) -> None:
        self.registers: list[Register] = []
        self.instructions: list[Instruction] = []
        self._memo: dict[tuple[object, ...], View] = {}
        self._constants: dict[bytes, int] = {}
        self._products: dict[View, tuple[View, View]] = {}

    def _register(self, register: Register) -> int:
        self.registers.append(register)
        return len(self.registers) - 1

    def temporary(self, shape: Shape, strides: tuple[int, ...] | None = None) -> View:
        """A register of its own."""
        size = math.prod(shape)
        return View(self._register(Register("temporary", size)), 0, shape, strides or long_inner(shape))

    def input(self, number: int, shape: Shape, strides: tuple[int, ...]) -> View:
        """The input of this number; the machine copies it where it does not lie like this."""
        register = Register("input", math.prod(shape), number=number, strides=strides)
        return View(self._register(register), 0, shape, strides)

    def output(self, number: int) -> int:
        """The register of an output."""
        return self._register(Register("output", 0, number=number))

    def constants(self, numbers: Sequence[float]) -> View:
        """A vector of constants."""
        data = tuple(float32(number) for number in numbers)
        key = struct.pack(f"{len(data)}f", *data)
        if key not in self._constants:
            self._constants[key] = self._register(Register("constant", len(data), data))
        return View(self._constants[key], 0, (len(data),), (int(len(data) > 1),))

    def constant(self, number: float) -> View:
        """A scalar."""
        return self.constants((number,))._replace(shape=(), strides=())

    def number(self, view: View) -> float | None:
        """The one number that a view is known to hold everywhere, else None."""
        register = self.registers[view.register]
        if register.kind != "constant" or any(view.strides):
            return None
        return register.data[view.offset]

    @staticmethod
    def expand(view: View, shape: Shape) -> View:
        """Broadcast, with stride 0."""
        missing = len(shape) - len(view.shape)
        return View(view.register, view.offset, shape, (0,) * missing + view.strides)

    def elementwise(self, op: str, *args: View) -> View:
        """The result of one operation, of the broadcast shape; only as many numbers as differ are computed."""
        if op in _COMMUTATIVE:
            args = tuple(sorted(args))
        key = (op, *args)
        if key not in self._memo:
            self._memo[key] = self._elementwise(op, args)
        return self._memo[key]

    def _elementwise(self, op: str, args: tuple[View, ...]) -> View:
        rank = max(len(arg.shape) for arg in args)
        padded = [(1,) * (rank - len(arg.shape)) + arg.shape for arg in args]
        shape = tuple(max(sizes) if min(sizes) else 0 for sizes in zip(*padded, strict=True))
        numbers = [self.number(arg) for arg in args]
        folded = self._simplified(op, args, numbers)
        if folded is not None:
            return self.expand(folded, shape)
        expanded = [self.expand(arg, shape) for arg in args]
        compact = tuple(n if any(arg.strides[d] for arg in expanded) else 1 for d, n in enumerate(shape))
        out = self.temporary(compact)
        self.emit(op, out, [arg._replace(shape=compact) for arg in expanded])
        result = View(out.register, 0, shape, out.strides)
        if op == "mul":
            self._products[result] = (expanded[0], expanded[1])
        return result

    def _simplified(self, op: str, args: tuple[View, ...], numbers: list[float | None]) -> View | None:
        known = [number for number in numbers if number is not None]
        if len(known) == len(args) and op in _FOLDED:
            return self.constant(_FOLDED[op](*known))
        if op in ("mul", "div") and numbers[1] == 1.0:
            return args[0]
        if op == "mul" and numbers[0] == 1.0:
            return args[1]
        if op in ("add", "sub") and numbers[1] == 0.0:
            return args[0]
        if op == "add" and numbers[0] == 0.0:
            return args[1]
        if op == "where" and numbers[0] is not None:
            return args[1] if numbers[0] else args[2]
        return None

    def emit(self, op: str, out: View, args: Sequence[View]) -> None:
        """An elementwise instruction into `out`; arguments have its shape."""
        views = (out, *args)
        constant = not any(any(arg.strides) for arg in args)
        order = sorted(range(len(out.shape)), key=lambda d: -out.strides[d]) if constant else nesting(out.shape)
        loops = merged([(out.shape[d], tuple(view.strides[d] for view in views)) for d in order], LOOPS)
        sizes = (1,) * (LOOPS - len(loops)) + tuple(size for size, _ in loops)
        self._push(op, sizes, (), views, [tuple(strides[k] for _, strides in loops) for k in range(len(views))], ())

    def _push(
        self,
        op: str,
        sizes: Shape,
        along: Shape,
        views: Sequence[View],
        strides: Sequence[tuple[int, ...]],
        along_strides: Sequence[tuple[int, ...]],
        value: float = 1.0,
    ) -> None:
        along = (1,) * (ALONG - len(along)) + along
        operands = []
        for k, view in enumerate(views):
            kept, gone = strides[k], along_strides[k] if along_strides else ()
            operands.append(
                Operand(
                    view.register, view.offset, (0,) * (LOOPS - len(kept)) + kept, (0,) * (ALONG - len(gone)) + gone
                )
            )
        self.instructions.append(Instruction(op, sizes, along, operands[0], tuple(operands[1:]), value))

    def reduce(self, op: str, args: Sequence[View], dims: Sequence[int], value: float = 1.0) -> View:
        """Fold these dimensions away; they stay with size 1. `args` have one shape; a sum is divided by `value`."""
        if op == "sum" and args[0] in self._products:
            op, args = "sum_product", self._products[args[0]]
        key = (op, tuple(args), tuple(sorted(dims)), value)
        if key not in self._memo:
            self._memo[key] = self._reduce(op, args, set(dims), value)
        return self._memo[key]

    def _reduce(self, op: str, args: Sequence[View], dims: set[int], value: float) -> View:
        shape = args[0].shape
        rank = range(len(shape))
        varies = [any(arg.strides[d] for arg in args) for d in rank]
        if op in ("sum", "sum_product"):
            for d in dims:
                value /= 1 if varies[d] else shape[d]
        result_shape = tuple(1 if d in dims else n for d, n in enumerate(shape))
        gone = [d for d in dims if varies[d]]
        if not gone and op in ("sum", "amax", "amin"):
            alone = View(args[0].register, args[0].offset, result_shape, args[0].strides)
            if value == 1.0 or op != "sum":
                return alone
            return self.elementwise("mul", alone, self.constant(1.0 / value))
        out = self.temporary(tuple(n if d not in dims and varies[d] else 1 for d, n in enumerate(shape)))
        views = (out, *args)
        order = [d for d in nesting(out.shape) if d not in dims and varies[d]]
        loops = merged([(shape[d], tuple(view.strides[d] for view in views)) for d in order], LOOPS)
        inner = merged(
            [
                (shape[d], tuple(arg.strides[d] for arg in args))
                for d in sorted(gone, key=lambda d: args[0].strides[d], reverse=True)
            ],
            ALONG,
        )
        self._push(
            op,
            (1,) * (LOOPS - len(loops)) + tuple(size for size, _ in loops),
            tuple(size for size, _ in inner),
            views,
            [tuple(strides[k] for _, strides in loops) for k in range(len(views))],
            [(), *(tuple(strides[k] for _, strides in inner) for k in range(len(args)))],
            value,
        )
        return View(out.register, 0, result_shape, out.strides)

    def indexed(self, op: str, out: View, args: Sequence[View], dim: int, size: int) -> None:
        """gather: out = args[0][..., args[1], ...]; scatter_add: out[..., args[1], ...] += args[0]; cumsum along dim.

        For gather and scatter_add the loops are those of the index, args[1].
        """
        shape = args[0].shape if op == "cumsum" else args[1].shape
        addressed = {"gather": [1], "scatter_add": [0], "cumsum": [0, 1]}[op]
        views = (out, *args)
        order = [d for d in nesting(shape) if op != "cumsum" or d != dim]
        loops = merged(
            [
                (shape[d], tuple(0 if k in addressed and d == dim else view.strides[d] for k, view in enumerate(views)))
                for d in order
            ],
            LOOPS,
        )
        self._push(
            op,
            (1,) * (LOOPS - len(loops)) + tuple(n for n, _ in loops),
            (size,),
            views,
            [tuple(strides[k] for _, strides in loops) for k in range(len(views))],
            [(view.strides[dim] if k in addressed else 0,) for k, view in enumerate(views)],
        )
