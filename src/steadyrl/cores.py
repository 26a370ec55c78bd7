"""How many cores this process may use."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, and no more than a container's quota of CPU time."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    bound = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return min(bound, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or `max`: no quota
        return bound
