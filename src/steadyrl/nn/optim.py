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

    def step(self, lr: float, max_grad_norm: float, permit: Tensor | None = None) -> Tensor:
        """Scale gradients down to `max_grad_norm` (0 leaves them alone), in place, then take one step of size `lr`.

        Args:
            lr: Learning rate.
            max_grad_norm: Limit of the gradient's norm.
            permit: On the device, whether the step may be taken; None is yes, and looks at the gradient on the host.

        Returns:
            The norm of the gradient before that, a scalar on the device.

        Raises:
            NonFiniteError: without `permit`, the gradient is not finite; nothing was changed.
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


def checked(grad: Tensor, max_grad_norm: float, permit: Tensor) -> tuple[Tensor, Tensor]:
    """`clip_grad_norm` without a word to the host: its norm, and whether the step is still permitted.

    Where it is not, the gradient is 0 afterwards.
    """
    norm: Tensor = torch.linalg.vector_norm(grad)
    permit = permit & norm.isfinite()
    grad.masked_fill_(~permit, 0.0)
    if max_grad_norm > 0:
        grad.mul_((max_grad_norm / (torch.where(permit, norm, 1.0) + 1e-6)).clamp(max=1.0))
    return norm, permit


def _insist_on_finite(norm: float) -> None:
    if not math.isfinite(norm):
        raise NonFiniteError(
            "The gradient is not finite, so the parameters were left as they were before this update.",
            remedy="Look for rewards or observations of huge magnitude, set normalize_obs, or lower learning_rate.",
            code="non-finite-gradient",
            facts={"source": "gradient", "value": str(norm)},
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
        self._taken: Tensor | None = None  # steps, where only the device knows them
        self._keeps = False  # the next step is to remember what was before it
        self._before: tuple[Tensor, ...] = ()  # parameters and moments, where the last step did
        self._copies: tuple[Tensor, ...] = ()
        self._spare: tuple[Tensor, Tensor] | None = None  # the kernels' moments before, or memory for the next ones
        self._kept_steps = 0
        self._kept_taken: Tensor | float = 0.0

    def step(self, lr: float, max_grad_norm: float, permit: Tensor | None = None) -> Tensor:
        """See `Optimizer.step`."""
        if permit is not None:
            return self._permitted_step(lr, max_grad_norm, permit)
        if not self._flat.native:
            return self._torch_step(lr, max_grad_norm)
        from steadyrl.kernels import _native

        flat, (beta1, beta2), step = self._flat, self._betas, self._steps + 1
        mean, square = self._mean, self._square
        new = self._spare or (torch.empty_like(mean), torch.empty_like(square)) if self._keeps else None
        found = _native.adam(flat.data, flat.grad, mean, square, step, lr, max_grad_norm, beta1, beta2, self._eps, new)
        _insist_on_finite(found)
        self._steps = step
        if new is not None:
            self._mean, self._square = new
            self._keeps, self._spare, self._before = False, (mean, square), (flat.grad, mean, square)
        return torch.scalar_tensor(found, dtype=torch.float32)

    @torch.no_grad()
    def _torch_step(self, lr: float, max_grad_norm: float) -> Tensor:
        if self._keeps:
            self._remember()
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

    @torch.no_grad()
    def _permitted_step(self, lr: float, max_grad_norm: float, permit: Tensor) -> Tensor:
        """The same, without a word to the host: where it is not permitted every number stays as it was."""
        grad, (beta1, beta2) = self._flat.grad, self._betas
        if self._taken is None:
            self._taken = torch.tensor(self._steps, dtype=torch.float64, device=grad.device)
        if self._keeps:
            self._remember()
        norm, permit = checked(grad, max_grad_norm, permit)
        self._taken += permit
        self._mean.lerp_(grad, torch.where(permit, 1 - beta1, 0.0).to(grad.dtype))
        self._square.mul_(torch.where(permit, beta2, 1.0)).addcmul_(grad, grad, value=1 - beta2)
        taken = self._taken.clamp(min=1.0)
        correction1, correction2 = 1 - beta1**taken, 1 - beta2**taken
        torch.sqrt(self._square, out=self._root)
        self._root.div_(correction2.sqrt()).add_(self._eps)
        moved = (self._mean / self._root).mul_(-lr / correction1)
        self._flat.data.add_(moved.mul_(permit))
        return norm

    def keep(self) -> None:
        """Let the next step remember parameters and moments as they were before it, for `restore`.

        After such a step the gradient is no more: kernels put the old parameters in its place, and the new moments
        beside the old ones, for what memory is written to costs more than the step's arithmetic.
        """
        self._keeps, self._before, self._kept_steps = True, (), self._steps

    def _remember(self) -> None:
        now = (self._flat.data, self._mean, self._square)
        self._copies = self._copies or tuple(map(torch.empty_like, now))
        for copy, tensor in zip(self._copies, now, strict=True):
            copy.copy_(tensor)
        self._keeps, self._before = False, self._copies
        self._kept_taken = float(self._steps) if self._taken is None else self._taken.clone()

    @torch.no_grad()
    def restore(self, unless: Tensor | None = None) -> None:
        """Go back to before the step that followed `keep`, where it was taken; on a device, unless this is true."""
        if not self._before:
            return
        for old, tensor in zip(self._before, (self._flat.data, self._mean, self._square), strict=True):
            tensor.copy_(old if unless is None else torch.where(unless, tensor, old))
        if unless is None:
            self._steps = self._kept_steps
        elif self._taken is not None:
            self._taken = torch.where(unless, self._taken, self._kept_taken)

    def state_dict(self) -> dict[str, Tensor]:
        """Moments [P] and the number of steps taken."""
        steps = torch.tensor(self._steps if self._taken is None else int(self._taken))
        return {"mean": self._mean.clone(), "square": self._square.clone(), "steps": steps}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        _restore(self._mean, state["mean"])
        _restore(self._square, state["square"])
        self._steps, self._taken = int(state["steps"]), None


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

    def step(self, lr: float, max_grad_norm: float, permit: Tensor | None = None) -> Tensor:
        """See `Optimizer.step`."""
        if permit is not None:
            return self._permitted_step(lr, max_grad_norm, permit)
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

    @torch.no_grad()
    def _permitted_step(self, lr: float, max_grad_norm: float, permit: Tensor) -> Tensor:
        """The same, without a word to the host: where it is not permitted every number stays as it was."""
        grad = self._flat.grad
        norm, permit = checked(grad, max_grad_norm, permit)
        self._square.mul_(torch.where(permit, self._alpha, 1.0)).addcmul_(grad, grad, value=1 - self._alpha)
        torch.add(self._square, self._eps, out=self._root)
        self._flat.data.addcdiv_(grad, self._root.sqrt_(), value=-lr)  # where not permitted, the gradient is 0
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
