"""Activations and losses that PyTorch keeps as one ATen operation, and their backward formulas."""

from __future__ import annotations

from typing import Any

from steadyrl.kernels.errors import CannotTrace
from steadyrl.kernels.layout import View
from steadyrl.kernels.lowering import Lowering, Result, operation
from steadyrl.kernels.operations import _MEAN, _NONE, _count
from steadyrl.kernels.tracing import Node


def _folded(low: Lowering, errors: View, reduction: int) -> View:
    if reduction == _NONE:
        return errors
    return low.reduce("sum", errors, None, False, value=_count(low, errors, None) if reduction == _MEAN else 1.0)


def _share(low: Lowering, grad: View, like: View, reduction: int) -> View:
    return low.apply("div", grad, float(_count(low, like, None))) if reduction == _MEAN else grad


@operation("mse_loss")
def _mse(low: Lowering, node: Node, a: View, b: View, reduction: int = _MEAN) -> View:
    error = low.apply("sub", a, b)
    return _folded(low, low.apply("mul", error, error), reduction)


@operation("mse_loss_backward")
def _mse_backward(low: Lowering, node: Node, grad: View, a: View, b: View, reduction: int) -> View:
    error = low.apply("sub", a, b)
    return low.apply("mul", low.apply("mul", error, 2.0), _share(low, grad, error, reduction))


@operation("smooth_l1_loss", "huber_loss")
def _huber(low: Lowering, node: Node, a: View, b: View, reduction: int = _MEAN, width: float = 1.0, **kw: Any) -> View:
    width = kw.get("beta", kw.get("delta", width))
    size = low.apply("abs", low.apply("sub", a, b))
    if width == 0:
        return _folded(low, size, reduction)
    small = low.apply("mul", low.apply("mul", size, size), 0.5)
    large = low.apply("mul", low.apply("sub", size, 0.5 * width), width)
    inside = low.apply("lt", size, width)
    if node.name == "smooth_l1_loss":
        small = low.apply("mul", small, 1.0 / width)
        large = low.apply("sub", size, 0.5 * width)
    return _folded(low, low.apply("where", inside, small, large), reduction)


@operation("smooth_l1_loss_backward", "huber_loss_backward")
def _huber_backward(low: Lowering, node: Node, grad: View, a: View, b: View, reduction: int, width: float) -> View:
    error = low.apply("sub", a, b)
    if width == 0:
        return low.apply("mul", low.apply("sign", error), _share(low, grad, error, reduction))
    slope = low.apply("clamp", error, -width, width)
    if node.name == "smooth_l1_loss_backward":
        slope = low.apply("mul", slope, 1.0 / width)
    return low.apply("mul", slope, _share(low, grad, error, reduction))


@operation("softplus")
def _softplus(low: Lowering, node: Node, a: View, beta: float = 1, threshold: float = 20) -> View:
    if beta != 1 or threshold != 20:
        raise CannotTrace("softplus is known with its default options only.")
    return low.apply("softplus", a)


@operation("softplus_backward")
def _softplus_backward(low: Lowering, node: Node, grad: View, a: View, beta: float, threshold: float) -> View:
    return low.apply("mul", grad, low.apply("sigmoid", a))


@operation("log_sigmoid_forward")
def _log_sigmoid(low: Lowering, node: Node, a: View) -> Result:
    buffer = low.filled(0.0, node.result[1].shape)  # only PyTorch's own backward kernel reads it
    return low.apply("neg", low.apply("softplus", low.apply("neg", a))), buffer


@operation("log_sigmoid_backward")
def _log_sigmoid_backward(low: Lowering, node: Node, grad: View, a: View, buffer: Any) -> View:
    return low.apply("mul", grad, low.apply("sigmoid", low.apply("neg", a)))


@operation("tanh_backward")
def _tanh_backward(low: Lowering, node: Node, grad: View, out: View) -> View:
    return low.apply("mul", grad, low.apply("sub", 1.0, low.apply("mul", out, out)))


@operation("sigmoid_backward")
def _sigmoid_backward(low: Lowering, node: Node, grad: View, out: View) -> View:
    return low.apply("mul", grad, low.apply("mul", low.apply("sub", 1.0, out), out))


@operation("threshold_backward")
def _threshold_backward(low: Lowering, node: Node, grad: View, a: View, threshold: float) -> View:
    return low.apply("where", low.apply("le", a, threshold), 0.0, grad)


@operation("hardtanh_backward")
def _hardtanh_backward(low: Lowering, node: Node, grad: View, a: View, least: float, most: float) -> View:
    inside = low.apply("logical_and", low.apply("gt", a, least), low.apply("lt", a, most))
    return low.apply("where", inside, grad, 0.0)
