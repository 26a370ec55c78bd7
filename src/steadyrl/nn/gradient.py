"""A loss and its gradient as one function of a network's outputs, which a kernel or a traced program may replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]
Metrics = dict[str, Tensor]
P = ParamSpec("P")


def with_gradient(
    loss: Callable[Concatenate[Outputs, P], tuple[Tensor, Metrics]],
    outputs: Outputs,
    *args: P.args,
    **kwargs: P.kwargs,
) -> tuple[Tensor, Metrics, Outputs]:
    """Evaluate `loss(outputs, *args)`, which gives a scalar and metrics, and differentiate it by the outputs.

    The loss sees the outputs cut off from the network, so nothing else can receive a gradient.

    Returns:
        The loss, its metrics, both detached, and one gradient for each output: zeros where the output needs none (phi
        of gSDE) or the loss does not use it.
    """
    with torch.enable_grad():
        leaves = tuple(output.detach().requires_grad_(output.requires_grad) for output in outputs)
        value, metrics = loss(leaves, *args, **kwargs)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        found = iter(torch.autograd.grad(value, wanted, allow_unused=True, materialize_grads=True))
    grads = tuple(next(found) if leaf.requires_grad else torch.zeros_like(leaf) for leaf in leaves)
    return value.detach(), {name: metric.detach() for name, metric in metrics.items()}, grads


def backward(outputs: Outputs, grads: Outputs) -> None:
    """Accumulate the parameters' gradients from those of the outputs."""
    pairs = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if output.requires_grad]
    torch.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])
