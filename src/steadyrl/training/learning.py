"""One call of `learn` from the outside: who listens, where it evaluates and saves, how it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from steadyrl.configs import DQNConfig, LinearSchedule
from steadyrl.configs.validate import count
from steadyrl.errors import NonFiniteError, UserError, words
from steadyrl.training.arguments import listeners_of
from steadyrl.training.camera import Camera
from steadyrl.training.compiling import record, start_compiling
from steadyrl.training.computing import compared_threads, computing_facts
from steadyrl.training.curve import write_curve
from steadyrl.training.evaluation import Evaluation, Watch, left_out
from steadyrl.training.evaluator import Evaluator, eval_source, spared_failures
from steadyrl.training.events import Event, EventStream, Listener, Notice, RunEnded, RunStarted
from steadyrl.training.extras import Every, Extras, StopAt
from steadyrl.training.failing import FailureFiles
from steadyrl.training.failures import Failures
from steadyrl.training.history import history_of
from steadyrl.training.inventory import inventory
from steadyrl.training.keeping import Keeper
from steadyrl.training.logging import RunWriter
from steadyrl.training.notices import unlearnt
from steadyrl.training.opened import EnvLike
from steadyrl.training.resuming import Checkpoint
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.saving import Saver
from steadyrl.training.session import Session
from steadyrl.training.signals import StopFlag, signals_stop
from steadyrl.training.sources import write_sources
from steadyrl.training.wrapped import wrapper_names

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent


NO_EVALUATION = Notice(
    "no-evaluation",
    "There is no evaluation: this environment cannot be made a second time. "
    "Pass eval_env=, or an id or a function instead of an instance.",
    "warning",
)


@dataclass(frozen=True)
class Outcome:
    """How a call of `learn` ended; `signal` is the name of the signal that ended it, or empty."""

    status: str
    signal: str
    elapsed_s: float
    fps: float
    evaluation: Evaluation | None


class Learning:
    """One call of `learn`.

    Args:
        agent: Who learns.
        total_timesteps: Environment steps of this call.
        schedule_steps: The declared total, or None for the steps so far plus this call.
        listeners: Called with each event; one that returns False ends the call.
        say: Tells the user something once.
        eval_env: Where to evaluate; None makes environments like the training's.
        resuming: The call goes on with a run that was stopped, of which no step may be left.

    Raises:
        UserError: a number is out of range, or `eval_env` cannot be made.
    """

    def __init__(
        self,
        agent: Agent,
        total_timesteps: int,
        schedule_steps: int | None,
        listeners: Sequence[Listener],
        say: Callable[[Notice], None],
        eval_env: EnvLike | None = None,
        *,
        resuming: bool = False,
    ) -> None:
        self._agent = agent
        agent.settle(say)
        self._setup = agent.require_setup()
        self._loop = agent.loop
        self._say = say
        self._resuming = resuming
        self._stop = StopFlag()
        self.events = EventStream()
        for listener in listeners_of(listeners):
            self.events.add(self._stoppable(listener))
        done = self._loop.counters.timesteps
        over = resuming and total_timesteps == 0  # it was stopped in its last evaluation
        self.target = done + (0 if over else count("total_timesteps", total_timesteps, "environment steps"))
        self.total = self.target
        if schedule_steps is not None:
            self.total = count("schedule_steps", schedule_steps, "environment steps")
        if self.total < self.target:
            raise UserError(
                f"schedule_steps is {schedule_steps}, but this call goes on to step {self.target}.",
                remedy=f"Declare at least {self.target}, or train fewer steps.",
                code="bad-value",
            )
        self._running_in: object = self._setup.source  # whose failure an error tells of
        self._saver: Saver | None = None
        self._own_eval_env = eval_env is not None
        self._eval_source = None if self._setup.settings.eval_freq == 0 else eval_source(agent, eval_env)
        stretched = schedule_steps is None and done > 0 and _has_schedule(agent.config)
        if stretched and "schedule" not in agent.told:
            agent.told.add("schedule")
            say(Notice("schedule", f"Schedules now run over {self.total} steps: those so far and this call's."))

    def run(
        self, *, folder: RunFolder | None, resumed: Checkpoint | None = None, stop_at: StopAt | None = None
    ) -> Outcome:
        """Train; writes the run folder where there is one, and goes on in it from a checkpoint that was put back.

        At `stop_at` it ends as a callback would end it.
        """
        agent, setup = self._agent, self._setup
        with ExitStack() as stack:
            stack.enter_context(agent.busy())
            stack.enter_context(agent.computing())
            if folder is not None:
                if resumed is None:
                    folder.update_config(setup.to_json())
                writer = RunWriter(folder.path, since=None if resumed is None else resumed.step)
                stack.callback(writer.close)
                self.events.add(writer)
                if setup.settings.capture_video:
                    self.events.add(Camera(agent, folder))
            files = FailureFiles(folder, setup.source)
            extras = self._extras(folder, stack)
            extras.keep_failure, extras.stop_at = files.keep_restart, stop_at
            session = Session(self._loop, self.events, extras, self._stop)
            best = agent.best_mean if folder is None else None  # a folder holds a best agent of its own
            if resumed is not None:
                session.load_state_dict(resumed.state["session"])
                best = resumed.state["session"]["best"]
            if folder is not None:
                self._keep(folder, extras, session, writer, stack)
            self.events.emit(
                RunStarted(
                    agent.algo,
                    setup.settings.env,
                    setup.settings.seed,
                    self._loop.counters.timesteps,
                    self.total,
                    folder.path if folder else None,
                    setup.to_json(),
                    None if folder is None or resumed is None else history_of(folder.path),
                )
            )
            self._choose_compiling(folder)
            failures = Failures(agent, folder, self.events)
            self._loop.guard.listener = failures.skipped
            try:
                with signals_stop(self._stop):
                    self._begin(folder)
                    agent.best_mean = session.run(self.target, self.total, best)
            except BaseException as error:
                if self._saver is not None:
                    self._saver.leave(type(error), error)  # before anything else is written at this step
                status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                if isinstance(error, NonFiniteError):
                    failures.stopped(error)
                files.explain(error, self._running_in)
                self._end(folder, session, status, None, f"{type(error).__name__}: {words(error)}")
                raise
            status = self._stop.status if self._stop.reason else "finished"
            self._tell_of_idleness(status)
            self._end(folder, session, status, session.final_evaluation, "")
            elapsed, fps = session.elapsed, session.fps
        if folder is not None:
            write_curve(folder.path)
        name = self._stop.reason if self._stop.reason.startswith("SIG") else ""
        return Outcome(status, name, elapsed, fps, session.final_evaluation)

    def _begin(self, folder: RunFolder | None) -> None:
        """Reset the environments, and say where a checkpoint can hold nothing of them, which is known only then."""
        self._loop.begin()
        if folder is None:
            return
        ability, settings = self._loop.venv.ability(), self._setup.settings
        folder.add(checkpoints=inventory(self._agent, ability))
        if settings.save_state and ability.kind == "none":
            text = f"A resumed run would start its episodes anew: the state of {settings.env} cannot be saved"
            self._say(Notice("inexact-resume", f"{text} ({ability.reason})."))

    def _tell_of_idleness(self, status: str) -> None:
        """Say once that nothing was learnt so far, where that was not foreseen."""
        agent = self._agent
        known = agent.told | {notice.code for notice in self._setup.notices}
        notice = unlearnt(agent.config, self._loop.counters.updates)
        if status == "finished" and notice is not None and notice.code not in known:
            agent.told.add(notice.code)
            self._say(notice)

    def _choose_compiling(self, folder: RunFolder | None) -> None:
        """Decide on `torch.compile` at the agent's first call, for the declared total from where it began."""
        agent, asked = self._agent, self._setup.settings.compile
        if agent.compiling is None:
            since = int(agent.about.get("num_timesteps", 0))
            agent.compiling = start_compiling(asked, agent.algo, agent.config, agent.policy, since, self.total)
            if notice := agent.compiling.notice():
                self.events.emit(notice)
        if folder is not None:
            folder.add(compiled=record(agent.compiling, agent.policy))

    def _extras(self, folder: RunFolder | None, stack: ExitStack) -> Extras:
        settings, agent = self._setup.settings, self._agent
        tenth = max(self.total // 10, 1)
        extras = Extras(
            eval_every=Every(tenth if settings.eval_freq is None else settings.eval_freq),
            save_every=Every(tenth if settings.checkpoint_freq is None else settings.checkpoint_freq),
        )
        asked = folder is not None or self._own_eval_env or settings.eval_freq is not None
        wanted = asked and extras.eval_every.steps > 0
        if wanted and self._eval_source is None:
            self._say(NO_EVALUATION)
        if wanted and self._eval_source is not None:
            seeds = agent.seeds.eval_episode_seeds(settings.eval_episodes)
            evaluator = Evaluator(self._eval_source, seeds, spared_failures(settings))
            stack.callback(evaluator.close)
            extras.evaluate = partial(self._evaluate, evaluator)
        return extras

    def _evaluate(self, evaluator: Evaluator, watch: Watch) -> Evaluation:
        self._running_in = self._eval_source
        result = evaluator(self._agent.policy, watch=watch)
        self._running_in = self._setup.source
        if result.failed:
            self.events.emit(Notice("failed-evaluation", left_out(result), "warning"))
        return result

    def _keep(self, folder: RunFolder, extras: Extras, session: Session, writer: RunWriter, stack: ExitStack) -> None:
        """Checkpoints go into the folder: full ones as the run goes, policies of the final and the best agents."""
        settings, agent = self._setup.settings, self._agent
        if settings.checkpoint_minutes is not None:
            extras.save_seconds = 60.0 * settings.checkpoint_minutes
        saver = Saver(agent, folder.path, keep_last=settings.keep_last)
        stack.push(saver.leave)
        self._saver = saver
        began_at = folder.manifest.get("began_at") if self._resuming else self._loop.counters.timesteps
        folder.add(device=str(agent.policy.device), target=self.target)
        told = folder.config["settings"]
        folder.add(began_at=began_at, computing=computing_facts(), threads_used=compared_threads(folder, self._say))
        write_sources(folder.path, told["env"], folder.manifest["working_directory"], wrapper_names(told))
        keeper = Keeper(agent, settings, folder, saver, writer, session)
        extras.save, extras.check = keeper.save, saver.check

    def _end(
        self, folder: RunFolder | None, session: Session, status: str, evaluation: Evaluation | None, message: str
    ) -> None:
        step, elapsed = self._loop.counters.timesteps, session.elapsed
        if folder is not None:
            assert self._agent.compiling is not None
            folder.finish(
                status,
                timesteps=step,
                wall_s=elapsed,
                message=message,
                signal=self._stop.reason if self._stop.reason.startswith("SIG") else None,
                weights_sha256=self._agent.policy.sha256(),
                eval=None if evaluation is None else summary(evaluation),
                compiled=record(self._agent.compiling, self._agent.policy),
            )
        self.events.emit(RunEnded(step, status, session.call_elapsed, folder.path if folder else None, message))

    def _stoppable(self, listener: Listener) -> Listener:
        def listen(event: Event) -> None:
            answer = listener(event)
            self._agent.policy.regain()  # a listener may put other weights in place of the policy's
            if isinstance(answer, bool | np.bool_) and not answer:
                self._stop.set()

        return listen


def summary(evaluation: Evaluation) -> dict[str, Any]:
    """As the JSON documents have it."""
    return {
        "mean": evaluation.mean,
        "std": evaluation.std,
        "ci95": list(evaluation.ci95),
        "episodes": evaluation.episodes,
        **({} if evaluation.success_rate is None else {"success_rate": evaluation.success_rate}),
    }


def _has_schedule(config: Any) -> bool:
    """Whether anything follows the declared total; DQN's exploration always does."""
    values = (getattr(config, field.name) for field in fields(config))
    return isinstance(config, DQNConfig) or any(isinstance(value, LinearSchedule) for value in values)
