"""Proof by trial: a run that is killed again and again and resumed, beside one that is left alone."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steadyrl.errors import RunFailedError
from steadyrl.training.checkpoint import steps_in
from steadyrl.training.comparing import Difference, compared, first_difference
from steadyrl.training.saving import LOGS

_POLL_S = 0.005
_LIMIT_S = 24 * 3600.0


@dataclass(frozen=True)
class Kill:
    """One SIGKILL: the last step that the run had told of, and the step of the checkpoint that it was resumed from."""

    after_step: int
    resumed_from: int


@dataclass(frozen=True)
class Verdict:
    """What a trial showed.

    Attributes:
        kills: What was done.
        difference: The first one, if any.
        compared: How much there was to compare.
        wall_s: Seconds that the run took which was left alone.
        inexact: What the runs' checkpoints cannot bring back, in words.
    """

    kills: list[Kill]
    difference: Difference | None
    compared: dict[str, int]
    wall_s: float
    inexact: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `steadyrl verify-resume --json` prints it."""
        return {
            "identical": self.difference is None,
            "kills": [asdict(kill) for kill in self.kills],
            "first_difference": None if self.difference is None else self.difference.to_json(),
            "compared": self.compared,
            "inexact": list(self.inexact),
        }


def verify_resume(
    arguments: Sequence[str], folder: Path, *, kills: int, seed: int = 0, say: Callable[[str], None] = print
) -> Verdict:
    """Train twice with the same arguments, the second time with kills at random moments after the first checkpoint.

    Args:
        arguments: Of `steadyrl train`, without `--run-dir`.
        folder: Where the two runs go.
        kills: How often to kill; fewer happen where the run ends before.
        seed: Of the moments.
        say: Told what goes on.

    Raises:
        RunFailedError: a run did not come to its end.
    """
    whole, killed = folder / "whole", folder / "killed"
    _run(["train", *arguments, "--run-dir", str(whole)])
    manifest = _manifest(whole)
    wall_s, total = float(manifest["wall_s"]), int(manifest["timesteps"])
    say(f"The run that is left alone took {wall_s:.1f} s.")
    moments = random.Random(seed)
    done: list[Kill] = []
    command = ["train", *arguments, "--run-dir", str(killed)]
    while len(done) < kills and (step := _killed(command, killed, moments.uniform(0.0, 0.8 * wall_s / kills))):
        resumed_from = max(steps_in(killed / "checkpoints"), default=0)
        if resumed_from == total:
            break  # the training was over: there is nothing to go on with
        done.append(Kill(step, resumed_from))
        say(f"Killed after step {step}; going on from the checkpoint of step {resumed_from}.")
        command = ["resume", str(killed)]
    if _manifest(killed)["status"] != "finished":
        _run(["resume", str(killed)])
    inexact = tuple(_manifest(whole).get("checkpoints", {}).get("inexact", ()))
    return Verdict(done, first_difference(whole, killed), compared(whole, killed), wall_s, inexact)


def _command(arguments: Sequence[str]) -> list[str]:
    said = any(word.partition("=")[0] in ("--quiet", "--no-quiet") for word in arguments)
    return [sys.executable, "-m", "steadyrl", *arguments, *([] if said else ["--quiet"])]


def _run(arguments: Sequence[str]) -> None:
    done = subprocess.run(_command(arguments), capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    if done.returncode != 0:
        raise RunFailedError(
            f"`steadyrl {' '.join(arguments)}` ended with exit status {done.returncode}: {done.stderr.strip()[-2000:]}",
            remedy="Make this command work first.",
            code="run-failed",
        )


def _killed(arguments: Sequence[str], run: Path, delay: float) -> int:
    """Start a command and kill it so many seconds after there is something to go on from, in the middle of its work.

    Returns:
        The last step that it had told of; 0 where it ended by itself before.
    """
    before = max(steps_in(run / "checkpoints"), default=0)
    process = subprocess.Popen(_command(arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and max(steps_in(run / "checkpoints"), default=0) <= before:
            time.sleep(_POLL_S)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
        ended_by_itself = process.wait() >= 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return 0 if ended_by_itself else max(last_step(run), max(steps_in(run / "checkpoints"), default=0))


def last_step(run: Path) -> int:
    """The largest step in the logs of a run that may have been cut off in the middle of a line."""
    steps = [0]
    for name in LOGS:
        path = run / name
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        steps += [int(json.loads(line)["step"]) for line in lines[-1:]]
    return max(steps)


def _manifest(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "manifest.json").read_text(encoding="utf-8")))
