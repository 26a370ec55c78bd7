"""Optimisers on flat parameters: clip and step in place; of the gradient only its norm is read back to the host."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from steadyrl.errors import NonFiniteError
from steadyrl.nn.flat import FlatParameters


class Optimizer(Protocol):
    """What an update asks of an optimiser."""

    def step(self, lr: float, max_grad_norm: float) -> Tensor:
        """Scale gradients down to `max_grad_norm` (0 leaves them alone), in place, then take one step of size `lr`.

        Returns the norm of the gradient before that, a scalar on the device.
        """
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of everything needed to go on exactly."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        ...


def clip_grad_norm(grad: Tensor, max_grad_norm: float) -> Tensor:
    """Scale `grad` [P] in place to at most this norm, as torch's `clip_grad_norm_` does; returns the norm before.

    One NaN would spread to every parameter here and stay in the optimiser's moments, so the norm is looked at first.

    Raises:
        NonFiniteError: a gradient is not finite; nothing was changed.
    """
    norm: Tensor = torch.linalg.vector_norm(grad)
    _insist_on_finite(norm.item())
    if max_grad_norm > 0:
        grad.mul_((max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def _insist_on_finite(norm: float) -> None:
    if not math.isfinite(norm):
        raise NonFiniteError(
            "The gradient is not finite, so the parameters were left as they were before this update.",
            remedy="Look for rewards or observations of huge magnitude, set normalize_obs, or lower learning_rate.",
            code="non-finite-gradient",
        )


class Adam:
    """Adam (arXiv:1412.6980), the arithmetic of `torch.optim.Adam`.

    Args:
        flat: Parameters and gradients.
        eps: Added to the root of the second moment.
        betas: Decay of the first and second moment.
    """

    def __init__(self, flat: FlatParameters, eps: float = 1e-8, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        self._flat = flat
        self._eps = eps
        self._betas = betas
        self._steps = 0
        self._mean = torch.zeros_like(flat.data)
        self._square = torch.zeros_like(flat.data)
        self._root = torch.empty_like(flat.data)

    def step(self, lr: float, max_grad_norm: float) -> Tensor:
        """See `Optimizer.step`."""
        if not self._flat.native:
            return self._torch_step(lr, max_grad_norm)
        from steadyrl.kernels import _native

        flat, (beta1, beta2), step = self._flat, self._betas, self._steps + 1
        moments = (self._mean, self._square)
        found = _native.adam(flat.data, flat.grad, *moments, step, lr, max_grad_norm, beta1, beta2, self._eps)
        _insist_on_finite(found)
        self._steps = step
        return torch.scalar_tensor(found, dtype=torch.float32)

    @torch.no_grad()
    def _torch_step(self, lr: float, max_grad_norm: float) -> Tensor:
        grad = self._flat.grad
        beta1, beta2 = self._betas
        norm = clip_grad_norm(grad, max_grad_norm)
        self._steps += 1
        self._mean.lerp_(grad, 1 - beta1)
        self._square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction1, correction2 = 1 - beta1**self._steps, 1 - beta2**self._steps
        torch.sqrt(self._square, out=self._root)
        self._root.div_(math.sqrt(correction2)).add_(self._eps)
        self._flat.data.addcdiv_(self._mean, self._root, value=-lr / correction1)
        return norm

    def state_dict(self) -> dict[str, Tensor]:
        """Moments [P] and the number of steps taken."""
        return {"mean": self._mean.clone(), "square": self._square.clone(), "steps": torch.tensor(self._steps)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        _restore(self._mean, state["mean"])
        _restore(self._square, state["square"])
        self._steps = int(state["steps"])


class RMSprop:
    """RMSprop as TensorFlow computes it: epsilon under the root, the running square starts at 1.

    The form that A2C (arXiv:1602.01783) was tuned with; Stable-Baselines3's `RMSpropTFLike`.

    Args:
        flat: Parameters and gradients.
        alpha: Decay of the running square.
        eps: Added to it under the root.
    """

    def __init__(self, flat: FlatParameters, alpha: float = 0.99, eps: float = 1e-5) -> None:
        self._flat = flat
        self._alpha = alpha
        self._eps = eps
        self._square = torch.ones_like(flat.data)
        self._root = torch.empty_like(flat.data)

    def step(self, lr: float, max_grad_norm: float) -> Tensor:
        """See `Optimizer.step`."""
        if not self._flat.native:
            return self._torch_step(lr, max_grad_norm)
        from steadyrl.kernels import _native

        flat = self._flat
        found = _native.rmsprop(flat.data, flat.grad, self._square, lr, max_grad_norm, self._alpha, self._eps)
        _insist_on_finite(found)
        return torch.scalar_tensor(found, dtype=torch.float32)

    @torch.no_grad()
    def _torch_step(self, lr: float, max_grad_norm: float) -> Tensor:
        grad = self._flat.grad
        norm = clip_grad_norm(grad, max_grad_norm)
        self._square.mul_(self._alpha).addcmul_(grad, grad, value=1 - self._alpha)
        torch.add(self._square, self._eps, out=self._root)
        self._root.sqrt_()
        self._flat.data.addcdiv_(grad, self._root, value=-lr)
        return norm

    def state_dict(self) -> dict[str, Tensor]:
        """The running square [P]."""
        return {"square": self._square.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        _restore(self._square, state["square"])


def _restore(buffer: Tensor, saved: Tensor) -> None:
    if buffer.shape != saved.shape:
        raise ValueError(f"optimiser state is for {saved.numel()} parameters, the network has {buffer.numel()}")
    buffer.copy_(saved)
