"""Rules about seeds, chance, and what one episode or instance leaves in another."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.again import Again
from steadyrl.checker.probe.repeat import Repeats
from steadyrl.checker.probe.starting import Starting
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.probe.together import Together
from steadyrl.checker.rules.telling import of_split

# What makes plays differ in ways that say nothing more.
_CAUSES = ("seed-ignored", "global-rng", "instances-differ", "instances-interfere", "reset-mid-episode")
_OWN = "Call super().reset(seed=seed) and draw from self.np_random alone."


@rule(
    "SRL-SEED-001",
    "seed-ignored",
    "error",
    "repeat",
    "reset(seed) does not determine the start",
    _OWN,
    unless=("global-rng",),
)
def seed_ignored(repeats: Repeats) -> Iterator[Found]:
    """Twice the same seed, two starts."""
    if repeats.cause == "seed":
        yield from of_split(repeats.split, "The same seed {seed} gave two different starts: {where}.")


@rule(
    "SRL-SEED-002",
    "seed-ignored",
    "error",
    "repeat",
    "the environment draws random numbers, and no seed changes them",
    _OWN,
)
def seed_without_effect(repeats: Repeats) -> Iterator[Found]:
    """A generator that is in the same state whatever the seed, and used."""
    if repeats.seeds_differ is False and repeats.spent:
        name = repeats.spent[0]
        yield Found(
            f"Three seeds gave the same episode, and {name}, which is drawn from, was in the same state each time.",
            {"key": name},
        )


@rule(
    "SRL-SEED-003",
    "global-rng",
    "error",
    "repeat",
    "the environment draws from a process-wide generator",
    "Draw from self.np_random instead: other code draws from the same generator, and seeds it.",
)
def global_rng(repeats: Repeats) -> Iterator[Found]:
    """numpy.random, random or torch go on, or another state of theirs gives another course."""
    drawn = {(name, phase) for name, phase in repeats.draws if name not in repeats.clobbers}
    if drawn:
        name = min(drawn)[0]
        phases = sorted(phase for other, phase in drawn if other == name)
        yield Found(f"{' and '.join(phases)} moved the generator of {name}.", {"key": name, "phases": phases})
    else:
        sentence = "Another state of the process's generators gave another course with the same seed: {where}."
        yield from of_split(repeats.depends, sentence)


@rule(
    "SRL-SEED-013",
    "global-rng",
    "error",
    "survey",
    "a step draws from a process-wide generator",
    "Draw from self.np_random instead: other code draws from the same generator, and seeds it.",
)
def global_rng_in_steps(survey: Survey) -> Iterator[Found]:
    """Some step, in any of many episodes, moves numpy.random, random or torch."""
    for (name, phase), place in survey.draws.items():
        if phase == "step":
            yield Found(f"The generator of {name} was moved {place}.", place.evidence | {"key": name})
            return


@rule(
    "SRL-SEED-004",
    "rng-clobbered",
    "error",
    "repeat",
    "reset(seed) seeds a process-wide generator",
    "Leave the process's generators alone: everything else that draws from them would repeat itself.",
    unless=("global-rng",),
)
def rng_clobbered(repeats: Repeats) -> Iterator[Found]:
    """Seeding numpy.random disturbs whoever else uses it."""
    for name in repeats.clobbers:
        yield Found(f"reset(seed) set the state of {name}, from which the environment does not draw.", {"key": name})


@rule(
    "SRL-SEED-005",
    "nondeterministic",
    "error",
    "repeat",
    "same seed and actions, another course",
    f"{_OWN} Look for clocks, sets and unseeded generators.",
    unless=("seed-ignored", "global-rng"),
)
def nondeterministic(repeats: Repeats) -> Iterator[Found]:
    """From some step on the course is another one."""
    if repeats.cause == "chance" and repeats.split is not None:
        yield Found(
            f"The same seed {repeats.split.seed} and the same actions gave another course: {repeats.split}.",
            repeats.split.evidence,
            severity="warning" if repeats.declared else "",
        )


@rule(
    "SRL-SEED-006",
    "instances-differ",
    "error",
    "repeat",
    "two instances with the same seed differ",
    "Let nothing but arguments and seed decide what an instance is: no counters on the class, no draws in __init__.",
    unless=("global-rng", "seed-ignored"),
)
def instances_differ(repeats: Repeats) -> Iterator[Found]:
    """Each instance repeats itself, but not another."""
    if repeats.cause == "instance":
        yield from of_split(repeats.split, "Two instances with the same seed {seed} differ: {where}.")


@rule(
    "SRL-SEED-007",
    "reset-leak",
    "error",
    "repeat",
    "state of an earlier episode survives reset",
    "Set everything that an episode changes in reset().",
)
def reset_leak(repeats: Repeats) -> Iterator[Found]:
    """What came before shows."""
    if repeats.cause == "history":
        yield from of_split(repeats.split, "After earlier episodes the same seed {seed} gave another course: {where}.")
    elif repeats.cause is None:
        yield from of_split(
            repeats.leak,
            "After 25 steps, reset() without a seed began otherwise than without them, with the generator in the same "
            "state: {where}.",
        )


@rule(
    "SRL-SEED-008",
    "instances-interfere",
    "error",
    "together",
    "stepping one instance changes another",
    "Keep the state on the instance (self), not on the class or module.",
    unless=("global-rng",),
)
def instances_interfere(together: Together) -> Iterator[Found]:
    """An instance has a course of its own."""
    if together.same:
        yield Found("Making it twice gave one instance.", remedy="Make a new environment at each call.")
    else:
        yield from of_split(together.split, "An instance took another course while another one was stepped: {where}.")


@rule(
    "SRL-SEED-009",
    "instances-differ",
    "error",
    "together",
    "two instances have different spaces",
    "Let the arguments decide the spaces.",
)
def spaces_differ(together: Together) -> Iterator[Found]:
    """Instances that are to be stepped together have the same spaces."""
    if together.spaces:
        yield Found(f"Two instances have different spaces: {together.spaces}.", {"value": together.spaces})


@rule(
    "SRL-SEED-010",
    "obs-aliased",
    "error",
    "together",
    "an observation changes when another instance makes a step",
    "Keep buffers on the instance, and return copies.",
)
def shared_buffer(together: Together) -> Iterator[Found]:
    """What one instance returned, another must not write into."""
    if together.kept:
        yield Found(f"A buffer is shared between instances: {together.kept}.", {"value": together.kept})


@rule(
    "SRL-SEED-011",
    "nondeterministic",
    "error",
    "starting",
    "same seed and actions, another course in a process that was started for it",
    "Look for hash(), id(), sets of strings, the process id, the clock, and counters on classes.",
    unless=(*_CAUSES, "reset-leak"),
)
def process_differs(starting: Starting) -> Iterator[Found]:
    """A process started by fork, spawn or forkserver repeats the course, whatever its hash seed."""
    for method, where in list(starting.differs.items())[:1]:
        sentence = f"In a process started by {method} the same seed {{seed}} gave another course: {{where}}."
        yield from of_split(where, sentence, key=method)


@rule(
    "SRL-SEED-012",
    "episodes-repeat",
    "note",
    "repeat",
    "every reset without a seed starts alike",
    "Leave the generator alone where reset() has no seed, so that episodes of a training differ.",
)
def episodes_repeat(repeats: Repeats) -> Iterator[Found]:
    """Seeds make a difference to the start, but unseeded resets all start alike."""
    if repeats.reseeds:
        yield Found("Four resets without a seed started alike, while seeds give different starts.")


@rule(
    "SRL-SEED-014",
    "reset-leak",
    "error",
    "again",
    "an episode after many others is not that of a fresh instance",
    "Set everything that an episode changes in reset(), counters of episodes and steps included.",
    unless=(*_CAUSES, "nondeterministic"),
)
def late_leak(again: Again) -> Iterator[Found]:
    """The same seed and actions after a long life, and in two instances that have none."""
    sentence = (
        f"After {again.before} episodes the seed {{seed}} with the same actions gave another course than in fresh "
        "instances: {where}."
    )
    yield from of_split(again.leak, sentence, episodes=again.before)


@rule(
    "SRL-SEED-015",
    "nondeterministic",
    "error",
    "again",
    "same seed and actions, another course later",
    "Look for the clock, for unseeded generators, and for what other processes change.",
    unless=(*_CAUSES, "reset-leak"),
)
def differs_later(again: Again) -> Iterator[Found]:
    """Episodes by other policies, and the first one some seconds later with Python's clock set ahead."""
    when = "" if again.chance is not None else " some seconds later, with the clock set ahead"
    sentence = f"The same seed {{seed}} and actions gave another course{when}: {{where}}."
    yield from of_split(again.chance or again.later, sentence)
