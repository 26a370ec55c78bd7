"""How a command ends: exit status, the one message of an error, the file with the details of an unforeseen one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steadyrl.errors import SteadyRLError

if TYPE_CHECKING:
    from pathlib import Path

_INTERRUPTED = 130
_BROKEN_PIPE = 141  # what a shell reports for a program that SIGPIPE ended


@dataclass
class Session:
    """What one call of the command line knows beside its own work.

    Attributes:
        json: stdout carries one JSON document and nothing else.
        run_dir: The run folder, once there is one; takes the details of an unforeseen error.
    """

    json: bool = False
    run_dir: Path | None = None

    def say(self, text: str) -> None:
        """A line for people: stdout, or stderr where stdout belongs to JSON."""
        print(text, file=sys.stderr if self.json else sys.stdout, flush=True)


def print_json(document: Any) -> None:
    """The one JSON document on stdout; numbers that JSON does not have become null."""
    import json

    print(json.dumps(finite(document), indent=2, allow_nan=False))


def finite(value: Any) -> Any:
    """`value` with NaN and infinities as None, since JSON has neither."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def guarded(call: Callable[[], int], session: Session) -> int:
    """Runs `call` and returns its exit status; an exception becomes one message and the status of its kind."""
    try:
        status = call()
        sys.stdout.flush()
        return status
    except SteadyRLError as error:
        _report(error, session)
        return error.exit_status
    except KeyboardInterrupt:
        print("\nInterrupted." + _where(session), file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`): nothing to say, and the flush at exit must find an open file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except Exception as error:
        if os.environ.get("STEADYRL_DEBUG") == "1":
            raise
        _report(_unforeseen(error, session), session)
        return 3


def _report(error: SteadyRLError, session: Session) -> None:
    if session.json:
        print_json({"error": {"code": error.code, "message": error.message, "remedy": error.remedy}})
    else:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)


def _where(session: Session) -> str:
    return f" What was written is in {session.run_dir}." if session.run_dir else ""


def _unforeseen(error: Exception, session: Session) -> SteadyRLError:
    """The error that a user sees for one that nobody foresaw; the traceback goes to a file."""
    import errno

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
    return SteadyRLError(
        f"Unexpected {type(error).__name__}: {first_line}".rstrip(": "),
        remedy=f"{details} If your environment is not the cause, please report it with that file.",
        code="unexpected",
    )


def _write_traceback(error: Exception, session: Session) -> str | None:
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    try:
        if session.run_dir is not None and session.run_dir.is_dir():
            path = session.run_dir / "error.txt"
            path.write_text(text, encoding="utf-8")
            return str(path)
        with tempfile.NamedTemporaryFile(
            "w", prefix="steadyrl-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
            return file.name
    except OSError:
        return None
