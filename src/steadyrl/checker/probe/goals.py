"""Goal environments: whether the reward of a step is what `compute_reward` says, for one goal and for a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Broken, Driver, fault_of
from steadyrl.checker.probe.play import over
from steadyrl.checker.probe.policies import act, at_random
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import own

_KEYS = {"observation", "achieved_goal", "desired_goal"}
_STEPS = 40


@dataclass
class Goals:
    """What was seen.

    Attributes:
        is_goal: The observation has the three parts of a goal environment.
        missing: It has no `compute_reward`.
        step: Of the fault.
        fault: What is wrong with `compute_reward`, in words.
        batch: What is wrong with it for a batch, in words.
        shapes: How the two goals differ in form, in words.
    """

    is_goal: bool = False
    missing: bool = False
    step: int = 0
    fault: str = ""
    batch: str = ""
    shapes: str = ""


def goals(stage: Stage) -> Goals:
    """Play some steps and compute their rewards again."""
    found = Goals()
    try:
        driver = stage.drive()
        space = driver.env.observation_space
        found.is_goal = isinstance(space, spaces.Dict) and set(space.spaces) >= _KEYS
        if found.is_goal:
            one, other = space["achieved_goal"], space["desired_goal"]  # type: ignore[index]
            if one.shape != other.shape:
                found.shapes = f"achieved_goal has shape {one.shape}, desired_goal {other.shape}"
            _steps(driver, found)
        driver.close()
    except Broken:
        return found
    return found


def _steps(driver: Driver, found: Goals) -> None:
    if not driver.env.has_wrapper_attr("compute_reward"):
        found.missing = True
        return
    compute: Any = driver.env.get_wrapper_attr("compute_reward")
    policy = at_random(driver.env.action_space)(SEED)
    driver.reset(seed=SEED)
    rows: list[tuple[Any, Any, Any, float]] = []
    while len(rows) < _STEPS:
        step = driver.step(act(policy, driver))
        obs = own(step.obs)
        rows.append((obs["achieved_goal"], obs["desired_goal"], step.info, float(step.reward)))
        try:
            again = float(compute(obs["achieved_goal"], obs["desired_goal"], step.info))
        except Exception as error:
            found.step, found.fault = driver.steps, f"it raised {fault_of(error, 'step', 0).error}"
            return
        if not np.isclose(again, float(step.reward), rtol=1e-5, atol=1e-6):
            found.step = driver.steps
            found.fault = f"the step's reward is {float(step.reward):g}, but it gives {again:g}"
            return
        if over(step):
            driver.reset()
    _batch(compute, rows, found)


def _batch(compute: Any, rows: list[tuple[Any, Any, Any, float]], found: Goals) -> None:
    achieved, desired = (np.stack([row[i] for row in rows]) for i in range(2))
    try:
        rewards = np.asarray(compute(achieved, desired, [row[2] for row in rows]))
    except Exception as error:
        found.batch = f"it raised {fault_of(error, 'step', 0).error}"
        return
    if rewards.shape != (len(rows),):
        found.batch = f"it gives shape {rewards.shape} for {len(rows)} goals"
    elif not np.allclose(rewards, [row[3] for row in rows], rtol=1e-5, atol=1e-6):
        found.batch = "it gives other rewards than for each goal alone"
