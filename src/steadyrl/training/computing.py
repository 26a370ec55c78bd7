"""What computes: PyTorch's build and code paths, and how many threads; known once torch is imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from steadyrl import kernels
from steadyrl.training.events import Notice
from steadyrl.training.run_folder import RunFolder


def computing_facts() -> dict[str, Any]:
    """As the manifest has it under `computing`."""
    return {
        "torch_blas": torch_blas(torch.__config__.show()),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.version.cuda else None,  # type: ignore[no-untyped-call]
    }


def threads_used() -> dict[str, int | None]:
    """How many threads are in force now, as the manifest has it under `threads_used`."""
    return {"torch": torch.get_num_threads(), "kernels": kernels.threads() if kernels.available() else None}


def compared_threads(folder: RunFolder, say: Callable[[Notice], None]) -> dict[str, int | None]:
    """The threads in force now, said where a run that goes on had others; they change bits where torch computes."""
    now, before = threads_used(), folder.manifest.get("threads_used")
    for name, count in now.items():
        if isinstance(before, dict) and before.get(name) != count:
            text = f"Not as it was: threads of {name} were {before.get(name)} and are {count}."
            say(Notice("resumed-elsewhere", text, "warning"))
    return now


def torch_blas(described: str) -> dict[str, str]:
    """The libraries that multiply matrices, with their versions, out of `torch.__config__.show()`."""
    found = {
        name: hit[1].strip()
        for name, pattern in (
            ("mkl", r"Math Kernel Library Version ([^\s]+(?: [A-Z][a-z]+ \d+)?)"),
            ("onednn", r"(?:MKL-DNN|oneDNN) v([\w.]+)"),
            ("interface", r"BLAS_INFO=(\w+)"),
            ("openmp", r"OpenMP (\d+)"),
        )
        if (hit := re.search(pattern, described))
    }
    return dict(sorted(found.items()))
