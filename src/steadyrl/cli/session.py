"""How a command ends: exit status, the one message of an error, the file with the details of an unforeseen one."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steadyrl.cli.streams import mend, mute, stdout_kept, tell
from steadyrl.errors import RunFailedError, SteadyRLError
from steadyrl.training.signals import Signalled, end_for_good, ignore_signals, signalled, signals_held

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_BROKEN_PIPE = 141  # what a shell reports for a program that SIGPIPE ended
_FOREIGN_CODE = ("env-error", "env-worker", "env-exit", "env-make", "env-module")  # faults in code of the user's


@dataclass
class Session:
    """What one call of the command line knows beside its own work.

    Attributes:
        json: stdout carries one JSON document and nothing else.
        run_dir: The run folder, once there is one; takes the details of an unforeseen error.
        write: Writes to the real stdout, where `json` keeps all else from it.
        emitted: The JSON document was written.
        alone: The process does nothing else than this command.
    """

    json: bool = False
    run_dir: Path | None = None
    write: Callable[[str], None] | None = None
    emitted: bool = False
    alone: bool = False

    def say(self, text: str) -> None:
        """A line for people: stdout, or stderr where stdout belongs to JSON. It never fails."""
        tell(text, sys.stderr if self.json else sys.stdout)

    def emit(self, document: Any) -> None:
        """The one JSON document on stdout; numbers that JSON does not have become null.

        Raises:
            RunFailedError: stdout cannot be written.
        """
        import json

        text = json.dumps(finite(document), indent=2, allow_nan=False) + "\n"
        self.emitted = True
        try:
            with signals_held():
                (self.write or _print)(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _not_written(error) from error


def _print(text: str) -> None:
    print(text, end="", flush=True)


def finite(value: Any) -> Any:
    """`value` with NaN and infinities as None, since JSON has neither."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


@contextmanager
def exits_are_errors(kind: type[SteadyRLError], env: str) -> Iterator[None]:
    """Foreign code that ends the program (`sys.exit()`) must not look like success: it becomes an error of `kind`."""
    try:
        yield
    except (Exception, KeyboardInterrupt, Signalled):
        raise
    except BaseException as error:
        what = f"{type(error).__name__}({', '.join(map(repr, error.args))})"
        raise kind(
            f"The code of {env} ended the program with {what}.",
            remedy="Let it raise an error that says what is wrong, instead of calling sys.exit().",
            code="env-exit",
        ) from error


def guarded(call: Callable[[], int], session: Session, *, for_good: bool = False) -> int:
    """Runs `call` and returns its exit status; an exception becomes one message and the status of its kind.

    Args:
        call: The command.
        session: What it knows.
        for_good: The process ends with the command, so that its stdout need not be given back.
    """
    mend()
    if session.json:
        with stdout_kept(for_good=for_good) as session.write:
            return _flushed(_ended(call, session, for_good), session)
    return _flushed(_ended(call, session, for_good), session)


def _ended(call: Callable[[], int], session: Session, for_good: bool) -> int:
    if for_good:
        end_for_good()
        warnings.showwarning = _plain_warning
    try:
        return call()
    except BrokenPipeError:
        return _broken_pipe()
    except SteadyRLError as error:
        return _report(error, session, error.exit_status)
    except (KeyboardInterrupt, Signalled) as error:
        if for_good:
            ignore_signals()  # one more must not cut off the message
        return _stopped(error if isinstance(error, Signalled) else signalled("SIGINT"), session)
    except BaseException as error:
        if os.environ.get("STEADYRL_DEBUG") == "1":
            raise
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO) and error.filename is None:
            mute(sys.stdout)  # files of ours are errors with their name: this came from printing
            return _report(_not_written(error), session, 3)
        unforeseen = _unforeseen(error, session)
        return _report(unforeseen, session, unforeseen.exit_status)


def _plain_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Remarks of this library without the line of its code that makes them."""
    if filename.startswith(_PACKAGE):
        tell(f"warning: {message}", sys.stderr)
        return
    with suppress(OSError, ValueError):
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _flushed(status: int, session: Session) -> int:
    """`status`, unless what was printed cannot be written; the flush at exit then finds nothing to complain of."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = status or _broken_pipe()
    except (OSError, ValueError) as error:
        mute(sys.stdout)
        status = status or _report(_not_written(error), session, 3)
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        mute(sys.stderr)
    return status


def _broken_pipe() -> int:
    """The reader went away (`| head`): nothing to say."""
    mute(sys.stdout)
    return _BROKEN_PIPE


def _not_written(error: Exception) -> RunFailedError:
    return RunFailedError(
        f"stdout cannot be written: {getattr(error, 'strerror', None) or error}.",
        remedy="Send it to a place with free space.",
        code="cannot-write",
    )


def _stopped(error: Signalled, session: Session) -> int:
    what = "Interrupted." if error.name == "SIGINT" else f"Ended by {error.name}."
    where = _where(session).strip()
    if where and session.run_dir is not None and _can_go_on(session.run_dir):
        where += f" Go on with: steadyrl resume {shlex.quote(str(session.run_dir))}"
    if session.json:
        _report(SteadyRLError(what, remedy=where, code=error.status), session, 0)
    else:
        tell(f"\n{what} {where}".rstrip(), sys.stderr)
    return error.exit_status


def _can_go_on(run: Path) -> bool:
    from steadyrl.training.run_folder import RunFolder  # imports NumPy

    return RunFolder(run).can_go_on


def _report(error: SteadyRLError, session: Session, status: int) -> int:
    _point_to_traceback(error, session)
    if session.json and not session.emitted:
        with suppress(OSError, RunFailedError):
            session.emit({"error": {"code": error.code, "message": error.message, "remedy": error.remedy}})
            return status
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    tell(f"error: {error}", sys.stderr)
    return status


def _where(session: Session) -> str:
    there = session.run_dir is not None and session.run_dir.is_dir()
    return f" What was written is in {session.run_dir}." if there else ""


def _unforeseen(error: BaseException, session: Session) -> SteadyRLError:
    """The error that a user sees for one that nobody foresaw; the traceback goes to a file."""
    first_line = (str(error).splitlines() or [""])[0][:200]
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        place = error.filename or session.run_dir or "the disk"
        return SteadyRLError(
            f"No space is left on the disk that holds {place}.",
            remedy="Free some space, or choose another disk with --run-dir." + _where(session),
            code="disk-full",
        )
    path = _write_traceback(error, session)
    details = f"The details are in {path}." if path else "STEADYRL_DEBUG=1 shows the details."
    go_on = ""
    if session.run_dir is not None and _can_go_on(session.run_dir):
        go_on = f" Once it is mended, go on: steadyrl resume {shlex.quote(str(session.run_dir))}"
    return SteadyRLError(
        f"Unexpected {type(error).__name__}: {first_line}".rstrip(": "),
        remedy=f"{details} If your environment is not the cause, please report it with that file.{go_on}",
        code="unexpected",
    )


def _point_to_traceback(error: SteadyRLError, session: Session) -> None:
    """Where in the user's own code it failed is in a file: the run's, or a temporary one."""
    there = session.run_dir is not None and session.run_dir.is_dir()
    if error.code in _FOREIGN_CODE and not there and error.__cause__ is not None:
        path = _write_traceback(error, session)
        error.remedy = f"{error.remedy} Traceback: {path}".lstrip() if path else error.remedy


def _write_traceback(error: BaseException, session: Session) -> str | None:
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    try:
        if session.run_dir is not None and session.run_dir.is_dir():
            path = session.run_dir / "error.txt"
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
            return str(path)
        with tempfile.NamedTemporaryFile(
            "w", prefix="steadyrl-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text)
            return file.name
    except OSError:
        return None
