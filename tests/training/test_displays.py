from __future__ import annotations

import io
import subprocess
import sys
import types

import pytest

from steadyrl.errors import UserError
from steadyrl.training.displays import make_display
from steadyrl.training.displays.guard import GuardedDisplay
from steadyrl.training.events import Event
from support.fake_ipython import fake_ipython
from support.simulated_run import STARTED, FakeClock, Terminal, awkward_events


@pytest.mark.parametrize(
    ("stream", "environ", "kind"),
    [
        (Terminal(), {"TERM": "xterm"}, "LiveDisplay"),
        (Terminal(), {"TERM": "xterm", "CI": "false"}, "LiveDisplay"),
        (Terminal(), {"TERM": "xterm", "CI": "1"}, "PlainDisplay"),
        (Terminal(), {"TERM": "dumb"}, "PlainDisplay"),
        (io.StringIO(), {"TERM": "xterm"}, "PlainDisplay"),
    ],
)
def test_auto_chooses_by_stream_and_environment(stream: io.StringIO, environ: dict[str, str], kind: str) -> None:
    display = make_display("auto", stream, environ=environ)
    assert type(display._display).__name__ == kind


def test_auto_chooses_notebook_in_a_kernel_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ipython(monkeypatch)
    shell = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert type(make_display("auto", io.StringIO())._display).__name__ == "PlainDisplay", "IPython at a terminal"
    shell.kernel = object()
    assert type(make_display("auto", io.StringIO())._display).__name__ == "NotebookDisplay"


def test_a_display_that_cannot_work_is_plain_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    make_display("live", stream)(STARTED)
    assert stream.getvalue().splitlines()[0] == (
        'event=note code=display message="The live display needs a terminal that can move its cursor; '
        'plain lines instead."'
    )
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    stream = io.StringIO()
    make_display("notebook", stream)(STARTED)
    assert "needs IPython; plain lines instead" in stream.getvalue()
    assert "event=start" in stream.getvalue()


def test_none_shows_nothing_and_an_unknown_kind_gets_a_suggestion() -> None:
    stream = io.StringIO()
    make_display("none", stream)(STARTED)
    assert stream.getvalue() == ""
    with pytest.raises(UserError, match="Did you mean plain"):
        make_display("plan")


def test_the_default_stream_is_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    make_display("plain")(STARTED)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("event=start")


def test_a_process_without_stderr_has_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    make_display("auto")(STARTED)


@pytest.mark.parametrize("kind", ["plain", "json"])
def test_a_broken_stream_never_reaches_the_training(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError("gone")

    display = make_display(kind, Broken())
    for event in awkward_events():
        display(event)
    display.close()
    assert capsys.readouterr().err == (
        "steadyrl: the progress display stopped (BrokenPipeError: gone); the run goes on without it.\n"
    )


def test_an_interrupt_passes_through_the_guard() -> None:
    class Interrupted:
        def __call__(self, event: Event) -> None:
            raise KeyboardInterrupt

        def close(self) -> None:
            pass

    with pytest.raises(KeyboardInterrupt):
        GuardedDisplay(Interrupted())(STARTED)


@pytest.mark.parametrize("kind", ["plain", "json", "none"])
def test_no_display_complains_about_awkward_events(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    display = make_display(kind, io.StringIO(), clock=FakeClock())
    for event in awkward_events():
        display(event)
    assert capsys.readouterr().err == ""


def test_rich_is_imported_by_live_only_and_torch_by_none() -> None:
    script = (
        "import io, sys; from steadyrl.training.displays import make_display; make_display('plain', io.StringIO());"
        "make_display('json', io.StringIO()); print([m for m in ('rich', 'torch', 'numpy', 'IPython', 'tensorboardX')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
