"""Where a run comes from: code, versions, machine, command line."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

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


def provenance(working_directory: Path) -> dict[str, Any]:
    """Everything known before the run starts, as JSON values; torch is not imported."""
    return {
        "command_line": list(sys.argv),
        "working_directory": str(working_directory),
        "git": _git(working_directory),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "platform": platform.platform(),
        "cpu": {"model": _cpu_model(), "cores": os.cpu_count()},
        "native_kernels": kernels.isa() if kernels.available() else None,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


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
