"""Many episodes by many policies, looked through step by step."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe import world
from steadyrl.checker.probe.again import KEPT, Log
from steadyrl.checker.probe.driver import Broken, Driver
from steadyrl.checker.probe.features import Features, Pictures
from steadyrl.checker.probe.forms import form_of
from steadyrl.checker.probe.kept import Kept
from steadyrl.checker.probe.masks import MaskWatch
from steadyrl.checker.probe.policies import Policy, always, at_random, corners, looking, sticky
from steadyrl.checker.probe.readings import marked, number_of, truth_of
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.survey import Episode, Place, Seen, Survey, kind_of
from steadyrl.checker.probe.values import brief, difference, own, unchanged

_CLOSE_LOOK = 800  # steps in which costly things (generators, output) are looked at one by one
_RANDOM_STEPS = 1_000  # at random, before anything else
_RANDOM_SHARE = 0.72  # of all, where there are few
_MOST_RANDOM = 200  # episodes for them
_ROWS = 12_000  # rows of features that are kept
_RESCALE = 500  # more rows before scales are looked at again
_LOOK_AGAIN = 64  # steps between two looks at memory and open files
_MUCH_MEMORY = 400 * 2**20  # an environment that takes this much more has told enough
_MANY_FILES = 1_000
_MOST_FAULTS = 40


class Surveyor:
    """Plays the episodes of a survey.

    Args:
        stage: What environments are made with, and the budgets.
        driver: The instance.
    """

    def __init__(self, stage: Stage, driver: Driver) -> None:
        self._stage, self.driver = stage, driver
        self._form = form_of(driver.env.observation_space)
        self._space = driver.env.action_space
        names = ("observation_space", "action_space")
        self._masks = MaskWatch(self._space, self._note)
        self._choices = isinstance(self._space, spaces.Discrete)
        self._declared = {name: copy.deepcopy(getattr(driver.env, name)) for name in names}
        self._features = Features(driver.env.observation_space)
        self._pictures = Pictures(driver.env.observation_space)
        self._rows: list[Any] = []
        self._where: list[tuple[int, int]] = []
        self._scale: tuple[Any, Any] = (None, None)
        self._scaled = 0  # rows of features at the last look
        self._started = time.process_time()
        self._waited = 0.0
        self._memory, self._files = world.memory(), world.open_files()
        self._known: dict[str, Any] | None = None
        self._seeds = self._taken = self._faults = self._next_look = 0
        self._last: tuple[Episode, Kept] | None = None
        self.logs: deque[Log] = deque(maxlen=KEPT)
        features = self._features
        self.survey = Survey(names=features.names, continuous=features.continuous, parts=features.parts)

    def run(self) -> Survey:
        """Play until the budget is spent."""
        plan = self._stage.plan
        share = plan.survey_steps // 4 if not plan.alone else plan.survey_steps
        for name, policy in self._policies():
            if self._spent():
                break
            cap = share if name == "random" else max(64, plan.survey_steps // 8)
            self._episode(name, policy, cap)
        if self._rows:
            self.survey.rows = np.stack(self._rows)
            self.survey.row_episodes, self.survey.row_steps = np.array(self._where).T
        self.survey.still = self._pictures.still
        self.survey.arity |= self.driver.arity
        return self.survey

    def _policies(self) -> Iterator[tuple[str, Policy]]:
        """Random first, then the others in turn, for as long as there is budget."""
        seed = self._seed()
        if self._stage.plan.alone:
            while True:
                yield "random", at_random(self._space)(self._seed())
        for _ in range(_MOST_RANDOM):
            if self._taken >= min(_RANDOM_STEPS, _RANDOM_SHARE * self._stage.plan.survey_steps):
                break
            yield "random", at_random(self._space)(self._seed())
        extremes = [(name, always(self._space, action)) for name, action in corners(self._space)]
        for name, maker in extremes[:16]:
            yield name, maker(seed)
        while True:
            yield "random", at_random(self._space)(self._seed())
            yield "sticky", sticky(self._space)(self._seed())
            mean, spread = self._scales()
            for _ in range(2):
                linear = None if mean is None else looking(self._space, self._features, mean, spread)
                if linear is not None:
                    yield "linear", linear(self._seed())

    def _scales(self) -> tuple[Any, Any]:
        """Mean and deviation of each feature, as of some steps ago; None twice where nothing is known."""
        if len(self._rows) >= self._scaled + _RESCALE or (self._rows and not self._scaled):
            rows = np.stack(self._rows[-2_000:])
            rows = rows[np.isfinite(rows).all(1)]
            self._scaled = len(self._rows)
            if len(rows):
                spread = rows.std(0)
                self._scale = rows.mean(0), np.where(spread > 0, spread, 1.0)
        return self._scale

    def _seed(self) -> int:
        self._seeds += 1
        return SEED + self._seeds

    def _spent(self) -> bool:
        plan, survey = self._stage.plan, self.survey
        cpu, waited = time.process_time() - self._started, self._waited + self.driver.spent
        over = cpu > plan.survey_s or waited > 3 * plan.survey_s
        return over or bool(survey.exhausted) or self._taken >= plan.survey_steps or self._faults > _MOST_FAULTS

    def _episode(self, name: str, policy: Policy, cap: int) -> None:
        driver, survey = self.driver, self.survey
        last = survey.episodes[-1] if survey.episodes else None
        early = last is not None and not last.complete and last.fault is None
        episode = Episode(name, self._seed(), early=early)
        survey.episodes.append(episode)
        kept = Kept()
        try:
            log = self._begin(episode, kept)
            while episode.length < cap and not self._spent():
                self._turn(episode, policy, kept, log)
                if episode.terminated or episode.truncated:
                    episode.complete = True
                    info = driver.info
                    episode.told_cut = isinstance(info, dict) and info.get("TimeLimit.truncated") is True
                    break
            self._spaces(driver)
            self._since(Place(name, episode.seed, episode.length))
            self._changed(episode, kept)
            self._last = episode, kept
        except Broken as broken:
            self._last = None
            self._faults += 1
            episode.fault = broken.fault
            episode.length = min(episode.length, broken.fault.step)
            if not self._stage.plan.alone and not self._spent():
                driver.close()
                survey.arity |= driver.arity
                self._waited += driver.spent
                self.driver = self._stage.drive()

    def _begin(self, episode: Episode, kept: Kept) -> Log:
        driver, survey = self.driver, self.survey
        number = len(survey.episodes) - 1
        before = self._before()
        obs, info = driver.reset(seed=None if self._stage.plan.alone and number else episode.seed)
        survey.reset_times.append(driver.took)
        self._known = world.generators() if before is None and self._taken >= self._next_look else None
        if self._last is not None:
            self._changed(*self._last)
        log = Log(episode.seed, number)
        log.begin(obs)
        self.logs.append(log)
        self._look(Place(episode.policy, episode.seed, 0), obs, info, kept, before)
        return log

    def _before(self) -> Any:
        """The states of the process's generators where they are looked at closely."""
        return world.generators() if self._taken < _CLOSE_LOOK else None

    def _turn(self, episode: Episode, policy: Policy, kept: Kept, log: Log) -> None:
        """One step, looked at from all sides."""
        driver, survey = self.driver, self.survey
        action = policy(driver.obs, self._masks.asked(driver, Place(episode.policy, episode.seed, episode.length)))
        given, before = own(action), self._before()
        episode.length += 1
        self._taken += 1
        if self._choices:
            episode.last = brief(given)
        step = driver.step(action)
        survey.times.append(driver.took)
        survey.idle.append(driver.idle)
        survey.time_steps.append(episode.length)
        place = Place(episode.policy, episode.seed, episode.length)
        if not unchanged(given, action) and difference(given, own(action)) is not None:
            self._note("action-mutated", place, f"{brief(given)} had become {brief(action)}")
        log.add(driver, given, step)
        episode.course = hash((episode.course, marked(given)))
        self._step(place, step, episode)
        if episode.truncated and not episode.terminated:
            self._masks.cut(driver, place)
        self._look(place, step.obs, step.info, kept, before)

    def _changed(self, episode: Episode, kept: Kept) -> None:
        """What was returned in an episode and is not as it was, at its end or after the next reset."""
        for part, (step, what) in kept.changed():
            self.survey.kept.setdefault(part, Seen(Place(episode.policy, episode.seed, step), what))

    def _spaces(self, driver: Driver) -> None:
        number = len(self.survey.episodes)
        if number > _LOOK_AGAIN and number % 8:
            return
        for name, before in self._declared.items():
            now = getattr(driver.env, name)
            if not self.survey.mutated and now != before:
                self.survey.mutated = f"{name} was {before} and is {now}"

    def _look(self, place: Place, obs: Any, info: Any, kept: Kept, before: Any) -> None:
        survey = self.survey
        for fault in self._form(obs):
            key = (fault.kind, fault.key)
            if key in survey.forms:
                survey.forms[key].count += 1
            elif len(survey.forms) < 20:
                survey.forms[key] = Seen(place, fault)
        for part, told in kept.add(place.step, obs, info):
            survey.kept.setdefault(part, Seen(Place(place.policy, place.seed, told[0]), told[1]))
        self._info(place, info)
        self._pictures.look(obs)
        if len(self._rows) < _ROWS:
            row = self._features.row(obs) if self._features.names else None
            if row is not None:
                self._rows.append(row)
                self._where.append((len(survey.episodes) - 1, place.step))
        if before is not None:
            self._closely(place, before)
        if self._taken % _LOOK_AGAIN == 0:
            if world.memory() - self._memory > _MUCH_MEMORY:
                survey.exhausted = "memory"
            elif world.open_files() - self._files > _MANY_FILES:
                survey.exhausted = "files"

    def _since(self, place: Place) -> None:
        """At the end of some episodes whose steps were not looked at closely: generators, and what was printed."""
        if self._known is not None:
            for name in world.changed(self._known, world.generators()):
                self.survey.draws.setdefault((name, "step"), place)
            self._printed()
            self._next_look = self._taken + _LOOK_AGAIN

    def _closely(self, place: Place, before: Any) -> None:
        phase = "step" if place.step else "reset(seed)"
        for name in world.changed(before, world.generators()):
            self.survey.draws.setdefault((name, phase), place)
        self.survey.looked += 1
        self._printed()

    def _printed(self) -> None:
        world.flush()
        for name, output in (("stdout", self._stage.stdout), ("stderr", self._stage.stderr)):
            count = output.count
            if count > self._stage.heard.get(name, 0):
                self.survey.printed[name] = self.survey.printed.get(name, 0) + 1
            self._stage.heard[name] = count
        self.survey.text = self._stage.stdout.head.decode(errors="replace")

    def _step(self, place: Place, step: Any, episode: Episode) -> None:
        number = number_of(step.reward)
        if number is None:
            self._note("reward-type", place, f"{brief(step.reward)} ({type(step.reward).__name__})")
        elif not np.isfinite(number):
            self._note("reward-not-finite", place, brief(step.reward))
        else:
            self.survey.rewards.append(number)
            episode.total += number
        for key in ("terminated", "truncated"):
            flag = getattr(step, key)
            if not isinstance(flag, bool | np.bool_):
                self._note("flag-type", place, f"`{key}` is {brief(flag)} ({type(flag).__name__})")
            setattr(episode, key, truth_of(flag))
        inner = self.driver.tap.flags
        episode.own = (truth_of(inner[0]), truth_of(inner[1]))

    def _info(self, place: Place, info: Any) -> None:
        if not isinstance(info, dict):
            self._note("info-type", place, f"a {type(info).__name__}")
            return
        for key, value in info.items():
            self.survey.info_types.setdefault(f"[{key!r}]", {}).setdefault(kind_of(value), place)
            if isinstance(value, dict):
                for name, part in value.items():
                    self.survey.info_types.setdefault(f"[{key!r}][{name!r}]", {}).setdefault(kind_of(part), place)

    def _note(self, name: str, place: Place, what: str) -> None:
        if name in self.survey.values:
            self.survey.values[name].count += 1
        else:
            self.survey.values[name] = Seen(place, what)
