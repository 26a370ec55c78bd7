"""Where a run comes from: code, versions, machine, command line."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from steadyrl import kernels

PACKAGES = (
    "steadyrl",
    "torch",
    "numpy",
    "gymnasium",
    "safetensors",
    "tensorboardX",
    "mujoco",
    "box2d",
    "ale-py",
    "envpool",
)


# How many threads and which code paths numerical libraries take.
VARIABLES = (
    "OMP_NUM_THREADS",
    "ATEN_CPU_CAPABILITY",
    "STEADYRL_ISA",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_CBWR",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "PYTHONHASHSEED",
)
# Files that pin what is installed, in the working folder or at the root of its repository.
LOCKS = (
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
    "pixi.lock",
    "Pipfile.lock",
    "conda-lock.yml",
    "pylock.toml",
    "requirements.txt",
    "requirements/dev.txt",
)


def provenance(working_directory: Path) -> dict[str, Any]:
    """Everything known before the run starts, as JSON values; torch is not imported."""
    return {
        "command_line": list(sys.argv),
        "working_directory": str(working_directory),
        "git": _git(working_directory),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "platform": platform.platform(),
        "installed": _installed(),
        "lock": lock_hashes(working_directory),
        "blas": _blas(),
        "cpu": {"model": cpu_model(), "cores": os.cpu_count()},
        "cpu_flags": _cpu_flags(),
        "gpu": _gpu(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "native_kernels": kernels.isa() if kernels.available() else None,
    }


def _installed() -> dict[str, str]:
    """Version of every package that can be imported here, by the names of their folders: reading each takes long."""
    found: dict[str, str] = {}
    for place in sys.path:
        with suppress(OSError):
            for entry in os.scandir(place or "."):
                if entry.name.endswith(".dist-info") and entry.name.count("-") >= 2:
                    name, version = entry.name.removesuffix(".dist-info").split("-")[:2]
                    found.setdefault(name.lower(), version)
    return dict(sorted(found.items()))


def lock_hashes(working_directory: Path) -> dict[str, str]:
    """SHA-256 of each lock file in a folder, or else at the root of the repository that it is in."""
    root = next((place for place in (working_directory, *working_directory.parents) if (place / ".git").exists()), None)
    found = {}
    for name in LOCKS:
        for place in (working_directory, root):
            with suppress(OSError):
                if place is not None and (place / name).is_file():
                    found[name] = hashlib.sha256((place / name).read_bytes()).hexdigest()
                    break
    return found


def _blas() -> dict[str, str] | None:
    """What NumPy multiplies matrices with."""
    try:
        facts: Any = np.show_config(mode="dicts")
        return {name: str(facts["Build Dependencies"]["blas"][name]) for name in ("name", "version")}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _gpu() -> dict[str, str] | None:
    """The driver of NVIDIA's GPUs, as it says itself; None without one. The GPU in use is written down with torch."""
    try:
        return {"driver": Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0].strip()}
    except (OSError, IndexError):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_model() -> str:
    """What the CPU calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _cpu_flags() -> list[str]:
    """What the CPU can do, by the names of the Linux kernel; nothing where no such list is found."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return sorted(set(line.partition(":")[2].split()))
    except OSError:
        pass
    return []


def _git(directory: Path) -> dict[str, Any] | None:
    """Commit of the working directory and a hash of what differs from it; None outside a repository."""
    commit = _run_git(directory, "rev-parse", "HEAD")
    if commit is None:
        return None
    diff = _run_git(directory, "diff", "HEAD") or b""
    return {
        "commit": commit.decode().strip(),
        "dirty": bool(diff),
        "diff_sha256": hashlib.sha256(diff).hexdigest() if diff else None,
    }


def _run_git(directory: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(("git", *arguments), cwd=directory, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
