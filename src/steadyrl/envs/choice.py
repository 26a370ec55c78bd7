"""What `vec='auto'` takes: the faster of the backends that give the same results (sync, async), found by timing them.

A timer decides about speed alone, never about results: whichever is taken, the trajectories are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

from steadyrl.envs.adapter import VectorAdapter
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.timing import SEED, Cost, Timed, cost_of, in_turns, is_gymnasiums, undisturbed
from steadyrl.envs.vector import make_vec
from steadyrl.envs.workers.cost import LOST, cost_elsewhere
from steadyrl.errors import SteadyRLError

PROCESS_BYTES = 60 * 2**20  # Python, NumPy and Gymnasium in a process of its own
_DEAR_S = 0.5  # an environment that takes longer to make is not made again only to be timed
_ALL_DEAR_S = 2.0  # the same for all environments of one process together
_TRIP_S = 100e-6  # the least that a step in other processes costs: to them, and back
_EACH_S = 5e-6  # the least that handing one environment's row over costs there
_WORTH = 1.1  # how many times faster processes must be to be taken: they cost memory and start-up
_HOPE = 1.2  # times faster by calculation, which is rather too good for processes: less is not worth timing
_CLEAR = 3.0  # times faster by calculation: timing would not change the choice
_SLOW_S = 0.2  # a step of all environments that takes longer is not timed for long
_MANY = 64  # processes, at most, of environments that wait
_ROUNDS = 3


@dataclass(frozen=True)
class Choice:
    """A backend and why.

    Attributes:
        vec: sync or async.
        reason: Half a sentence.
        num_workers: Processes of async; None with sync.
        rates: Environment steps per second that were measured, by backend.
    """

    vec: Literal["sync", "async"]
    reason: str
    num_workers: int | None = None
    rates: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What the run folder keeps of how it came about."""
        rates = {name: round(rate, 1) for name, rate in self.rates.items()}
        return {"asked": "auto", "reason": self.reason, "steps_per_second": rates}

    @classmethod
    def of_json(cls, document: Mapping[str, Any], vec: Any, num_workers: int | None) -> Choice | None:
        """The choice that a run folder tells of, with the backend that it came to; None where the user had said it."""
        if document.get("asked") != "auto":
            return None
        told = document.get("steps_per_second")
        rates = {name: rate for name, rate in told.items() if type(rate) is float} if isinstance(told, dict) else {}
        return cls(vec, str(document.get("reason", "")), num_workers, rates)


def choose(
    factory: EnvFactory,
    num_envs: int,
    *,
    cores: int,
    free_bytes: int,
    seconds: float = 1.0,
    timeout: float | None = None,
) -> Choice:
    """The faster of sync and async for this environment, in about `seconds` at most, or some hundredths where it is
    clear.

    It makes environments of its own and closes them again.

    Args:
        factory: Makes the environments.
        num_envs: N.
        cores: That this process may use.
        free_bytes: Memory that other processes may take.
        seconds: For timing.
        timeout: Seconds that the environment may take for a step before it counts as hanging. The first steps of code
            that does not come with Gymnasium are then taken in another process. None takes them here.

    Raises:
        RunFailedError: the environment hangs, or ends its process.
    """
    if num_envs == 1 or factory.is_instance:
        return Choice("sync", "there is one environment")
    if factory.holds_state:
        return Choice("sync", "what makes the environments holds state of its own, which processes would not share")
    try:
        cost = cost_of(factory) if timeout is None or is_gymnasiums(factory) else cost_elsewhere(factory, timeout)
        clear = clearly(cost, num_envs, cores)
        if clear is not None:
            return clear
        return _timed(factory, num_envs, cost, cores, free_bytes, seconds)
    except SteadyRLError as error:
        if error.code in (*LOST, "mask-held"):
            raise
        return Choice("sync", f"it could not be timed in other processes ({error.message.rstrip('.')})")


def clearly(cost: Cost, num_envs: int, cores: int) -> Choice | None:
    """The choice where no timing is needed."""
    total = cost.step_s * num_envs
    if cost.draws:
        return Choice("sync", "the environment draws from the process's own generators, which processes do not share")
    if cost.make_s > _DEAR_S:
        return Choice("sync", f"making one environment takes {cost.make_s:.1f} s, too long to make more for timing")
    if cost.make_s * num_envs / min(num_envs, cores) > _ALL_DEAR_S:
        return Choice("sync", f"making {num_envs} environments again to time them would take too long")
    if total < _HOPE * in_processes(cost, num_envs, cores):
        what = f"a step of {num_envs} environments takes {_ms(total)}"
        return Choice("sync", f"{what}, and {cores} core{'s' * (cores > 1)} in other processes could not beat that")
    return None


def in_processes(cost: Cost, num_envs: int, cores: int) -> float:
    """Seconds that a step of all environments takes at least in other processes: calculated, and rather too good."""
    each = cost.step_s + _EACH_S
    return max(each, num_envs * (cost.step_s * cost.busy + _EACH_S) / cores) + _TRIP_S


def workers_to_try(cost: Cost, num_envs: int, cores: int, free_bytes: int) -> list[int]:
    """Numbers of processes that may be the fastest: one a core, and one for each environment where those wait.

    Args:
        cost: What an environment costs.
        num_envs: N.
        cores: That may be used.
        free_bytes: Memory that the processes may take together.
    """
    waiting = min(num_envs, max(cores, min(_MANY, round(cores / max(cost.busy, 0.01)))))
    wanted = sorted({min(num_envs, cores), waiting})
    return [workers for workers in wanted if workers * PROCESS_BYTES <= free_bytes]


def fastest(rates: Mapping[int | None, float]) -> int | None:
    """Which number of workers to take: None (sync) unless processes are clearly faster, and no more than it needs.

    Args:
        rates: Steps per second by number of workers; None is sync.
    """
    processes = {workers: rate for workers, rate in rates.items() if workers is not None}
    best = max(processes.values(), default=0.0)
    if best < _WORTH * rates[None]:
        return None
    return min(workers for workers, rate in processes.items() if rate >= best / 1.05)


def made(factory: EnvFactory, num_envs: int, workers: int | None) -> VectorAdapter:
    """The environments in so many processes; sync where that is None."""
    if workers is None:
        return make_vec(factory, num_envs, vec="sync", masks="auto")
    return make_vec(factory, num_envs, vec="async", num_workers=workers, masks="auto")


def _timed(factory: EnvFactory, num_envs: int, cost: Cost, cores: int, free_bytes: int, seconds: float) -> Choice:
    tried: list[int | None] = [*workers_to_try(cost, num_envs, cores, free_bytes)]
    if not tried:
        return Choice("sync", f"the free memory is too small for {min(num_envs, cores)} processes")
    total = cost.step_s * num_envs
    slow = total > _SLOW_S and total > _CLEAR * in_processes(cost, num_envs, cores)
    with undisturbed(), ExitStack() as stack:
        timed: dict[int | None, Timed] = {}
        for workers in tried[-1:] if slow else [None, *tried]:
            envs = made(factory, num_envs, workers)
            stack.callback(envs.close)
            envs.reset(list(range(SEED, SEED + num_envs)))
            timed[workers] = Timed(envs, envs.spec.action_space, masks=envs.allowed)
        if slow:
            text = f"a step of {num_envs} environments one after the other takes {_ms(total)}"
            return Choice("async", text, tried[-1])
        for each in timed.values():
            each.turn(0.0)  # processes wake up
            each.rates.clear()
        in_turns([*timed.values()], seconds if total > 5e-3 else seconds / 2, _ROUNDS)
    return picked({workers: each.rate for workers, each in timed.items()}, num_envs)


def picked(rates: Mapping[int | None, float], num_envs: int) -> Choice:
    """The choice that measured rates lead to, in words."""
    chosen = fastest(rates)
    named = {name_of(workers): rate for workers, rate in rates.items()}
    shown = ", ".join(f"{name} {rate:,.0f}" for name, rate in named.items())
    text = f"environment steps per second with {num_envs} environments: {shown}"
    return Choice("sync" if chosen is None else "async", text, chosen, named)


def name_of(workers: int | None) -> str:
    """`sync`, or `async` with its number of processes."""
    return "sync" if workers is None else f"async ({workers} process{'es' if workers > 1 else ''})"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
