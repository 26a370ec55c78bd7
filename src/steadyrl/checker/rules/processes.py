"""Rules about manners towards the process, and about leaving it."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.facts import Facts
from steadyrl.checker.probe.process import Process
from steadyrl.checker.probe.starting import Starting
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.records import Died, crashed_in_graphics, evidence
from steadyrl.checker.rules.telling import of_split

_TIMES = 3  # what happens that often is no greeting
_SHARE = 0.1  # of the steps, for what is written to stderr


@rule(
    "SRL-PRC-001",
    "exits-process",
    "error",
    "survey",
    "the environment ends the process",
    "Raise an error that says what is wrong, or end the episode, instead of calling sys.exit().",
)
def exits(survey: Survey) -> Iterator[Found]:
    """sys.exit() in an environment ends the training."""
    for episode in survey.episodes:
        if episode.fault is not None and episode.fault.exits:
            fault = episode.fault
            yield Found(
                f"{fault.phase}() called sys.exit() at step {fault.step} of an episode with seed {episode.seed} "
                f"({fault.where}).",
                {"step": fault.step, "seed": episode.seed, "value": fault.error, "where": fault.where},
            )
            return


@rule(
    "SRL-PRC-002",
    "exits-process",
    "error",
    "facts",
    "making the environment ends the process",
    "Raise an error that says what is wrong instead of calling sys.exit().",
)
def exits_when_made(facts: Facts) -> Iterator[Found]:
    """sys.exit() in a constructor ends the training."""
    if facts.made is not None and facts.made.exits:
        yield Found(f"Making it called sys.exit() ({facts.made.where}).", {"value": facts.made.error})


@rule(
    "SRL-PRC-003",
    "exits-process",
    "error",
    "died",
    "the process of the environment ended",
    "Look for os._exit(), a crash in a library, or memory that ran out.",
)
def died(died: Died) -> Iterator[Found]:
    """The process ended by os._exit(), a signal or a crash."""
    if died.status is not None and not crashed_in_graphics(died):
        how = f"was ended by signal {-died.status}" if died.status < 0 else f"ended with exit status {died.status}"
        yield Found(f"The process {how} in {_place(died)}.", evidence(died))


@rule(
    "SRL-PRC-004",
    "hangs",
    "error",
    "died",
    "a call does not return",
    "Look for an endless loop, a lock, or a server that does not answer; --timeout allows more time.",
)
def hangs(died: Died) -> Iterator[Found]:
    """A call takes longer than is allowed."""
    if died.status is None:
        yield Found(f"The environment did not answer within {died.waited:.0f} s in {_place(died)}.", evidence(died))


@rule(
    "SRL-PRC-005",
    "forks",
    "error",
    "forks",
    "the environment leaves a copy of the process running in the caller's code",
    "End the child with os._exit(), or use subprocess.",
)
def forks(count: int) -> Iterator[Found]:
    """os.fork() whose child comes back from the call."""
    if count:
        yield Found(f"{count} copies of the process came back from a call of the environment.", {"value": count})


@rule(
    "SRL-PRC-006",
    "stdout-noise",
    "warning",
    "survey",
    "the environment prints while it is used",
    "Use the logging module, or render_mode='ansi'.",
)
def noise(survey: Survey) -> Iterator[Found]:
    """Printing costs more than most steps, and hides what others say."""
    out, err = survey.printed.get("stdout", 0), survey.printed.get("stderr", 0)
    if out >= _TIMES:
        yield Found(
            f"{out} of {survey.looked} calls wrote to stdout; it begins {survey.text[:60]!r}.",
            {"key": "stdout", "value": survey.text[:200], "count": out},
        )
    elif err >= max(_TIMES, _SHARE * survey.looked):
        yield Found(f"{err} of {survey.looked} calls wrote to stderr.", {"key": "stderr", "count": err})


@rule(
    "SRL-PRC-007",
    "not-picklable",
    "error",
    "process",
    "the environment cannot be sent to another process",
    "Keep no lambdas, open files, locks or windows as attributes, or make it an EzPickle.",
)
def not_picklable(process: Process) -> Iterator[Found]:
    """multiprocessing sends environments by pickle."""
    if process.pickle:
        yield Found(f"Pickling it {process.when} raised {process.pickle}.", {"value": process.pickle})
    elif process.unpickle:
        yield Found(f"Loading a pickled copy of it raised {process.unpickle}.", {"value": process.unpickle})


@rule(
    "SRL-PRC-008",
    "pickle-differs",
    "error",
    "process",
    "a pickled copy takes another course after reset",
    "Let reset(seed) set everything that pickling may lose.",
    unless=("not-picklable", "global-rng", "seed-ignored", "nondeterministic", "reset-leak", "instances-differ"),
)
def pickle_differs(process: Process) -> Iterator[Found]:
    """A copy that is reset with the same seed is the same environment."""
    yield from of_split(process.copy, "A pickled copy took another course with the same seed: {where}.")


@rule(
    "SRL-PRC-009",
    "close-fails",
    "error",
    "process",
    "close raises",
    "Let close() do nothing where there is nothing to close, and allow it twice.",
)
def close_fails(process: Process) -> Iterator[Found]:
    """An environment can be closed at any time, and again."""
    if process.close is not None and not process.close.exits:
        fault = process.close
        yield Found(f"Closing it {process.closing} raised {fault.error}.", {"value": fault.error, "where": fault.where})


@rule(
    "SRL-PRC-015",
    "process-altered",
    "warning",
    "process",
    "the environment alters what all code of its process shares",
    "Put it back before the call returns; np.errstate and np.printoptions do, and a folder of its own needs no chdir.",
)
def altered(process: Process) -> Iterator[Found]:
    """Working directory, NumPy's settings, signal handlers, sys.stdout and the like belong to the whole program."""
    for name, how in list(process.altered.items())[:1]:
        yield Found(f"Using it changed {name}: it was {how}.", {"key": name, "value": how})


@rule(
    "SRL-PRC-013",
    "exits-process",
    "error",
    "process",
    "closing the environment ends the process",
    "Let close() give back what the environment holds, and nothing else.",
)
def exits_when_closed(process: Process) -> Iterator[Found]:
    """sys.exit() in close() ends the training at its end, before anything is saved."""
    if process.close is not None and process.close.exits:
        yield Found(f"Closing it {process.closing} called sys.exit() ({process.close.where}).", {"phase": "close"})


@rule(
    "SRL-PRC-011",
    "thread-leak",
    "note",
    "process",
    "threads are left after close",
    "End them in close().",
)
def thread_leak(process: Process) -> Iterator[Found]:
    """What an environment starts, it ends."""
    if process.lasting:
        yield Found(
            f"{process.lasting} threads were left after closing some instances, and they are no daemons: the process "
            "cannot end while they run.",
            {"value": process.lasting},
            severity="error",
        )
    elif process.threads:
        yield Found(f"{process.threads} threads were left after closing some instances.", {"value": process.threads})


@rule(
    "SRL-PRC-012",
    "process-leak",
    "error",
    "process",
    "processes are left after close",
    "End and wait for them in close().",
)
def children_left(process: Process) -> Iterator[Found]:
    """A program that an environment starts does not outlive it."""
    if process.children:
        yield Found(
            f"{process.children} processes were left after closing some instances.", {"value": process.children}
        )


@rule(
    "SRL-PRC-014",
    "start-fails",
    "error",
    "starting",
    "the environment does not work in a process that was started for it",
    "Open connections, threads and files in __init__ of the instance, not when the module is imported.",
)
def start_fails(starting: Starting) -> Iterator[Found]:
    """Vectors of environments start processes by fork, spawn or forkserver."""
    for method, why in starting.fails.items():
        yield Found(f"In a process started by {method} it failed: {why}.", {"key": method, "value": why})


def _place(died: Died) -> str:
    seed = "" if died.seed is None else f" of an episode with seed {died.seed}"
    return (
        f"step {died.step}{seed}"
        if died.phase == "step"
        else f"{died.phase}(){seed}"
        if died.phase
        else f"the experiment '{died.experiment}'"
    )
