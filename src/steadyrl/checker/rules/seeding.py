"""Rules about seeds, chance, and what one episode or instance leaves in another."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.repeat import Repeats
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.probe.together import Together
from steadyrl.checker.records import Processes

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
    if repeats.cause == "seed" and repeats.split is not None:
        yield Found(
            f"The same seed {repeats.split.seed} gave two different starts: {repeats.split}.", repeats.split.evidence
        )


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
    elif repeats.depends is not None:
        yield Found(
            f"Another state of the process's generators gave another course with the same seed: {repeats.depends}.",
            repeats.depends.evidence,
        )


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
    if repeats.cause == "instance" and repeats.split is not None:
        yield Found(
            f"Two instances with the same seed {repeats.split.seed} differ: {repeats.split}.", repeats.split.evidence
        )


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
    if repeats.cause == "history" and repeats.split is not None:
        yield Found(
            f"After earlier episodes the same seed {repeats.split.seed} gave another course: {repeats.split}.",
            repeats.split.evidence,
        )
    elif repeats.cause is None and repeats.leak is not None:
        yield Found(
            "After 25 steps, reset() without a seed began otherwise than without them, with the generator in the same "
            f"state: {repeats.leak}.",
            repeats.leak.evidence,
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
    elif together.split is not None:
        yield Found(
            f"An instance took another course while another one was stepped: {together.split}.", together.split.evidence
        )


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
    "processes",
    "same seed and actions, another course in a fresh process",
    "Look for hash(), id(), sets of strings, the process id and the clock.",
    unless=("seed-ignored", "global-rng", "instances-differ", "reset-leak", "reset-mid-episode"),
)
def process_differs(processes: Processes) -> Iterator[Found]:
    """A new process, with another hash seed, repeats the course."""
    if processes.split is not None:
        yield Found(
            f"In a fresh process the same seed {processes.split.seed} gave another course: {processes.split}.",
            processes.split.evidence,
        )


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
