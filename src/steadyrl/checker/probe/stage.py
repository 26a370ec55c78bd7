"""What an experiment has at hand: a way to make environments, the budgets, and the process's streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from steadyrl.checker.plan import Plan
from steadyrl.checker.probe.driver import Broken, Driver, fault_of
from steadyrl.checker.probe.world import Output, Silence, shared
from steadyrl.envs.workers.recipe import Recipe
from steadyrl.errors import SteadyRLError

Beat = Callable[[str, int, int | None], None]


def no_beat(phase: str, step: int, seed: int | None) -> None:
    """Tells nobody."""


@dataclass
class Stage:
    """See the module.

    Attributes:
        maker: Makes an environment with the wrappers that it comes with; takes a render mode or None.
        plan: The budgets.
        name: How sentences call the environment.
        beat: Told before each call of an environment.
        stdout: What counts the output of this process.
        stderr: The same.
        heard: Bytes of each stream that were there at the last look.
        registered: Gymnasium's specification where the environment was given by id.
        shared: What all code of the process shares, as it was before the first environment was made.
        recipe: What makes the environment in another process; None where nothing does.
    """

    maker: Callable[[str | None], gym.Env[Any, Any]]
    plan: Plan
    name: str = "env"
    beat: Beat = no_beat
    stdout: Output | Silence = field(default_factory=Silence)
    stderr: Output | Silence = field(default_factory=Silence)
    heard: dict[str, int] = field(default_factory=dict)
    registered: Any = None
    recipe: Recipe | None = None
    shared: dict[str, str] = field(default_factory=shared)
    _one: Driver | None = None

    def drive(self, render_mode: str | None = None) -> Driver:
        """A new instance; where there may be one only, that one.

        Raises:
            Broken: its constructor raised something.
            SteadyRLError: it cannot be made here, for the want of a package say.
        """
        if self._one is not None:
            return self._one
        self.beat("make", 0, None)
        try:
            env = self.maker(render_mode)
        except SteadyRLError:
            raise
        except BaseException as error:
            raise Broken(fault_of(error, "make", 0)) from error
        finally:
            self.beat("", 0, None)
        driver = Driver(env, self.beat)
        if self.plan.alone:
            self._one = driver
        return driver
