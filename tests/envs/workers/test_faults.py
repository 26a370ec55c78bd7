"""Every fault of an environment in a worker: an error that names it, in time, and nothing left behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, cast, get_args

import numpy as np
import psutil
import pytest

from steadyrl.envs.adapter import VectorAdapter
from steadyrl.envs.failure import Failure
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.types import EnvSpec
from steadyrl.envs.workers.keeper import Context
from steadyrl.envs.workers.vector import WorkerVectorEnv
from steadyrl.errors import SteadyRLError, UserError
from support.faults import FAULTS, HANGS, SAFE_IN_CLOSE, Faulty
from support.leftovers import gone, nothing_left, shared_memory, until

SEEDS = [40, 41, 42]
ACTIONS = np.array([2, 0, 1])
BAD = 2  # environment 2, the second of worker 1: blocks are [0], [1, 2]
TIMEOUT_S = 1.5
PATIENCE_S = 60.0  # where nothing hangs
SLACK_S = 1.0
GONE_S = 2.0
# What the error says of the cause.
CAUSES = {
    "raise": "MotorError.*the motor fell off",
    "SIGKILL": "signal SIGKILL",
    "SIGSEGV": "signal SIGSEGV",
    "SIGSTOP": "did not answer within 1.5 s .*stopped by a signal",
    "os._exit": "exit status 7",
    "loop": "did not answer within 1.5 s",
    "loop in C": "did not answer within 1.5 s",
    "unpicklable info": r"info\['action_mask'\] .* cannot be sent",
    "wrong shape": r"has shape \(2,\), but its space says \(3,\)",
    "NaN": "nan as entry 1 of its observation in step",
}
SILENT = ("SIGKILL", "SIGSTOP", "os._exit")  # Python code cannot say where it was
QUICK: list[tuple[str, str, Context]] = [
    *((fault, "step", "forkserver") for fault in FAULTS if fault != "loop in C"),
    ("loop in C", "reset", "forkserver"),
    ("SIGKILL", "reset", "forkserver"),
    ("raise", "close", "forkserver"),
    ("loop", "close", "forkserver"),
    ("SIGSEGV", "make", "forkserver"),
    ("loop", "step", "spawn"),
]
ALL = [
    case
    for case in itertools.product(FAULTS, ("make", "reset", "step", "close"), ("spawn", "forkserver"))
    if not (case[1] in ("make", "close") and case[0] in SAFE_IN_CLOSE)
]


def adapted(vector: WorkerVectorEnv) -> VectorAdapter:
    observation, action = vector.single_observation_space, vector.single_action_space
    return VectorAdapter(vector, EnvSpec("Faulty", observation, action, None, "async"), seeds_each=True)


def made(fault: str, where: str, context: Context = "forkserver") -> VectorAdapter:
    at = 1 if where == "reset" else 3
    bad_seed = None if where == "make" else SEEDS[BAD]
    factory = make_env_factory(partial(Faulty, fault, where, at, bad_seed))
    timeout = TIMEOUT_S if fault in HANGS else PATIENCE_S
    return adapted(WorkerVectorEnv(factory, 3, workers=2, context=context, timeout=timeout))


def failing(fault: str, where: str, context: Context) -> tuple[SteadyRLError | warnings.WarningMessage, float, int]:
    """The error of the fault, the seconds that it took to come, and the worker's process."""
    envs = None
    process = 0
    start = time.monotonic()
    try:
        envs = made(fault, where, context)
        process = cast("WorkerVectorEnv", envs._env).processes[1].pid or 0
        start = time.monotonic()
        envs.reset(SEEDS)
        for _ in range(5):
            start = time.monotonic()
            envs.step(ACTIONS)
        start = time.monotonic()
    except SteadyRLError as error:
        return error, time.monotonic() - start, process
    finally:
        told = None
        if envs is not None:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                envs.close()
    assert told, "there was no error"
    return told[0], time.monotonic() - start, process


def check(fault: str, where: str, context: Context, *, timed: bool = False) -> None:
    with nothing_left(GONE_S) if timed else nothing_left():
        error, took, _ = failing(fault, where, context)
        text = str(error.message)
        assert_says(text, CAUSES[fault])
        assert where == "make" or f"{BAD}" in text
        if timed and where != "make":  # whose time holds the start of the process
            assert took < TIMEOUT_S + SLACK_S
        if isinstance(error, warnings.WarningMessage):
            assert where == "close"
            return
        assert where != "close"
        if fault != "NaN":
            check_failure(error, fault, where)


def assert_says(text: str, pattern: str) -> None:
    with pytest.raises(SteadyRLError, match=pattern):
        raise SteadyRLError(text)


def check_failure(error: SteadyRLError, fault: str, where: str) -> None:
    """All that is known of the environment comes with the error."""
    failure = vars(error)["failure"]
    assert isinstance(failure, Failure)
    index, worker = (0, 0) if where == "make" else (BAD, 1)
    assert (failure.env_index, failure.worker, failure.phase, failure.whole) == (index, worker, where, True)
    step = 3 if where == "step" else 0
    assert failure.step == step
    assert [int(action) for action in failure.actions] == [1] * step
    assert all(isinstance(action, np.int64) for action in failure.actions)
    assert failure.seed == (None if where == "make" else SEEDS[BAD])
    note = error.__notes__[0]
    assert f"In worker {worker}, environment {index}, step {step} of its episode" in note
    if fault not in SILENT:
        assert failure.traceback in note
        own_code = fault not in ("wrong shape", "unpicklable info")
        assert ("faults.py" if own_code else "Error") in failure.traceback


@pytest.mark.parametrize(("fault", "where", "context"), QUICK)
def test_a_fault_is_told_and_leaves_nothing(fault: str, where: str, context: Context) -> None:
    check(fault, where, context)


@pytest.mark.soak
@pytest.mark.parametrize(("fault", "where", "context"), ALL)
def test_every_fault_is_told_in_time_and_leaves_nothing(fault: str, where: str, context: Context) -> None:
    check(fault, where, context, timed=True)


def test_fork_is_refused_in_words() -> None:
    with pytest.raises(UserError, match=r"cannot be started by 'fork'.*threads of PyTorch") as caught:
        WorkerVectorEnv(make_env_factory(Faulty), 1, context=cast("Context", "fork"))
    assert "forkserver" in caught.value.remedy


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"context": "thread"}, "'thread'"),
        ({"workers": 0}, "is 0"),
        ({"timeout": 0.0}, "is 0.0"),
        ({"workers": "2"}, "is '2'"),
        ({"timeout": None}, "is None"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        WorkerVectorEnv(make_env_factory(Faulty), 1, **arguments)


def test_a_time_out_may_be_endless() -> None:
    envs = adapted(WorkerVectorEnv(make_env_factory(Faulty), 1, timeout=float("inf")))
    envs.reset(SEEDS[:1])
    assert envs.step(ACTIONS[:1]).valid.all()
    envs.close()


def test_of_several_failures_the_first_environment_is_told_whatever_came_first() -> None:
    # Environment 0 dies a moment after environments 1 and 2 have raised.
    def later(fault: str = "raise") -> Faulty:
        env = Faulty(fault, at=1)
        step = env.step

        def slow(action: Any) -> Any:
            time.sleep(0.2 if env.seed == SEEDS[0] else 0.0)
            return step(action)

        env.step = slow  # type: ignore[method-assign]
        return env

    later.__module__ = "__main__"
    envs = adapted(WorkerVectorEnv(make_env_factory(later), 3, workers=3))
    envs.reset(SEEDS)
    with pytest.raises(SteadyRLError, match=r"Environment 0 .* MotorError"):
        envs.step(ACTIONS)
    envs.close()


def test_a_slow_block_is_no_hang_while_each_environment_is_quick_enough() -> None:
    class Slow(Faulty):
        def step(self, action: Any) -> Any:
            time.sleep(0.6)
            return super().step(action)

    Slow.__module__ = "__main__"
    envs = adapted(WorkerVectorEnv(make_env_factory(Slow), 3, workers=1, timeout=TIMEOUT_S))
    envs.reset(SEEDS)
    start = time.monotonic()
    envs.step(ACTIONS)
    assert time.monotonic() - start > TIMEOUT_S
    envs.close()


def test_after_a_failure_nothing_goes_on() -> None:
    envs = made("raise", "step")
    envs.reset(SEEDS)
    envs.step(ACTIONS)
    envs.step(ACTIONS)
    with pytest.raises(SteadyRLError, match="MotorError"):
        envs.step(ACTIONS)
    with pytest.raises(SteadyRLError, match="are closed"):
        envs.step(ACTIONS)
    envs.close()


def open_and_forget() -> None:
    envs = made("", "step")
    envs.reset(SEEDS)


def open_and_close() -> None:
    envs = made("", "step")
    envs.reset(SEEDS)
    envs.step(ACTIONS)
    envs.close()


def stop_and_forget() -> None:
    envs = made("", "step")
    for process in cast("WorkerVectorEnv", envs._env).processes:
        os.kill(process.pid or 0, signal.SIGSTOP)


def kill_the_keeper() -> None:
    envs = made("", "step")
    envs.reset(SEEDS)
    keeper = psutil.Process(cast("WorkerVectorEnv", envs._env).processes[0].pid).parent()
    assert keeper is not None
    keeper.kill()
    assert until(lambda: keeper.status() == psutil.STATUS_ZOMBIE)
    with pytest.raises(SteadyRLError, match="ended by itself"):
        envs.step(ACTIONS)
    envs.close()


@pytest.mark.parametrize("how", [open_and_close, open_and_forget, stop_and_forget, kill_the_keeper])
def test_every_way_out_leaves_nothing(how: Callable[[], None]) -> None:
    with nothing_left():
        how()


class Slower(Faulty):
    """Where nothing is wrong, a step takes so long that the failure of another environment comes first."""

    def step(self, action: Any) -> Any:
        if self.seed != self.bad_seed:
            time.sleep(0.1)
        return super().step(action)


def test_a_failure_waits_for_the_answers_of_others_that_are_well() -> None:
    factory = make_env_factory(partial(Slower, "raise", "step", 2, SEEDS[0]))
    envs = adapted(WorkerVectorEnv(factory, 3, workers=3, timeout=PATIENCE_S))
    envs.reset(SEEDS)
    envs.step(ACTIONS)
    with nothing_left(), pytest.raises(SteadyRLError, match=CAUSES["raise"]) as caught:
        envs.step(ACTIONS)
    assert vars(caught.value)["failure"].env_index == 0
    envs.close()


class LastFirst(Faulty):
    """The environments with the higher numbers are done first."""

    def step(self, action: Any) -> Any:
        time.sleep(0.1 * (SEEDS[-1] - (self.seed or 0)))
        return super().step(action)


def test_of_several_failures_the_first_environments_is_told_whichever_came_first() -> None:
    envs = adapted(WorkerVectorEnv(make_env_factory(partial(LastFirst, "raise", "step", 1)), 3, workers=3))
    envs.reset(SEEDS)
    with pytest.raises(SteadyRLError, match=CAUSES["raise"]) as caught:
        envs.step(ACTIONS)
    assert vars(caught.value)["failure"].env_index == 0
    envs.close()


class Starter(Faulty):
    """Starts a program of its own, observes its process id, and leaves it; the second step ends the process."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps = 0
        obs, info = super().reset(seed=seed, options=options)
        return np.full_like(obs, subprocess.Popen(["sleep", "600"]).pid), info

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == 2:
            os._exit(0)
        return super().step(action)


@pytest.mark.parametrize("dies", [False, True])
def test_programs_that_environments_start_end_with_their_worker(dies: bool) -> None:
    vector = WorkerVectorEnv(make_env_factory(Starter), 1, workers=1, timeout=TIMEOUT_S)
    program = psutil.Process(int(vector.reset(seed=SEEDS[:1])[0][0, 0]))
    assert program.is_running()
    if dies:
        vector.advance(ACTIONS[:1])
        with pytest.raises(SteadyRLError, match="ended by itself"):
            vector.advance(ACTIONS[:1])
    vector.close()
    assert until(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


def test_shared_memory_has_no_name_that_could_stay() -> None:
    before = shared_memory()
    for context in get_args(Context):
        envs = made("", "step", context)
        envs.reset(SEEDS)
        assert shared_memory() == before
        envs.close()


def growth_over(rounds: int) -> int:
    """Bytes that this process grows by, after a few rounds to warm up."""
    for _ in range(2):
        open_and_close()
    before = psutil.Process().memory_info().rss
    for _ in range(rounds):
        open_and_close()
    return int(psutil.Process().memory_info().rss - before)


def test_opening_and_closing_again_and_again_costs_no_memory() -> None:
    with nothing_left():
        assert growth_over(4) < 2e6


@pytest.mark.soak
def test_a_thousand_times_opened_and_closed_costs_no_memory() -> None:
    with nothing_left():
        assert growth_over(1000) < 5e6


PARENT = """
import os, signal, sys, threading, time
from functools import partial
import numpy as np
import psutil
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers.vector import WorkerVectorEnv
from support.faults import Faulty
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts behind it ignore it
if sys.argv[3] == "torch":
    import torch
    torch.ones(200, 200) @ torch.ones(200, 200)
factory = make_env_factory(partial(Faulty, sys.argv[1], at=2))
envs = WorkerVectorEnv(factory, 2, workers=2, context=sys.argv[2], timeout=100.0)
envs.reset(seed=[0, 1])
print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)
envs.step(np.zeros(2, np.int64))
if sys.argv[1]:
    threading.Timer(0.3, lambda: print("in it", flush=True)).start()
else:
    print("in it", flush=True)
    time.sleep({idle})
envs.step(np.zeros(2, np.int64))
"""

ENDED_BY: list[tuple[str, str, Context, str]] = [
    ("SIGKILL", "", "forkserver", ""),
    ("SIGKILL", "loop in C", "forkserver", "torch"),
    ("SIGKILL", "SIGSTOP", "spawn", ""),
    ("SIGTERM", "loop", "forkserver", ""),
    ("SIGINT", "loop", "spawn", ""),
]


@pytest.mark.parametrize(("number", "fault", "context", "library"), ENDED_BY)
def test_whatever_ends_the_parent_ends_the_workers(number: str, fault: str, context: Context, library: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(idle=100), fault, context, library],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None and parent.stderr is not None  # noqa: PT018
    with parent:
        pids = {int(word) for word in parent.stdout.readline().split()}
        assert len(pids) == 3, parent.stderr.read()
        assert parent.stdout.readline() == "in it\n"
        parent.send_signal(getattr(signal, number))
        parent.wait(timeout=20)
        assert until(lambda: gone(pids))
        told = parent.stderr.read()
        assert "leaked" not in told
        assert ("KeyboardInterrupt" in told) == (number == "SIGINT")
