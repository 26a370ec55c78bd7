"""Going on with a run that was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from steadyrl.bundle import read_bundle
from steadyrl.errors import UserError
from steadyrl.training.agent import Agent, say
from steadyrl.training.agents import AGENTS
from steadyrl.training.arguments import listeners_of, path_of
from steadyrl.training.checkpoint import POLICY
from steadyrl.training.compiling import take_up
from steadyrl.training.ending import recorded
from steadyrl.training.events import Listener, Notice
from steadyrl.training.extras import StopAt
from steadyrl.training.files import working_folder
from steadyrl.training.finding import whole_one
from steadyrl.training.generators import global_generators_kept
from steadyrl.training.learning import Learning
from steadyrl.training.lock import writing
from steadyrl.training.resuming import Checkpoint, cut_back, newest, note_lineage, put_back
from steadyrl.training.run import Run, closed_on_error
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.signals import release, signals_raise
from steadyrl.training.taking_up import changed_hyperparameters, declared_total, setup_of, stretched


def resume(
    run: str | Path,
    total_timesteps: int | None = None,
    *,
    callback: Listener | Sequence[Listener] | None = None,
    encoders: Mapping[str, Any] | None = None,
    say: Callable[[Notice], None] = say,
) -> Run:
    """Go on with a run that was stopped, as `steadyrl resume` does, to the same bits as if it had not been.

    Args:
        run: Its folder.
        total_timesteps: Another total than was declared; schedules then run over this one.
        callback: Called with each event; returning False ends the run.
        encoders: Classes of own encoders by path, where it was trained with some.
        say: Tells the user something once.

    Raises:
        UserError: it has no whole checkpoint, is finished, or its environment cannot be made again.
        RunFailedError: as `train`.
    """
    return go_on(path_of(run, "run", folder=True), total_timesteps, listeners_of(callback), say, encoders=encoders)


def go_on(
    run: Path,
    total_timesteps: int | None,
    listeners: Sequence[Listener],
    say: Callable[[Notice], None],
    stop_at: StopAt | None = None,
    encoders: Mapping[str, Any] | None = None,
) -> Run:
    """As `resume`; at `stop_at` the run ends as if it had been stopped."""
    with signals_raise():
        folder = RunFolder.open(run)
        with writing(folder.path, folder.shown):
            return _resumed(folder, total_timesteps, listeners, say, stop_at, encoders)


def _resumed(
    folder: RunFolder,
    total_timesteps: int | None,
    listeners: Sequence[Listener],
    say: Callable[[Notice], None],
    stop_at: StopAt | None,
    encoders: Mapping[str, Any] | None,
) -> Run:
    here = working_folder()
    setup = setup_of(folder, total_timesteps, encoders)
    checkpoint = newest(folder, say)
    total, manifest = setup.resolved.total_timesteps, folder.manifest
    declared = declared_total(folder) or total
    told = manifest.get("target")  # a call of `learn` may have declared more steps than it was to take
    target = told if type(told) is int and total == declared and told <= total else total
    if checkpoint.step > target or (checkpoint.step == target and manifest["status"] == "finished"):
        finished = checkpoint.step == target
        raise UserError(
            f"The run {folder.shown} is finished: it stands at its last step, {target}."
            if finished
            else f"The run {folder.shown} stands at step {checkpoint.step} and would end at step {target}.",
            remedy="To make it longer, pass a larger total_timesteps (--total-timesteps).",
            code="run-finished",
        )
    with global_generators_kept():
        agent = AGENTS[setup.resolved.algo].from_setup(setup)
        try:
            agent.compiling = take_up(manifest.get("compiled"), agent.config, agent.policy)
            with agent.computing():
                put_back(agent, checkpoint)
        except BaseException:
            agent.close()  # the run stays as it was
            raise
        with recorded(folder, fresh=False), closed_on_error(agent):
            missing = [f"lost: {text}" for text in cut_back(folder, checkpoint)]
            missing += _edited(folder, checkpoint.folder / POLICY)
            for text in [*missing, *note_lineage(folder, checkpoint, total, here)]:
                say(Notice("resumed-elsewhere", f"Not as it was: {text}.", "warning"))
            say(Notice("resumed", f"Going on from step {checkpoint.step:,} of {target:,}."))
            for text in _told(agent, checkpoint, declared, total):
                say(Notice("schedule", text))
            learning = Learning(agent, target - checkpoint.step, total, listeners, say, resuming=True)
            outcome = learning.run(folder=folder, resumed=checkpoint, stop_at=stop_at)
            release()
            return Run(folder, agent, outcome)


def _told(agent: Agent, checkpoint: Checkpoint, declared: int, total: int) -> list[str]:
    """What goes on otherwise than it would have without the stop."""
    said = []
    if checkpoint.state["envs"] is None:
        reason = checkpoint.about["environments"]["reason"]
        said.append(f"Episodes start anew, as the state of the environment could not be saved: {reason}.")
    if total != declared:
        values = stretched(agent.config, checkpoint.step, declared, total)
        said.append(f"The total is {total} steps and was {declared}: schedules run over {total}.")
        said += [f"Because of that, {text}." for text in values]
    return said


def edited(run: Path) -> list[str]:
    """Hyperparameters in a run's `config.json` that its final agent was not trained with, in words."""
    folder = RunFolder.open(run)
    path = whole_one(folder.checkpoints, "final")
    return _edited(folder, path) if path else []  # without a saved agent there is nothing to compare with


def _edited(folder: RunFolder, policy: Path) -> list[str]:
    try:
        bundle = read_bundle(policy, torch.device("cpu"))
    except UserError:
        return []
    return changed_hyperparameters(folder.config.get("hyperparameters", {}), bundle.about["config"])
