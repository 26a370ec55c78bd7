"""What a network trained by one loss has besides its layers: maybe kernels that run it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn

P = ParamSpec("P")
R = TypeVar("R")


class _Looking(threading.local):
    now = False


_looking = _Looking()


def looking(method: Callable[P, R]) -> Callable[P, R]:
    """A method of a policy that only looks: no gradient is recorded inside, and kernels run the networks they know.

    A network that is called by anybody else is a plain module, with all that PyTorch can do to one.
    """

    @wraps(method)
    def without_gradient(*args: P.args, **kwargs: P.kwargs) -> R:
        before, _looking.now = _looking.now, True
        try:
            with torch.no_grad():
                return method(*args, **kwargs)
        finally:
            _looking.now = before

    return without_gradient


class Part(nn.Module):
    """A module whose passes kernels may run, on the same parameters in the same memory."""

    kernel: Any = None  # one of `nn.native`, set by `Trainable`

    @property
    def looks(self) -> bool:
        """Whether this pass is to run on kernels."""
        return self.kernel is not None and _looking.now

    def __getstate__(self) -> dict[str, Any]:
        """A copy has other parameters, and no kernels until it is given its own."""
        return {name: value for name, value in self.__dict__.items() if name != "kernel"}
