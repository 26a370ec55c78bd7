"""Native CPU kernels, and whether this installation has them.

The extension is optional: without it, or on a GPU, the same work runs through PyTorch. Importing this package is cheap
and never fails; the extension is loaded when it is first asked for.
"""

from __future__ import annotations

import functools
import importlib

from steadyrl.cores import usable_cores
from steadyrl.kernels.errors import CannotTrace

__all__ = ["CannotTrace", "available", "isa", "reason", "set_threads", "threads", "usable_cores"]


@functools.cache
def reason() -> str:
    """Why the native kernels cannot be used here, as a sentence; empty where they can."""
    try:
        native = importlib.import_module("steadyrl.kernels._native")
        native.set_threads(usable_cores())  # what runs want as a rule: workers are not started and joined around each
    except ModuleNotFoundError:
        return "The native kernels are not built: this installation was made without a C++ compiler."
    except Exception as error:  # a broken or foreign binary must not take the PyTorch path away as well
        return f"The native kernels could not be loaded: {error}"
    return ""


def available() -> bool:
    """Whether the native kernels can be used in this process."""
    return not reason()


def isa() -> str:
    """The instruction set that the kernels use: sse2, avx2, avx512 or neon; the environment may set STEADYRL_ISA.

    Raises:
        ImportError: the kernels are not available.
    """
    from steadyrl.kernels import _native

    return _native.isa()


def set_threads(n: int) -> None:
    """Let kernels use up to `n` threads, and never more than the cores of this process; the results are the same.

    Nothing happens without kernels. While they run, torch should have one thread: two pools stall each other.
    """
    if available():
        from steadyrl.kernels import _native

        _native.set_threads(max(1, min(n, usable_cores())))


def threads() -> int:
    """How many threads kernels may use now."""
    from steadyrl.kernels import _native

    return _native.threads()
