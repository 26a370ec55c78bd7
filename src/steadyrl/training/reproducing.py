"""A run made again from its own record, in the stages in which it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.ending import recorded
from steadyrl.training.events import Notice
from steadyrl.training.extras import StopAt
from steadyrl.training.files import working_folder
from steadyrl.training.going_on import go_on
from steadyrl.training.jsonlines import read_jsonl
from steadyrl.training.plan import Plan, make_folder
from steadyrl.training.provenance import provenance
from steadyrl.training.resuming import differences
from steadyrl.training.run import Run, execute
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.signals import signals_raise
from steadyrl.training.taking_up import setup_of

_STOPPED = ("stopped", "interrupted", "preempted")


@dataclass(frozen=True)
class Stage:
    """A part of a run that was trained in one go, or whose stops left no trace.

    Attributes:
        total: Environment steps that schedules ran over.
        target: The step that it was to come to.
        stop_at: The step at which it was stopped; None where it came to its target.
    """

    total: int
    target: int
    stop_at: int | None

    @property
    def end(self) -> int:
        """The step at which it ended."""
        return self.target if self.stop_at is None else self.stop_at


def stages_of(manifest: Mapping[str, Any], total: int) -> list[Stage]:
    """The stages of a run, from the lineage in its manifest.

    A resume that changed neither the total nor the episodes in progress left no trace, and ends no stage. One that
    went back to before another one undid it.

    Args:
        manifest: The run's.
        total: The declared total of its `config.json`.
    """
    lineage = manifest.get("lineage", [])
    first = lineage[0]["total_timesteps"][0] if lineage else total
    began: list[tuple[int, int, Mapping[str, Any]]] = [(0, total if first is None else first, {})]
    for entry in lineage:
        step, now = entry["from_step"], entry["total_timesteps"][1]
        while began[-1][0] >= step > 0:
            began.pop()
        if now != began[-1][1] or entry.get("episodes") == "anew":
            began.append((step, now, entry))
    stages = []
    for (_, declared, _), (step, _, entry) in pairwise(began):
        target = declared if entry.get("target") is None else entry["target"]
        over = entry["was"] == "finished" and step >= target
        stages.append(Stage(declared, target, None if over else step))
    declared = began[-1][1]
    told = manifest.get("target")
    stopped = manifest["timesteps"] if manifest["status"] in _STOPPED else None
    return [*stages, Stage(declared, told if type(told) is int and told <= declared else declared, stopped)]


def reproduce(run: Path, target: Path, say: Callable[[Notice], None]) -> Run:
    """Train again with a run's configuration, in its stages, to the step that it came to.

    Args:
        run: Its folder.
        target: The new run's folder.
        say: Told what is not as it was: settings, versions, code, hardware.

    Raises:
        UserError: its environment cannot be made again, it has not ended, or it went on from an agent in memory.
        RunFailedError: as `train`, unless the run failed itself; that is said, and what came before can be compared.
    """
    with signals_raise():
        folder = RunFolder.open(run)
        manifest = folder.manifest
        _require_whole(folder, manifest)
        setup = setup_of(folder)  # refuses a record that lacks something
        stages = stages_of(manifest, folder.config["total_timesteps"])
        if stages[0].total != folder.config["total_timesteps"]:
            setup = setup_of(folder, stages[0].total)
        for text in differences(folder, provenance(working_folder())):
            say(Notice("not-the-same", f"Not as it was: {text}.", "warning"))
        if len(stages) > 1:
            said = ", then ".join(f"to step {stage.end:,} of {stage.total:,}" for stage in stages)
            say(Notice("stages", f"The run was made in {len(stages)} stages, and is made again in the same: {said}."))
        setup = replace(setup, settings=replace(setup.settings, run_dir=target))
        plan = Plan(setup, make_folder(setup, run_dir=target))
        try:
            with recorded(plan.folder):
                done = execute(plan, (), say, target=stages[0].target, stop_at=_stop(stages[0], run, len(stages) == 1))
            for stage in stages[1:]:
                done = go_on(plan.folder.path, stage.total, (), say, _stop(stage, run, stage is stages[-1]))
        except RunFailedError as error:
            if manifest["status"] != "failed":
                raise
            say(Notice("failed-again", f"It failed, as the run did: {error.message}", "warning"))
            return Run.open(plan.folder.path)
        used, before = (found.get("threads_used") for found in (done.manifest, manifest))
        if before not in (None, used):
            say(Notice("not-the-same", f"Not as it was: threads_used was {before} and is {used}.", "warning"))
        return done


def _stop(stage: Stage, run: Path, last: bool) -> StopAt | None:
    """Where it was stopped; an evaluation that the stop cut off has no row unless somebody went on from there."""
    if stage.stop_at is None:
        return None
    path = run / "evals.jsonl"
    evaluated = path.exists() and any(row["step"] == stage.stop_at for row in read_jsonl(path))
    return StopAt(stage.stop_at, evaluated or not last)


def not_compared(run: Path) -> tuple[str, ...]:
    """Parts of a run's state that its record does not tell: the process-wide generators, where a script had them."""
    return ("generators",) if RunFolder.open(run).manifest.get("generators") == "script" else ()


def _require_whole(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    if manifest.get("status") == "running":
        raise UserError(
            f"The run {folder.shown} has not ended, or was killed.",
            remedy="Let it end, or go on with it: steadyrl resume.",
            code="run-not-ended",
        )
    if manifest.get("began_at"):
        raise UserError(
            f"The run {folder.shown} began at step {manifest['began_at']} of an agent in memory, which no file holds.",
            remedy="Reproduce runs whose first call of learn had the run folder, or that steadyrl train made.",
            code="run-not-whole",
        )
