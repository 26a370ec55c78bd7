"""From the word RUN on the command line to a run folder."""

from __future__ import annotations

from pathlib import Path

from steadyrl.errors import UserError

_MARK = "config.json"


def find_run(word: str | None, command: str) -> Path:
    """The run folder that `word` means: a run folder, the newest run below a folder, or `latest` for `runs`.

    Raises:
        UserError: There is no such folder, or no run in it.
    """
    if word is None:
        raise UserError(
            f"`steadyrl {command}` needs a run folder.", remedy=f"For example: steadyrl {command} latest.", code="usage"
        )
    path = Path("runs") if word == "latest" and not Path(word).exists() else Path(word)
    if not path.is_dir():
        kind = "is a file, no run folder" if path.is_file() else "does not exist"
        raise UserError(f"{path} {kind}.", remedy=_suggestion(command), code="not-a-run")
    if (path / _MARK).is_file():
        return path
    newest = _newest_below(path)
    if newest is None:
        raise UserError(
            f"{path} is not a run folder: it has no {_MARK}, and no run lies below it.",
            remedy=_suggestion(command),
            code="not-a-run",
        )
    return newest


def _newest_below(path: Path) -> Path | None:
    """The run that began last; runs lie at most env/algo/run below."""
    marks = [mark for depth in ("*", "*/*", "*/*/*") for mark in path.glob(f"{depth}/{_MARK}")]
    return max((mark.parent for mark in marks), key=lambda run: (run.name, str(run)), default=None)


def _suggestion(command: str) -> str:
    newest = _newest_below(Path("runs"))
    if newest is None:
        return "Train one first: steadyrl train ppo CartPole-v1."
    return f"The newest run here is {newest}: steadyrl {command} latest."
