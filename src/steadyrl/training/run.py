"""A run from its plan to its results, and a finished run opened again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steadyrl.training.agent import Agent, say
from steadyrl.training.agents import AGENTS, load
from steadyrl.training.arguments import listeners_of, path_of
from steadyrl.training.displays import make_display
from steadyrl.training.ending import recorded
from steadyrl.training.events import Listener, Notice
from steadyrl.training.extras import StopAt
from steadyrl.training.finding import find_checkpoint
from steadyrl.training.generators import generators_of_run
from steadyrl.training.learning import Learning, Outcome
from steadyrl.training.lock import writing
from steadyrl.training.logging import read_jsonl
from steadyrl.training.opened import EnvLike
from steadyrl.training.plan import Plan, from_here, prepare
from steadyrl.training.record_form import SETTINGS, require
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.signals import release, signals_raise
from steadyrl.training.wrapped import wrappers_in


class Run:
    """A run folder and what is in it.

    Attributes:
        path: The run folder.
    """

    def __init__(self, folder: RunFolder, agent: Agent | None = None, outcome: Outcome | None = None) -> None:
        self.path = folder.path
        self._folder = folder
        self._agent = agent
        self._outcome = outcome

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """A run that was made before.

        Raises:
            UserError: the path is no run folder.
        """
        return cls(RunFolder.open(path_of(path, "path", folder=True)))

    @property
    def config(self) -> dict[str, Any]:
        """`config.json`."""
        return self._folder.config

    @property
    def manifest(self) -> dict[str, Any]:
        """`manifest.json`."""
        return self._folder.manifest

    @property
    def status(self) -> str:
        """running, finished, stopped, interrupted, preempted or failed."""
        manifest = self.manifest
        require(self._folder.shown / "manifest.json", manifest, ("status",))
        return str(manifest["status"])

    @property
    def agent(self) -> Agent:
        """The final agent, with its environment."""
        if self._agent is None:
            self._agent = self.load_agent()
        return self._agent

    def load_agent(
        self, checkpoint: str | int = "final", *, env: EnvLike | None = None, encoders: Mapping[str, Any] | None = None
    ) -> Agent:
        """The agent of a checkpoint: `final`, `best` or a step; on the run's environment unless another is given.

        `encoders` are the classes of own encoders by path.

        Raises:
            UserError: there is no such checkpoint, or the environment cannot be made.
        """
        path = find_checkpoint(
            self._folder.checkpoints, str(checkpoint), lambda text: say(Notice("damaged-checkpoint", text, "warning"))
        )
        settings = self._settings()
        options = {name: settings[name] for name in SETTINGS if name != "env"} | wrappers_in(settings)
        return load(path, env=from_here(settings["env"]) if env is None else env, encoders=encoders, **options)

    def _settings(self) -> dict[str, Any]:
        config, place = self.config, self._folder.shown / "config.json"
        require(place, config, ("algo", "settings"))
        require(place, config["settings"], SETTINGS, "settings.")
        return dict(config["settings"])

    def metrics(self) -> list[dict[str, Any]]:
        """Rows of `metrics.jsonl`."""
        return self._rows("metrics.jsonl")

    def episodes(self) -> list[dict[str, Any]]:
        """Rows of `episodes.jsonl`."""
        return self._rows("episodes.jsonl")

    def evals(self) -> list[dict[str, Any]]:
        """Rows of `evals.jsonl`."""
        return self._rows("evals.jsonl")

    def _rows(self, name: str) -> list[dict[str, Any]]:
        """Rows of a file; none where the run ended before it wrote one."""
        path = self.path / name
        return read_jsonl(path) if path.exists() else []

    def summary(self) -> dict[str, Any]:
        """What `steadyrl train --json` prints; None where a killed run did not get to say it."""
        manifest, settings = self.manifest, self._settings()
        require(self._folder.shown / "manifest.json", manifest, ("status", "env"))
        steps, seconds = manifest.get("timesteps"), manifest.get("wall_s")
        fps = None if steps is None or seconds is None else steps / max(seconds, 1e-9)
        return {
            "run": str(self._folder.shown),
            "algo": self.config["algo"],
            "env": manifest["env"].get("id"),
            "seed": settings["seed"],
            "total_timesteps": steps,
            "status": manifest["status"],
            "signal": manifest.get("signal"),
            "fps": self._outcome.fps if self._outcome else fps,
            "wall_s": seconds,
            "weights_sha256": manifest.get("weights_sha256"),
            "eval": manifest.get("eval"),
        }

    def close(self) -> None:
        """Close the environments of its agent, which predicts on; nothing where no agent was asked for."""
        if self._agent is not None:
            self._agent.close()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, status={self.status!r})"


def execute(
    plan: Plan,
    listeners: Sequence[Listener] = (),
    say: Callable[[Notice], None] | None = None,
    *,
    target: int | None = None,
    stop_at: StopAt | None = None,
    eval_env: EnvLike | None = None,
) -> Run:
    """Run a plan to its end, or to the signal or callback that ends it early; the run says which.

    An error is left to the caller to record: see `recorded`.

    Args:
        plan: From `prepare`; its notices go to `say`.
        listeners: Called with each event; one that returns False ends the run.
        say: Tells the user something once; None is silence.
        target: The step to train to, where that is not the declared total.
        stop_at: Where before it the run ends as if it had been stopped.
        eval_env: Where evaluations happen; None makes environments like the training's.
    """
    quiet = say or (lambda notice: None)
    for notice in plan.setup.notices:
        quiet(notice)
    agent = AGENTS[plan.setup.resolved.algo].from_setup(plan.setup)
    generators = generators_of_run(agent.seeds.stream("env", "process"))
    with writing(plan.folder.path, plan.folder.shown), generators, closed_on_error(agent):
        total = plan.setup.resolved.total_timesteps
        learning = Learning(agent, total if target is None else target, total, listeners, quiet, eval_env)
        outcome = learning.run(folder=plan.folder, stop_at=stop_at)
    release()
    return Run(plan.folder, agent, outcome)


@contextmanager
def closed_on_error(agent: Agent) -> Iterator[None]:
    """Nobody gets the agent of a call that raises, so nobody else could close its environments.

    Whoever interrupts it a second time does not wait for them.
    """
    try:
        yield
    except Exception:
        agent.close()
        raise


def train(
    algo: str,
    env: EnvLike,
    *,
    total_timesteps: int | None = None,
    preset: str = "auto",
    callback: Listener | Sequence[Listener] | None = None,
    eval_env: EnvLike | None = None,
    display: str = "none",
    **options: Any,
) -> Run:
    """Train into a run folder, as `steadyrl train` does.

    Args:
        algo: Name of the algorithm, such as `ppo`.
        env: As `steadyrl.PPO` takes it.
        total_timesteps: Environment steps; else the preset's, else a million.
        preset: `auto`, `none` or a preset's name.
        callback: Called with each event; returning False ends the run.
        eval_env: Where evaluations happen; None makes environments like the training's. `resume` does.
        display: How progress is shown on stderr: `auto`, `live`, `plain`, `notebook`, `json` or `none`.
        **options: Hyperparameters and settings of the run under the names of the command line's flags.

    Raises:
        UserError: bad input; nothing is written.
        RunFailedError: the environment failed, a number was not finite, the disk is full.
        KeyboardInterrupt: SIGINT came before the training began or after it ended; SystemExit with the status of the
            signal for SIGTERM and SIGUSR1. Within the training a signal ends the run, whose status says so.
    """
    listeners, shown = listeners_of(callback), make_display(display)
    try:
        with signals_raise():
            plan = prepare(algo, env, options, preset=preset, total_timesteps=total_timesteps)
            with recorded(plan.folder):
                return execute(plan, [shown, *listeners], say, eval_env=eval_env)
    finally:
        shown.close()
