"""`steadyrl info`: versions and hardware, as a report of a problem needs them; of an environment, its spaces."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from steadyrl._version import __version__
from steadyrl.cli.parser import understood
from steadyrl.cli.session import Session, exits_are_errors
from steadyrl.configs.on_policy import ImageLayouts
from steadyrl.errors import UserError, install

_PACKAGES = ("numpy", "torch", "gymnasium", "safetensors", "rich", "tensorboardX", "psutil", "cloudpickle")
_EXTRAS = {"atari": "ale_py", "box2d": "Box2D", "envpool": "envpool", "mujoco": "mujoco", "video": "av"}


@dataclass(frozen=True, kw_only=True)
class InfoOptions:
    """What `steadyrl info` takes."""

    json: bool = False
    """One JSON document on stdout."""
    image_layout: ImageLayouts = "auto"
    """Of an environment's images: hwc, chw, or {'camera': 'chw'}, as train takes it."""


def run(args: list[str], session: Session) -> int:
    """Prints versions and hardware, or the spaces of the environment that is named."""
    line = understood(
        args,
        InfoOptions,
        "steadyrl info",
        usage="steadyrl info [ENV] [flags]",
        description="Shows versions and hardware; with an environment, its spaces and what becomes of them.",
        example="  steadyrl info --json\n  steadyrl info CartPole-v1",
        positionals={"ENV": "a Gymnasium id, package.module:Id-v0 or file.py:Class"},
    )
    if line is None:
        return 0
    env = next(iter(line[0]), None)
    if env is not None:
        from steadyrl.cli import env_info

        with exits_are_errors(UserError, env):
            document = env_info.collect(env, line[1].image_layout)
        rows = env_info.rows(document)
    else:
        document = collect()
        rows = _rows(document)
    if session.json:
        session.emit(document)
    else:
        print("\n".join(f"{title:<16}{text}".rstrip() for title, text in rows))
    return 0


def collect() -> dict[str, Any]:
    """Versions, hardware, threads, extras; memory in bytes."""
    import psutil
    import torch

    from steadyrl import kernels

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "steadyrl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "cpu": {
            "model": _cpu_model(),
            "cores": psutil.cpu_count(logical=False),
            "threads": psutil.cpu_count(),
            "usable": len(os.sched_getaffinity(0)) if sys.platform == "linux" else psutil.cpu_count(),
            "capability": torch.backends.cpu.get_cpu_capability(),
        },
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": gpus,
        "torch_threads": torch.get_num_threads(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "native_kernels": {
            "available": kernels.available(),
            "isa": kernels.isa() if kernels.available() else None,
            "reason": kernels.reason() or None,
        },
        "extras": {extra: _installed(module) for extra, module in _EXTRAS.items()},
    }


def _rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    cpu = document["cpu"]
    missing = [name for name, there in document["extras"].items() if not there]
    return [
        ("steadyrl", document["steadyrl"]),
        ("Python", document["python"]),
        ("platform", document["platform"]),
        *((name, version or "not installed") for name, version in document["packages"].items()),
        ("CPU", f"{cpu['model']}, {cpu['usable']} of {cpu['threads']} threads usable, {cpu['capability']}"),
        ("memory", f"{document['memory_bytes'] / 2**30:.1f} GiB"),
        ("GPU", ", ".join(document["gpus"]) or "none that torch can use"),
        ("torch threads", f"{document['torch_threads']} (OMP_NUM_THREADS {document['omp_num_threads'] or 'unset'})"),
        ("native kernels", _kernels(document["native_kernels"])),
        ("extras", ", ".join(name for name, there in document["extras"].items() if there) or "none"),
        *([("to add", install(",".join(missing)))] if missing else []),
    ]


def _kernels(found: dict[str, Any]) -> str:
    return f"yes ({found['isa']})" if found["available"] else f"no ({found['reason']})"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
