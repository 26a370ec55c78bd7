"""The agent: an algorithm, its environments, and what they did so far."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import gymnasium as gym

from steadyrl.bundle import SUFFIX, Bundle, to_bytes
from steadyrl.config import to_json
from steadyrl.configs import Config
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.vector import VectorAdapter
from steadyrl.errors import UserError
from steadyrl.seeding import Seeds
from steadyrl.training.answers import Answers
from steadyrl.training.arguments import listeners_of, one_argument, path_of, unknown_argument
from steadyrl.training.backend import settled, with_masks_found
from steadyrl.training.calling import run_call
from steadyrl.training.compiling import Choice, require_compilable
from steadyrl.training.environments import make_environments
from steadyrl.training.events import Listener, Notice
from steadyrl.training.files import write_atomic
from steadyrl.training.learning import Learning
from steadyrl.training.loops import Loop, make_loop
from steadyrl.training.modes import insist_on_plain_torch
from steadyrl.training.opened import EnvLike
from steadyrl.training.policies import new_policy, require_same_network, require_same_spaces
from steadyrl.training.setup import Setup, prepare_again, prepare_training
from steadyrl.training.taking_along import brought


class Agent(Answers):
    """Trains, predicts, saves.

    Args:
        env: A Gymnasium id, `path/to/file.py:ClassName`, a callable or class that makes an environment, an
            environment, or a vector environment. Instances are never copied: an environment is used alone
            (`num_envs` 1).
        preset: `auto` takes the tuned settings of this environment if there are any, `none` the defaults, another
            name those of that environment. Explicit arguments win.
        *others: There are none: what is given here is answered with an error.
        **options: Hyperparameters of the algorithm and settings of the run (`seed`, `device`, `vec`, `eval_freq`,
            ...), under the names of the command line's flags.

    Raises:
        UserError: anything unknown, of the wrong type or size; it names the nearest right one.
    """

    algo: ClassVar[str]

    def __init__(self, env: EnvLike, *others: Any, preset: str = "auto", **options: Any) -> None:
        if others:
            raise one_argument(type(self).__name__, env)
        if options.get("run_dir") is not None:
            raise UserError(
                "run_dir was given to the agent, but it is each call of learn that has a run folder.",
                remedy="Use agent.learn(total_timesteps, run_dir=...), or steadyrl.train.",
                code="bad-value",
            )
        setup = prepare_training(self.algo, env, options, preset=preset)
        for notice in setup.notices:
            # A run says the spaces, `info` shows them for an environment; how long learn trains is not known yet.
            if notice.code not in ("spaces", "no-updates"):
                say(notice)
        self._begin(setup, None)

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        """The agent of a checked setup; its notices are left to the caller."""
        agent = cls.__new__(cls)
        agent._begin(setup, None)
        return agent

    @classmethod
    def from_bundle(cls, bundle: Bundle, setup: Setup | None, config: Config) -> Self:
        """The agent of a saved policy; it can learn where a setup is given, with a fresh optimiser."""
        agent = cls.__new__(cls)
        agent.config = config
        agent.policy = bundle.policy
        agent._begin(setup, bundle)
        return agent

    def _begin(self, setup: Setup | None, bundle: Bundle | None) -> None:
        """Fresh counters and streams, environments where there is a setup, the bundle's policy where there is one."""
        insist_on_plain_torch()
        self.setup = setup
        self.about: dict[str, Any] = {} if bundle is None else bundle.about
        self.best_mean: float | None = None
        self.told: set[str] = set()  # codes of what is said once an agent
        self.compiling: Choice | None = None
        self._loop: Loop | None = None
        self._venv: VectorAdapter | None = None  # made and reset to look for action masks, for the loop to take
        self._closed = False
        self._busy = False  # it learns
        seed = int(self.about.get("seed", 0)) if setup is None else setup.settings.seed
        self.seeds = Seeds(seed)
        if setup is not None:
            settings = setup.settings
            self.seeds = Seeds(
                seed, env_seed=settings.env_seed, algo_seed=settings.algo_seed, eval_seed=settings.eval_seed
            )
            self.config = setup.resolved.config
            if bundle is None:
                self.policy = new_policy(setup, self.seeds)
            if settings.action_masks != "auto":
                self.policy.masked = settings.action_masks == "on"
            require_compilable(settings.compile, self.policy)
        self.predict_stream = self.seeds.stream("algo", "predict")

    @property
    def loop(self) -> Loop:
        """What goes on from step to step; its environments are made when it is first needed.

        Raises:
            UserError: the agent has no environment.
        """
        if self._loop is None:
            self.settle(say)
            setup = self.require_setup()
            venv, self._venv = self._venv or make_environments(setup, self.seeds, self.policy.obs_spec), None
            try:
                with self.computing():
                    start = int(self.about.get("num_timesteps", 0))
                    self._loop = make_loop(setup, self.policy, self.seeds, venv, start)
            except BaseException:
                venv.close()
                raise
        return self._loop

    def settle(self, tell: Callable[[Notice], None]) -> None:
        """Decide how the environments are stepped and whether they have action masks, where that was left open.

        For the masks they are made, and reset as the training's first step is to.
        """
        if self._loop is not None or self.setup is None or self._closed:
            return
        said = "vec" in self.told
        self.told.add("vec")
        self.setup = settled(self.setup, (lambda notice: None) if said else tell)
        undecided = self.setup.settings.action_masks == "auto"
        if undecided:
            self.setup, self._venv = with_masks_found(self.setup, self.seeds, self.policy.obs_spec)
            self.policy.masked = bool(self.setup.masks_found)
        if self.policy.masked and "masks" not in self.told:
            self.told.add("masks")  # decided or found: a run that is made again has it decided
            if undecided:
                tell(Notice("masks", "The environment gives action masks: only what they allow is done and learnt."))

    @property
    def num_timesteps(self) -> int:
        """Environment steps trained on so far."""
        return self._loop.counters.timesteps if self._loop else int(self.about.get("num_timesteps", 0))

    @property
    def env_factory(self) -> EnvFactory | None:
        """What makes the agent's environments, or None where it has none or was given a vector of them."""
        return self.setup.source if self.setup and isinstance(self.setup.source, EnvFactory) else None

    def learn(
        self,
        total_timesteps: int,
        *,
        schedule_steps: int | None = None,
        callback: Listener | Sequence[Listener] | None = None,
        eval_env: EnvLike | None = None,
        run_dir: str | Path | None = None,
        **unknown: Any,
    ) -> Self:
        """Train for this many further environment steps, never one more; environments go on where they were.

        Args:
            total_timesteps: Environment steps of this call.
            schedule_steps: The declared total that schedules run over; None is the steps so far plus this call. A
                rollout that is unfinished when the call ends waits for the next one, unless the declared total is
                reached.
            callback: Called with each event of `steadyrl.training.events`; returning False ends the call.
            eval_env: Where evaluations happen; None makes environments like the training's.
            run_dir: The run folder to make and write; None writes no file. Evaluation on a schedule happens with a
                run folder, an `eval_env`, or an `eval_freq`.
            **unknown: There are no others: what is given here is answered with an error.

        Raises:
            UserError: the agent has no environment or was closed, or an argument is unknown or out of range.
            RunFailedError: the environment failed, a number was not finite, the disk is full.
            KeyboardInterrupt: after SIGINT, once the step was finished and the agent saved.
        """
        if unknown:
            raise unknown_argument(next(iter(unknown)))
        learning = Learning(self, total_timesteps, schedule_steps, listeners_of(callback), say, eval_env)
        run_call(learning, self.require_setup(), None if run_dir is None else path_of(run_dir, "run_dir"))
        return self

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While it learns.

        Raises:
            UserError: it does already, in another thread or around the callback that asks.
        """
        self._insist_on_rest()
        insist_on_plain_torch()
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _insist_on_rest(self) -> None:
        if self._busy:
            raise UserError(
                "This agent is learning already, in another thread or around this callback.",
                remedy="Let that call of learn end first: a callback ends it by returning False.",
                code="busy",
            )

    def require_setup(self) -> Setup:
        """Raises UserError for an agent without environments, or with closed ones."""
        if self.setup is None:
            raise UserError(
                "This agent was loaded without an environment, so it cannot learn.",
                remedy="Use steadyrl.load(path, env=...) or agent.set_env(...); the optimiser starts fresh.",
                code="no-env",
            )
        if self._closed:
            raise UserError(
                "The environments of this agent were closed, so it cannot learn.",
                remedy="Call close() last, or give the agent an environment again with agent.set_env(...).",
                code="closed",
            )
        return self.setup

    def set_env(self, env: EnvLike, **options: Any) -> None:
        """Give the agent another environment of the same spaces to learn in; optimiser and rollout start fresh.

        What goes along of the one before, such as wrappers, is what goes along into `steadyrl.load(path, env=...)`.

        Raises:
            UserError: the spaces differ from the policy's, or a hyperparameter asks for another network.
        """
        self._insist_on_rest()
        about = self.about | {"num_timesteps": self.num_timesteps}
        trained = to_json(self.config) | {"seed": self.seeds.seed, "encoders": self.policy.encoding.own or None}
        before = self.setup.asked if self.setup else None
        setup = prepare_again(self.algo, env, trained | brought(self.bundle().about, env), options, before)
        require_same_spaces(self.policy, setup)
        require_same_network(self.config, setup)
        require_compilable(setup.settings.compile, self.policy)
        self.close()
        self.told.discard("masks")
        self.setup, self.about, self.config, self._loop = setup, about, setup.resolved.config, None
        self._closed, self.compiling = False, None
        if setup.settings.action_masks != "auto":
            self.policy.masked = setup.settings.action_masks == "on"

    def make_env(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """One environment like those that the policy was trained in, its wrappers included; the caller closes it.

        Raises:
            UserError: the agent has no environment, or one that cannot be made again.
        """
        factory = self.env_factory
        if factory is None or not factory.can_remake:
            raise UserError(
                "This agent does not know how to make its environment.",
                remedy="Load it with an id or a function: steadyrl.load(path, env=...).",
                code="no-env",
            )
        return factory.remake()(render_mode)

    def bundle(self) -> Bundle:
        """The policy as it is now, and what is known of it."""
        about = {**self.about, "algo": self.algo, "config": to_json(self.config), "num_timesteps": self.num_timesteps}
        if self.setup is not None:
            for name in ("wrappers", "time_limit", "action_masks"):
                about.pop(name, None)
            about |= self.setup.about
        return Bundle(self.policy, about)

    def save(self, path: str | Path) -> Path:
        """Write the policy as one file, `NAME.srl`; returns its path.

        Raises:
            UserError: the path is no path, or its folder does not exist.
            RunFailedError: the disk or the permissions do not allow it.
        """
        target = path_of(path, "path")
        target = target if target.suffix == SUFFIX else target.with_name(target.name + SUFFIX)
        if not target.parent.is_dir():
            raise UserError(
                f"The folder {target.parent} does not exist.", remedy="Make it first.", code="no-such-folder"
            )
        write_atomic(target, to_bytes(self.bundle()))
        return target

    def close(self) -> None:
        """Close the training environments; the agent predicts on, but learns only after `set_env`."""
        self._closed = True
        venv, self._venv = self._venv, None
        for made in (venv, None if self._loop is None else self._loop.venv):
            if made is not None:
                made.close()

    def __repr__(self) -> str:
        env = self.setup.settings.env if self.setup else None
        return f"{type(self).__name__}(env={env!r}, num_timesteps={self.num_timesteps})"


def say(notice: Notice) -> None:
    """Tell a user of the Python interface."""
    print(f"steadyrl: {notice.message}", file=sys.stderr)
