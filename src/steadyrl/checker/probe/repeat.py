"""The same seed again: in one instance, in two, after other episodes, beside another instance, with other seeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe import world
from steadyrl.checker.probe.driver import Broken, Driver, Fault
from steadyrl.checker.probe.generators import generator_state, is_drawn_from, own_generators, set_generator
from steadyrl.checker.probe.play import PIN, Play, Row, Split, over, play, row_of, split
from steadyrl.checker.probe.policies import Maker, act, at_random
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import difference, own

Cause = Literal["seed", "chance", "history", "early-reset", "instance"]


@dataclass
class Repeats:
    """What repeats and what does not.

    Attributes:
        cause: Why a play did not repeat: the start ignores the seed (`seed`), something is left to chance (`chance`),
            an earlier episode shows (`history`), only one that was broken off does (`early-reset`), each instance has a
            course of its own (`instance`); None where all repeat.
        split: Where the two went apart.
        depends: Where plays under other states of the process's generators went apart.
        draws: (generator, phase) of constructors, resets and steps that moved one of these.
        clobbers: Generators that only a seeded reset moved, always to the same state.
        early: What a reset in the middle of an episode raised.
        seeds_differ: Whether other seeds give other courses; None where that was not seen.
        spent: Generators of the environment itself that were used, and in the same state whatever the seed.
        reseeds: Whether every unseeded reset gave the same start, while seeds give others.
        leak: Where an unseeded reset after an episode differed from one without, generators being equal.
        play: The first play, for other processes to repeat.
        declared: The specification says that the environment is not deterministic.
    """

    cause: Cause | None = None
    split: Split | None = None
    depends: Split | None = None
    draws: dict[tuple[str, str], int] = field(default_factory=dict)
    clobbers: list[str] = field(default_factory=list)
    early: Fault | None = None
    seeds_differ: bool | None = None
    spent: list[str] = field(default_factory=list)
    reseeds: bool = False
    leak: Split | None = None
    play: Play | None = None
    declared: bool = False


class Repeater:
    """Makes the plays and compares them.

    Args:
        stage: What environments are made with, and the budgets.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._policy: Maker
        self.found = Repeats()

    def run(self) -> Repeats:
        """All comparisons; ends early where the environment raises."""
        try:
            first = self._stage.drive()
            self._policy = at_random(first.env.action_space)
            for seed in _seeds(self._stage.plan.seeds):
                a = first if seed == SEED else self._stage.drive()
                self._seed(seed, a)
                a.close()
                if self.found.cause:
                    break
            self._generators()
            if self.found.cause is None:
                self._other_seeds()
                self._leftovers()
        except Broken:  # what it raised is found elsewhere
            return self.found
        return self.found

    def _play(self, driver: Driver, seed: int, **options: Any) -> Play:
        plan = self._stage.plan
        return play(driver, self._policy, seed, plan.play_steps, cpu_s=plan.play_s, **options)

    def _seed(self, seed: int, a: Driver) -> None:
        """Two fresh instances, each twice; then one after an episode that was broken off."""
        b = self._stage.drive()
        a1, b1 = self._play(a, seed), self._play(b, seed)
        self.found.play = self.found.play or a1
        a2, b2 = self._again(a, seed), self._again(b, seed)
        b.close()
        if a2 is None or b2 is None:
            return
        fresh, used = split(a1, b1), split(a1, a2)
        if fresh is None:
            if used is not None:
                self._set("history" if split(a2, b2) is None else "chance", used)
                if self.found.cause == "history" and self._only_early(seed, a1):
                    self.found.cause = "early-reset"
                elif self.found.cause == "history" and self._keeps_drawing(seed):
                    self.found.cause = "seed"
            else:
                self._after_few_steps(seed, a1)
            return
        if used is None:
            self._set("instance", fresh)
        elif fresh.row == 0:
            self._set("seed", fresh)
        else:
            self._set("chance", fresh)

    def _set(self, cause: Cause, where: Split) -> None:
        self.found.cause, self.found.split = cause, where

    def _again(self, driver: Driver, seed: int) -> Play | None:
        """Once more with the same seed; None where a reset in the middle of an episode is refused."""
        result = self._play(driver, seed)
        if len(result.rows) == 1 and isinstance(result.rows[0].told, str):
            self._refused(driver)
            return None
        return result

    def _refused(self, driver: Driver) -> None:
        try:
            driver.reset()
        except Broken as broken:
            self.found.early = self.found.early or broken.fault

    def _few(self, seed: int, steps: int) -> Play:
        """A play of a fresh instance after so many steps of another episode."""
        driver = self._stage.drive()
        try:
            play(driver, self._policy, seed + 50, steps, cpu_s=1.0)
            again = self._again(driver, seed)
            return again or Play(seed)
        finally:
            driver.close()

    def _after_few_steps(self, seed: int, a1: Play) -> None:
        where = split(a1, self._few(seed, 3))
        if where is not None:
            self._set("early-reset", where)

    def _keeps_drawing(self, seed: int) -> bool:
        """Whether the state of the environment's generators before a reset shows after it, in spite of the seed."""
        told = []
        for moved in (False, True):
            driver = self._stage.drive()
            driver.reset(seed=seed)
            for generator in own_generators(driver).values() if moved else ():
                set_generator(generator, seed + 1)
            start = own(driver.reset(seed=seed)[0])
            told.append((start, {name: generator_state(value) for name, value in own_generators(driver).items()}))
            driver.close()
        return difference(told[0], told[1]) is not None

    def _only_early(self, seed: int, a1: Play) -> bool:
        """Whether the course repeats after an episode that was played to its end."""
        driver = self._stage.drive()
        try:
            driver.reset(seed=seed + 50)
            acting = self._policy(seed)
            for _ in range(2_000):
                if over(driver.step(act(acting, driver))):
                    return split(a1, self._play(driver, seed)) is None
        except Broken:
            return False
        finally:
            driver.close()
        return False

    def _generators(self) -> None:
        """Plays under other states of the process's generators, and the calls that move these."""
        self._draws(SEED)
        if self.found.cause is not None:
            return
        plays = []
        for pin in (PIN, PIN + 1):
            driver = self._stage.drive()
            plays.append(self._play(driver, SEED, pin=pin))
            driver.close()
        self.found.depends = split(*plays)

    def _draws(self, seed: int) -> None:
        """Which of making, resetting and stepping moves which generator."""
        draws, resets = self.found.draws, []
        self._stage.drive().close()  # what is imported or cached with the first instance is not its own doing
        before = world.generators()
        driver = self._stage.drive()
        self._moved("the constructor", before)
        try:
            for state in (1, 2):
                world.pin_generators(state)
                before = world.generators()
                driver.reset(seed=seed)
                self._moved("reset(seed)", before)
                resets.append(world.generators())
            acting = self._policy(seed)
            for _ in range(min(60, self._stage.plan.play_steps)):
                action = act(acting, driver)
                before = world.generators()
                step = driver.step(action)
                self._moved("step", before)
                if over(step):
                    before = world.generators()
                    driver.reset()
                    self._moved("reset()", before)
            before = world.generators()
            driver.reset()
            self._moved("reset()", before)
        except Broken:
            pass
        driver.close()
        names = {name for name, _ in draws}
        for name in names:
            phases = {phase for other, phase in draws if other == name}
            if phases == {"reset(seed)"} and len(resets) == 2 and resets[0].get(name) == resets[1].get(name):
                self.found.clobbers.append(name)

    def _moved(self, phase: str, before: dict[str, Any]) -> None:
        for name in world.changed(before, world.generators()):
            self.found.draws[name, phase] = self.found.draws.get((name, phase), 0) + 1

    def _leftovers(self) -> None:
        """An unseeded reset after some steps and one without, the environment's generators being in the same state.

        Nothing is concluded where seeds matter, but no generator that can be found is drawn from: what draws is hidden.
        """
        seed, drivers = SEED + 7, [self._stage.drive() for _ in range(3)]
        plays, drawn = [], False
        for driver, steps in zip(drivers, (0, 0, 25), strict=True):
            play(driver, self._policy, seed, steps, cpu_s=1.0)
            generators = own_generators(driver)
            if not all(set_generator(generator, seed) for generator in generators.values()):
                return
            before = {name: generator_state(generator) for name, generator in generators.items()}
            plays.append(_unseeded(driver, self._policy, seed))
            drawn = drawn or any(before.get(name) != generator_state(g) for name, g in own_generators(driver).items())
        if split(plays[0], plays[1]) is None and (drawn or not self.found.seeds_differ):
            self.found.leak = split(plays[0], plays[2])
        for driver in drivers:
            driver.close()

    def _other_seeds(self) -> None:
        """Whether seeds lead to other courses, and whether unseeded resets do."""
        driver, seeds = self._stage.drive(), (SEED + 11, SEED + 12, SEED + 13)
        plays, states = [], []
        acting = self._policy(SEED)
        for seed in seeds:
            acting = self._policy(SEED)  # the actions do not follow the seed
            plays.append(play(driver, acting, seed, min(60, self._stage.plan.play_steps), made=True, cpu_s=0.5))
            driver.reset(seed=seed)
            states.append({name: generator_state(value) for name, value in own_generators(driver).items()})
        self.found.seeds_differ = any(split(plays[0], other) is not None for other in plays[1:])
        if self.found.seeds_differ:
            self.found.reseeds = _repeats_itself(driver)
        else:
            fixed = [name for name, state in states[0].items() if all(other.get(name) == state for other in states)]
            self.found.spent = [name for name in fixed if is_drawn_from(driver, name)]
        driver.close()


def _seeds(count: int) -> list[int]:
    """The last of several is 0, which `if seed:` takes to be none."""
    seeds = [SEED + 100 * number for number in range(count)]
    return [*seeds[:-1], 0] if count > 1 else seeds


def _repeats_itself(driver: Driver) -> bool:
    """Whether unseeded resets start alike, while seeds make a difference to the start."""
    driver.reset(seed=SEED + 11)
    starts = [own(driver.reset()[0]) for _ in range(4)]
    seeded = [own(driver.reset(seed=SEED + 20 + i)[0]) for i in range(4)]
    fixed = all(difference(starts[0], start) is None for start in starts)
    return fixed and any(difference(seeded[0], start) is not None for start in seeded)


def _unseeded(driver: Driver, policy: Maker, seed: int) -> Play:
    """An episode after a reset without a seed."""
    world.pin_generators(PIN)
    result, acting = Play(seed), policy(seed)
    obs, _ = driver.reset()
    result.rows.append(Row("reset()", 0, (own(obs),)))
    for _ in range(30):
        step = driver.step(act(acting, driver))
        result.rows.append(row_of(driver, step))
        if over(step):
            break
    return result
