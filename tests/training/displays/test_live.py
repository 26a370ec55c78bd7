from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import textwrap
from pathlib import Path

import pytest

from steadyrl.training.displays.live import LiveDisplay
from steadyrl.training.events import (
    EpisodeEnded,
    Notice,
    RunEnded,
)
from support.simulated_run import STARTED, FakeClock, SimulatedRun, Terminal, awkward_events


@pytest.mark.parametrize("size", [(80, 24), (1, 1), (3, 2), (200, 60)])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_live_takes_awkward_events_at_any_size_and_encoding(size: tuple[int, int], encoding: str) -> None:
    clock = FakeClock()
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    display = LiveDisplay(stream, clock, color=True, size=size)
    for event in awkward_events() + list(SimulatedRun(total=20_000, clock=clock).events()):
        clock.now += 0.6
        display(event)
    stream.flush()
    assert b"\x1b]0;title" not in stream.buffer.getvalue(), "a name must not talk to the terminal"


def test_live_draws_at_most_twice_a_second_and_only_between_start_and_end() -> None:
    clock, stream = FakeClock(), Terminal()
    display = LiveDisplay(stream, clock, color=False, size=(80, 24))
    run = SimulatedRun(clock=clock, seconds_per_step=lambda f: 1e-4)
    start, draws, written = clock.now, 0, 0
    for event in run.events():
        display(event)
        draws += len(stream.getvalue()) > written
        written = len(stream.getvalue())
    assert 10 <= draws <= 2 * (clock.now - start) + 2
    display(EpisodeEnded(1, 0, 1.0, 1, True, False, None))
    display.close()
    assert len(stream.getvalue()) == written


def test_live_says_notices_in_full_and_once_and_gives_the_cursor_back() -> None:
    stream = Terminal()
    display = LiveDisplay(stream, FakeClock(), color=True, size=(40, 24))
    display(STARTED)
    display(Notice("x", "word " * 30 + "end."))
    display(RunEnded(10, "finished", 1.0, None))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert text.count("end.") == 1
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize("color", [True, False])
def test_no_color_means_none(color: bool) -> None:
    clock, stream = FakeClock(), Terminal()
    display = LiveDisplay(stream, clock, color=color, size=(80, 24))
    for event in SimulatedRun(total=20_000, clock=clock).events():
        display(event)
    codes = {code for codes in re.findall(r"\x1b\[([0-9;]*)m", stream.getvalue()) for code in codes.split(";")}
    coloured = any(code and 30 <= int(code) <= 107 for code in codes)
    assert coloured is color


PTY_SCRIPT = """
    import sys
    from support.simulated_run import SimulatedRun
    from steadyrl.training.displays import make_display
    run = SimulatedRun(total=20_000)
    display = make_display("auto", clock=run.clock)
    for event in run.events():
        display(event)
    assert "torch" not in sys.modules
"""


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (1, 1)])
@pytest.mark.parametrize(("environ", "redraws"), [({}, True), ({"CI": "true"}, False), ({"TERM": "dumb"}, False)])
def test_auto_on_a_real_terminal(columns: int, rows: int, environ: dict[str, str], redraws: bool) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("CI", "NO_COLOR", "COLUMNS", "LINES")}
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PTY_SCRIPT)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**kept, "TERM": "xterm-256color", "PYTHONPATH": paths, **environ},
    )
    os.close(slave)
    output = b""
    try:
        while chunk := os.read(master, 65536):
            output += chunk
    except OSError:
        pass
    os.close(master)
    assert child.wait() == 0, output.decode()
    assert (b"\x1b[" in output) is redraws
    assert (b"event=end status=finished" in output) is not redraws
    assert b"Traceback" not in output
    assert b"display stopped" not in output
    if redraws and columns == 80:
        assert b"finished" in output
        assert output.count(b"run folder") >= 2
