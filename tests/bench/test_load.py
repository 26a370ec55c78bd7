"""CPU time and memory of the process and its children."""

from __future__ import annotations

import subprocess
import sys
import time

from steadyrl.bench.load import Load, cpu_seconds, family, memory_bytes


def spin(seconds: float) -> None:
    """Take so much CPU time, however long that lasts."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_cpu_time_is_what_was_used() -> None:
    before = cpu_seconds(family())
    spin(0.1)
    assert 0.08 <= cpu_seconds(family()) - before <= 0.3


def test_waiting_is_no_load() -> None:
    load = Load(family())
    assert load.cores == 0.0
    load.watch(lambda: time.sleep(0.05))
    assert load.cores < 0.5


def test_children_count_in_time_and_memory() -> None:
    code = "import time\nx = bytearray(80_000_000)\nend = time.process_time() + 0.2\n"
    code += "while time.process_time() < end: pass\nprint('done', flush=True)\ntime.sleep(60)"
    cpu, memory = cpu_seconds(family()), memory_bytes()
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds(family()) - cpu >= 0.18
        assert memory_bytes() - memory >= 70_000_000
    finally:
        child.kill()
        child.communicate()
