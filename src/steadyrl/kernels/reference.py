"""What each native kernel computes, in plain PyTorch and any float type: the oracle of the kernels' tests.

Nothing in the package imports this module; formulas that the package has already are re-exported, not written again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from steadyrl.data.targets import gae, polyak

__all__ = ["Linear", "Member", "Norms", "adam", "clip", "gae", "gather", "mlp", "polyak", "rmsprop"]

Linear = tuple[int, int, int]  # where weight [width, inputs] and bias [width] start in the flat buffer, and the width
Member = tuple[Sequence[Linear], Sequence[Linear]]  # hidden layers, and the heads on the last of them
Norms = Sequence[Sequence[Linear]]  # of each member: where gain [width] and shift [width] of each hidden layer start

_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "elu": F.elu, "silu": F.silu}


def mlp(
    params: Tensor, x: Tensor, members: Sequence[Member], activation: str, output_activation: str, norms: Norms = ()
) -> Tensor:
    """Outputs [members, B, O] of multilayer perceptrons of one shape, for inputs [B, n]; heads lie side by side.

    Where there are `norms`, a hidden layer is normalised before its activation (arXiv:1607.06450, equation 4).
    """
    return torch.stack(
        [
            _member(params, x, member, norm, activation, output_activation)
            for member, norm in zip(members, norms or [()] * len(members), strict=True)
        ]
    )


def _member(
    params: Tensor, x: Tensor, member: Member, norms: Sequence[Linear], activation: str, output_activation: str
) -> Tensor:
    layers, heads = member
    for i, layer in enumerate(layers):
        x = _linear(params, x, layer)
        x = _ACTIVATIONS[activation](_norm(params, x, norms[i]) if norms else x)
    out = torch.cat([_linear(params, x, head) for head in heads], dim=1)
    return torch.tanh(out) if output_activation == "tanh" else out


def _linear(params: Tensor, x: Tensor, layer: Linear) -> Tensor:
    weight, bias, width = layer
    inner = x.shape[1]
    return F.linear(x, params[weight : weight + width * inner].view(width, inner), params[bias : bias + width])


def _norm(params: Tensor, x: Tensor, norm: Linear) -> Tensor:
    gain, shift, width = norm
    return F.layer_norm(x, [width], params[gain : gain + width], params[shift : shift + width])


def clip(grad: Tensor, max_grad_norm: float) -> float:
    """Scale a gradient in place to at most this norm (0: leave it); the norm before. One not finite is left alone."""
    norm = torch.linalg.vector_norm(grad)
    if max_grad_norm > 0 and math.isfinite(norm.item()):
        grad.mul_((max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
    return float(norm)


def adam(
    params: Tensor,
    grad: Tensor,
    mean: Tensor,
    square: Tensor,
    step: int,
    lr: float,
    max_grad_norm: float,
    beta1: float,
    beta2: float,
    eps: float,
) -> float:
    """Clip and step `step` (from 1) of Adam (arXiv:1412.6980), in place; nothing changes where the norm is not finite.

    Returns:
        The norm of the gradient before clipping.
    """
    norm = clip(grad, max_grad_norm)
    if math.isfinite(norm):
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = (square.sqrt() / math.sqrt(1 - beta2**step)).add_(eps)
        params.addcdiv_(mean, root, value=-lr / (1 - beta1**step))
    return norm


def rmsprop(
    params: Tensor, grad: Tensor, square: Tensor, lr: float, max_grad_norm: float, alpha: float, eps: float
) -> float:
    """The same for RMSprop with epsilon under the root."""
    norm = clip(grad, max_grad_norm)
    if math.isfinite(norm):
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        params.addcdiv_(grad, (square + eps).sqrt_(), value=-lr)
    return norm


def gather(index: Tensor, sources: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """`out[i] = source[index[i]]` for each pair."""
    for source, out in zip(sources, outs, strict=True):
        out.copy_(source[index])
