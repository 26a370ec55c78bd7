"""A vector version beside single environments that are stepped with the same seeds and actions."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe import world
from steadyrl.checker.probe.driver import Broken, fault_of
from steadyrl.checker.probe.forms import form_of
from steadyrl.checker.probe.kept import Kept
from steadyrl.checker.probe.play import PIN
from steadyrl.checker.probe.singles import Singles, unlike_start
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import apart, brief, difference, own
from steadyrl.checker.probe.vector_actions import vector_actions
from steadyrl.checker.probe.vectors import NUM_ENVS, Unlike, Vectors, entry_of, form_fault, mode_of, row_of

_CPU_S, _QUICK_S = 3.0, 0.2  # for the comparison, and for one of several


class VectorProbe:
    """Steps a vector version.

    Args:
        stage: Makes the single environments; its plan has the budget.
        make: Makes the vector version with so many environments; None where there is only `instance`.
        instance: A vector environment that was given.
        singles: Whether single environments can be made to compare with.
        count: How many environments are made.
        asks: Whether single environments have a method that gives their masks.
        native: Whether it is code of its own: then a second one with the same seed, and infos, are looked at too.
    """

    def __init__(
        self,
        stage: Stage,
        make: Callable[[int], VectorEnv[Any, Any, Any]] | None,
        instance: VectorEnv[Any, Any, Any] | None = None,
        singles: bool = True,
        native: bool = True,
        count: int = NUM_ENVS,
        asks: bool = False,
    ) -> None:
        self._stage, self._make, self._instance, self._singles = stage, make, instance, singles
        self._native, self._count, self._asks = native, count, asks
        self.found = Vectors()
        self._mode = "NextStep"

    def run(self) -> Vectors:
        """Compare."""
        try:
            vector = self._made()
            self.found.mode = mode_of(vector)
            self._mode = self.found.mode or self._mode
            self.found.form = form_fault(vector)
            if not self.found.form:
                self._beside(vector)
            if self._make is not None:
                self._call("close", vector.close)
                if self._native:
                    self._again()
        except Broken as broken:
            self.found.raised = self.found.raised or broken.fault
        except Exception as error:
            self.found.raised = fault_of(error, "step", self.found.compared)
        return self.found

    def _made(self) -> VectorEnv[Any, Any, Any]:
        if self._make is None:
            assert self._instance is not None
            return self._instance
        self._stage.beat("make", 0, None)
        try:
            return self._make(self._count)
        except BaseException as error:
            raise Broken(fault_of(error, "make", 0)) from error
        finally:
            self._stage.beat("", 0, None)

    def _beside(self, vector: VectorEnv[Any, Any, Any]) -> None:
        """The vector, step by step beside singles that are reset as its mode says."""
        world.pin_generators(PIN)
        obs, infos = self._call("reset", partial(vector.reset, seed=SEED))
        kept = Kept()
        self._keep(kept, 0, obs)
        self._obs_form(vector, obs, 0)
        rows = [row_of(obs, i) for i in range(vector.num_envs)]
        expected = Singles(self._stage, vector.num_envs) if self._singles else None
        if expected is not None:
            starts = expected.reset()
            self.found.comparable = all(apart(a, b) is None for a, b in zip(rows, starts, strict=True))
            if not self.found.comparable:
                self.found.unlike = unlike_start(self._stage, vector.single_observation_space, rows, starts)
            same = all(difference(rows[0], row) is None for row in rows[1:])
            self.found.alike = same and any(difference(starts[0], start) is not None for start in starts[1:])
        choose, start = vector_actions(vector, asks=self._asks), time.process_time()
        for step in range(1, self._stage.plan.vector_steps + 1):
            if time.process_time() - start > (_CPU_S if self._native and not self._stage.plan.quick else _QUICK_S):
                break
            self.found.compared = step
            actions = choose(step, obs, infos)
            given = own(actions)
            result = self._call("step", partial(vector.step, actions))
            if difference(given, own(actions)) is not None and self.found.mutated is None:
                self.found.mutated = Unlike(step, 0, "the array of actions was changed")
            self._keep(kept, step, result[0])
            if not self._shapes(vector, result, step):
                return
            obs, infos = result[0], result[4]
            self._obs_form(vector, result[0], step)
            self._ends(vector, result, step)
            if expected is not None and self.found.comparable:
                self._compare(vector, expected, given, result, step)
                if self.found.unlike is not None or self.found.final is not None:
                    break
            if self._mode == "Disabled":
                done = np.logical_or(result[2], result[3])
                if done.any():
                    obs, begun = self._call("reset", partial(vector.reset, options={"reset_mask": done.copy()}))
                    infos = [begun if ended else result[4] for ended in done]  # what goes on was told by the step
        if expected is not None:
            expected.close()

    def _ends(self, vector: VectorEnv[Any, Any, Any], result: Any, step: int) -> None:
        """Whether an end in SAME_STEP mode tells the last observation."""
        done = np.logical_or(result[2], result[3])
        self.found.ends += int(done.sum())
        if self._mode != "SameStep" or self.found.final is not None:
            return
        for i in np.flatnonzero(done):
            last = entry_of(result[4], "final_obs", int(i))
            if last is None:
                self.found.final = Unlike(step, int(i), "infos has no final_obs for it")
                return
            faults = form_of(vector.single_observation_space)(own(last))
            if faults:
                self.found.final = Unlike(
                    step, int(i), f"final_obs is {faults[0].found} instead of {faults[0].expected}"
                )

    def _compare(self, vector: Any, expected: Singles, actions: Any, result: Any, step: int) -> None:
        for i in range(vector.num_envs):
            if expected.waiting[i] and self._mode == "NextStep":
                begun = expected.begin(i)
                unlike = apart(begun, row_of(result[0], i))
                if unlike is not None or result[2][i] or result[3][i] or float(result[1][i]):
                    what = (
                        f"the step after an end is a reset without reward or flags, but it returned {unlike or 'those'}"
                    )
                    self.found.unlike = Unlike(step, i, what)
                continue
            if expected.waiting[i] and self._mode == "Disabled":
                expected.begin(i)
            told = expected.step(i, row_of(actions, i))
            ended = bool(told.terminated) or bool(told.truncated)
            self._row(expected, told, result, step, i, ended)

    def _row(self, expected: Singles, told: Any, result: Any, step: int, i: int, ended: bool) -> None:
        flags = bool(result[2][i]), bool(result[3][i])
        wanted = bool(told.terminated), bool(told.truncated)
        if flags != wanted:
            self.found.unlike = Unlike(step, i, f"terminated, truncated are {flags} instead of {wanted}")
            return
        # Rewards of a vector may be float32: the single one's, rounded to that, is the same.
        reward = result[1][i]
        if not np.isclose(float(reward), float(told.reward), rtol=1e-5, atol=1e-6, equal_nan=True):
            self.found.unlike = Unlike(step, i, f"the reward is {brief(reward)} instead of {brief(float(told.reward))}")
            return
        obs = row_of(result[0], i)
        if ended and self._mode == "SameStep":
            last = entry_of(result[4], "final_obs", i)
            lost = apart(own(told.obs), own(last)) if last is not None else None
            if last is None:
                self.found.final = Unlike(step, i, "infos has no final_obs for it")
            elif lost is not None:
                self.found.final = Unlike(step, i, f"final_obs{lost.path} is {lost.other}, not {lost.one}")
            begun = expected.begin(i)
            again = apart(begun, obs)
            if again is not None and self.found.final is None:
                self.found.unlike = Unlike(step, i, f"the new episode starts with {again.other} instead of {again.one}")
            return
        unlike = apart(own(told.obs), obs)
        if unlike is not None:
            what = f"the observation{unlike.path} is {unlike.other} instead of {unlike.one}"
            if ended:
                self.found.final = Unlike(step, i, f"{what}, where the episode ended")
            else:
                self.found.unlike = Unlike(step, i, what)
        elif self._native and not ended:
            self._infos(told.info, result[4], step, i)

    def _infos(self, told: Any, infos: Any, step: int, i: int) -> None:
        """What both tell under one key, where it is a number, is the same number."""
        for key, value in told.items() if isinstance(told, dict) else ():
            other = entry_of(infos, key, i)
            if not all(isinstance(each, int | float | np.number | np.bool_) for each in (value, other)):
                continue
            if not np.isclose(float(value), float(other), rtol=1e-4, atol=1e-5, equal_nan=True):
                what = f"infos[{key!r}] is {brief(other)} instead of {brief(value)}"
                self.found.unlike = self.found.unlike or Unlike(step, i, what)

    def _again(self) -> None:
        """A second vector with the same seed and actions."""
        told: list[list[Any]] = []
        for _ in range(2):
            vector = self._made()
            world.pin_generators(PIN)
            choose, rows = vector_actions(vector, asks=self._asks), []
            obs, infos = self._call("reset", partial(vector.reset, seed=SEED))
            rows.append((own(obs),))
            for step in range(1, min(60, self._stage.plan.vector_steps) + 1):
                actions = choose(step, obs, infos)
                result = self._call("step", partial(vector.step, actions))
                obs, infos = result[0], result[4]
                rows.append(tuple(own(part) for part in result[:4]))
                if self._mode == "Disabled" and np.logical_or(result[2], result[3]).any():
                    break
            told.append(rows)
            vector.close()
        for step, (one, other) in enumerate(zip(*told, strict=False)):
            unlike = difference(one, other)
            if unlike is not None:
                self.found.repeats = Unlike(step, 0, str(unlike))
                return

    def _keep(self, kept: Kept, step: int, obs: Any) -> None:
        for _, (at, what) in kept.add(step, obs, None):
            self.found.aliased = self.found.aliased or Unlike(at, 0, what)

    def _obs_form(self, vector: VectorEnv[Any, Any, Any], obs: Any, step: int) -> None:
        for i in range(vector.num_envs):
            for fault in form_of(vector.single_observation_space)(row_of(obs, i)):
                what = f"{fault.found} instead of {fault.expected}{f' at {fault.key}' if fault.key else ''}"
                self.found.obs_faults.setdefault(fault.kind, Unlike(step, i, what))

    def _shapes(self, vector: VectorEnv[Any, Any, Any], result: Any, step: int) -> bool:
        if not isinstance(result, tuple) or len(result) != 5:
            self.found.form = f"step() returned {len(result) if isinstance(result, tuple) else 'one'} values"
            return False
        for name, value, kinds in (
            ("rewards", result[1], "fiu"),
            ("terminated", result[2], "b"),
            ("truncated", result[3], "b"),
        ):
            array = np.asarray(value)
            if array.shape != (vector.num_envs,) or array.dtype.kind not in kinds:
                self.found.form = f"{name} of step {step} has shape {array.shape} and dtype {array.dtype}"
                return False
        if not isinstance(result[4], dict):
            self.found.form = f"infos of step {step} is a {type(result[4]).__name__}"
            return False
        return True

    def _call(self, phase: str, function: Callable[[], Any]) -> Any:
        self._stage.beat(phase, self.found.compared, SEED)
        try:
            return function()
        except BaseException as error:
            raise Broken(fault_of(error, phase, self.found.compared)) from error
        finally:
            self._stage.beat("", self.found.compared, SEED)
