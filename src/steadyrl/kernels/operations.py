"""ATen operations on numbers, one by one, in reductions, and the composite ones that autograd's formulas use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from steadyrl.kernels.errors import CannotTrace
from steadyrl.kernels.layout import View
from steadyrl.kernels.lowering import HANDLERS, Lowering, Result, operation
from steadyrl.kernels.tracing import Node

Number = View | float
_DIRECT = {
    "neg": "neg", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "tanh": "tanh", "abs": "abs",
    "sqrt": "sqrt", "sign": "sign", "sgn": "sign", "sigmoid": "sigmoid", "floor": "floor", "trunc": "trunc",
    "mul": "mul", "maximum": "max", "minimum": "min", "gt": "gt", "ge": "ge", "lt": "lt", "le": "le", "eq": "eq",
    "ne": "ne", "logical_and": "logical_and", "logical_or": "logical_or", "clamp_min": "max", "clamp_max": "min",
}  # fmt: skip
_NONE, _MEAN, _SUM = 0, 1, 2  # at::Reduction


def _direct(op: str) -> Any:
    def handler(low: Lowering, node: Node, *args: Number, **kwargs: Any) -> View:
        if kwargs:
            raise CannotTrace(f"aten.{node.name} has the options {sorted(kwargs)}.")
        return low.apply(op, *args)

    return handler


for _name, _op in _DIRECT.items():
    HANDLERS[_name] = _direct(_op)


@operation("add", "sub")
def _add(low: Lowering, node: Node, a: Number, b: Number, alpha: float = 1) -> View:
    return low.apply(node.name.rstrip("_"), a, b if alpha == 1 else low.apply("mul", b, alpha))


@operation("rsub")
def _rsub(low: Lowering, node: Node, a: Number, b: Number, alpha: float = 1) -> View:
    return low.apply("sub", b, a if alpha == 1 else low.apply("mul", a, alpha))


@operation("div")
def _div(low: Lowering, node: Node, a: Number, b: Number, rounding_mode: str | None = None) -> View:
    if rounding_mode is not None:
        raise CannotTrace("the function divides with rounding.")
    if not isinstance(b, View) and b and math.frexp(b)[0] in (0.5, -0.5):
        return low.apply("mul", a, 1.0 / b)  # exact for a power of two
    return low.apply("div", a, b)


@operation("reciprocal")
def _reciprocal(low: Lowering, node: Node, a: View) -> View:
    return low.apply("div", 1.0, a)


@operation("rsqrt")
def _rsqrt(low: Lowering, node: Node, a: View) -> View:
    return low.apply("div", 1.0, low.apply("sqrt", a))


@operation("square")
def _square(low: Lowering, node: Node, a: View) -> View:
    return low.apply("mul", a, a)


@operation("pow")
def _pow(low: Lowering, node: Node, a: Number, exponent: Number) -> View:
    known = isinstance(a, View) and not isinstance(exponent, View) and 2 * exponent in range(-4, 9)
    if not known:
        raise CannotTrace("the function raises to a power that is not a half or a whole number from -2 to 4.")
    assert isinstance(a, View)
    assert not isinstance(exponent, View)
    if exponent < 0:
        return low.apply("div", 1.0, _pow(low, node, a, -exponent))
    power = low.filled(1.0, a.shape) if exponent % 1 == 0 else low.apply("sqrt", a)
    for _ in range(int(exponent)):
        power = low.apply("mul", power, a)
    return power


@operation("clamp", "hardtanh")
def _clamp(low: Lowering, node: Node, a: View, min: Number | None = None, max: Number | None = None) -> View:
    if min is not None and max is not None:
        return low.apply("clamp", a, min, max)
    if min is not None:
        return low.apply("max", a, min)
    return a if max is None else low.apply("min", a, max)


@operation("relu")
def _relu(low: Lowering, node: Node, a: View) -> View:
    return low.apply("max", a, 0.0)


@operation("where")
def _where(low: Lowering, node: Node, condition: View, a: Number, b: Number) -> View:
    return low.apply("where", condition, a, b)


@operation("masked_fill")
def _masked_fill(low: Lowering, node: Node, a: View, mask: View, value: Number) -> View:
    return low.apply("where", mask, value, a)


def _only_bool(node: Node) -> None:
    if any(isinstance(arg, torch.Tensor) and arg.dtype != torch.bool for arg in node.args):
        raise CannotTrace(f"aten.{node.name} on integers is not known to the register machine.")


@operation("bitwise_and", "__and__")
def _and(low: Lowering, node: Node, a: Number, b: Number) -> View:
    _only_bool(node)
    return low.apply("logical_and", a, b)


@operation("bitwise_or", "__or__")
def _or(low: Lowering, node: Node, a: Number, b: Number) -> View:
    _only_bool(node)
    return low.apply("logical_or", a, b)


@operation("logical_not", "bitwise_not")
def _not(low: Lowering, node: Node, a: View) -> View:
    if node.name.startswith("bitwise"):
        _only_bool(node)
    return low.apply("eq", a, 0.0)


@operation("isnan")
def _isnan(low: Lowering, node: Node, a: View) -> View:
    return low.apply("ne", a, a)


@operation("isfinite")
def _isfinite(low: Lowering, node: Node, a: View) -> View:
    return low.apply("lt", low.apply("abs", a), math.inf)


@operation("_to_copy")
def _to_copy(low: Lowering, node: Node, a: View, dtype: torch.dtype | None = None, **kwargs: Any) -> View:
    before, after = node.args[0].dtype, node.result.dtype
    if after == torch.bool and before != torch.bool:
        return low.apply("ne", a, 0.0)
    if after == torch.int64 and before == torch.float32:
        return low.apply("trunc", a)
    return a


@operation("sum")
def _sum(low: Lowering, node: Node, a: View, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> View:
    return low.reduce("sum", a, dim, keepdim)


def _count(low: Lowering, view: View, dims: Sequence[int] | int | None) -> int:
    return math.prod(view.shape[d] for d in low.dims(view, dims))


@operation("mean")
def _mean(low: Lowering, node: Node, a: View, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> View:
    return low.reduce("sum", a, dim, keepdim, value=_count(low, a, dim))


@operation("amax", "amin", "max", "min")
def _extreme(low: Lowering, node: Node, a: View, dim: Any = None, keepdim: bool = False) -> Result:
    if isinstance(dim, View):
        return low.apply(node.name, a, dim)
    op = node.name if node.name.startswith("a") else f"a{node.name}"
    found = low.reduce(op, a, dim, keepdim)
    return found if node.overload in ("default", "") else (found, _position(low, a, dim, keepdim, f"arg{op[1:]}"))


def _position(low: Lowering, a: View, dim: int | None, keepdim: bool, op: str) -> View:
    if dim is None:
        a, dim = low.reshape(a, (math.prod(a.shape),)), 0
    (folded,) = low.dims(a, dim) or (0,)
    if not a.shape or not a.strides[folded]:
        shape = tuple(1 if d == folded else n for d, n in enumerate(a.shape))
        found = low.filled(0.0, shape)
        return found if keepdim or not shape else low.without(found, (folded,))
    return low.reduce(op, a, folded, keepdim)


@operation("argmax", "argmin")
def _arg(low: Lowering, node: Node, a: View, dim: int | None = None, keepdim: bool = False) -> View:
    return _position(low, a, dim, keepdim, node.name)


@operation("any", "all")
def _any(low: Lowering, node: Node, a: View, dim: Any = None, keepdim: bool = False) -> View:
    return low.reduce("amax" if node.name == "any" else "amin", low.apply("ne", a, 0.0), dim, keepdim)


def _variance(low: Lowering, a: View, dim: Any, correction: float, keepdim: bool) -> View:
    mean = low.reduce("sum", a, dim, True, value=_count(low, a, dim))
    centred = low.apply("sub", a, mean)
    left = max(_count(low, a, dim) - correction, 0.0)
    return low.reduce("sum", low.apply("mul", centred, centred), dim, keepdim, value=left)


def _var_options(dim: Any, correction: Any, keepdim: bool) -> tuple[Any, float, bool]:
    if isinstance(dim, bool):  # the old overload: unbiased
        return None, float(dim), keepdim
    return dim, 1.0 if correction is None else float(correction), keepdim


@operation("var", "std")
def _var(low: Lowering, node: Node, a: View, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> View:
    variance = _variance(low, a, *_var_options(dim, correction, keepdim))
    return low.apply("sqrt", variance) if node.name == "std" else variance


@operation("var_mean", "std_mean")
def _var_mean(
    low: Lowering, node: Node, a: View, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Result:
    variance = _variance(low, a, *_var_options(dim, correction, keepdim))
    mean = low.reduce("sum", a, dim, keepdim, value=_count(low, a, dim))
    return low.apply("sqrt", variance) if node.name == "std_mean" else variance, mean


@operation("cumsum")
def _cumsum(low: Lowering, node: Node, a: View, dim: int, **kwargs: Any) -> View:
    (along,) = low.dims(a, dim) or (0,)
    if not a.shape or a.shape[along] == 1:
        return a
    out = low.assembler.temporary(a.shape)
    low.assembler.indexed("cumsum", out, (a,), along, a.shape[along])
    return out


def _product_sum(low: Lowering, a: View, b: View, dim: int) -> View:
    return low.reduce("sum", low.apply("mul", a, b), dim, False)


@operation("mm", "bmm")
def _matmul(low: Lowering, node: Node, a: View, b: View) -> View:
    left = a._replace(shape=(*a.shape, 1), strides=(*a.strides, 0))
    right = b._replace(shape=(*b.shape[:-2], 1, *b.shape[-2:]), strides=(*b.strides[:-2], 0, *b.strides[-2:]))
    return _product_sum(low, left, right, -2)


@operation("mv", "dot")
def _vector_product(low: Lowering, node: Node, a: View, b: View) -> View:
    return _product_sum(low, a, b, -1)


@operation("_softmax")
def _softmax(low: Lowering, node: Node, a: View, dim: int, half: bool) -> View:
    exp = low.apply("exp", low.apply("sub", a, low.reduce("amax", a, dim, True)))
    return low.apply("div", exp, low.reduce("sum", exp, dim, True))


@operation("_log_softmax")
def _log_softmax(low: Lowering, node: Node, a: View, dim: int, half: bool) -> View:
    centred = low.apply("sub", a, low.reduce("amax", a, dim, True))
    return low.apply("sub", centred, low.apply("log", low.reduce("sum", low.apply("exp", centred), dim, True)))


@operation("_softmax_backward_data")
def _softmax_backward(low: Lowering, node: Node, grad: View, out: View, dim: int, dtype: Any) -> View:
    product = low.apply("mul", grad, out)
    return low.apply("sub", product, low.apply("mul", out, low.reduce("sum", product, dim, True)))


@operation("_log_softmax_backward_data")
def _log_softmax_backward(low: Lowering, node: Node, grad: View, out: View, dim: int, dtype: Any) -> View:
    return low.apply("sub", grad, low.apply("mul", low.apply("exp", out), low.reduce("sum", grad, dim, True)))


@operation("logsumexp")
def _logsumexp(low: Lowering, node: Node, a: View, dim: Any, keepdim: bool = False) -> View:
    largest = low.reduce("amax", a, dim, True)
    largest = low.apply("where", low.apply("eq", low.apply("abs", largest), math.inf), 0.0, largest)
    total = low.reduce("sum", low.apply("exp", low.apply("sub", a, largest)), dim, True)
    found = low.apply("add", low.apply("log", total), largest)
    return found if keepdim else low.without(found, low.dims(a, dim))
