"""Environments in processes of their own: Gymnasium's AsyncVectorEnv, made safe where workers start, fail and end.

cloudpickle is used only here, from a parent to its own children.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.util import Finalize
from typing import Any, NoReturn

import cloudpickle
import gymnasium as gym
from gymnasium.envs.registration import registry
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.vector.async_vector_env import AsyncState, _async_worker

from steadyrl.envs.make import EnvFactory
from steadyrl.errors import RunFailedError, SteadyRLError, UserError, words

_CLOSE_S = 5.0  # time for the environments to close before their processes are ended
_WORKERS = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


class Recipe:
    """What a worker needs to make its environment: the factory and the ids that the user registered.

    Both travel as bytes that are undone inside the worker's guard, so that what cannot be loaded there is told in
    words.
    """

    def __init__(self, factory: EnvFactory, index: int, registered: dict[str, bytes]) -> None:
        try:
            self._payload = cloudpickle.dumps(factory)
        except Exception as error:
            raise UserError(
                f"The environment {factory.id} cannot be sent to another process: {error}",
                remedy="Use vec='sync', or pass an id, a file or a function that holds no locks or threads.",
                code="env-pickle",
            ) from error
        self._index = index
        self._registered = registered

    def __call__(self) -> gym.Env[Any, Any]:
        """Make the environment, once the user's ids are registered here too."""
        for env_id, payload in self._registered.items():
            if env_id not in registry:
                _register(env_id, payload)
        factory: EnvFactory = cloudpickle.loads(self._payload)
        return factory(index=self._index)


def user_registered() -> dict[str, bytes]:
    """Specifications of the ids that do not come with Gymnasium, as bytes; those that cannot be sent are left out."""
    sent = {}
    for env_id, spec in registry.items():
        if isinstance(spec.entry_point, str) and spec.entry_point.startswith("gymnasium."):
            continue
        try:
            sent[env_id] = cloudpickle.dumps(spec)
        except Exception:
            continue  # the id may not be needed there; where it is, making the environment says that it is unknown
    return sent


def _register(env_id: str, payload: bytes) -> None:
    try:
        registry[env_id] = cloudpickle.loads(payload)
    except Exception:
        return  # as above


class WorkerVectorEnv(AsyncVectorEnv):  # not generic in Gymnasium 1.1
    """One process an environment, SAME_STEP autoreset, never forked from this process.

    Raises:
        SteadyRLError: an environment failed; it names which one, and a note holds the worker's traceback.
    """

    def __init__(self, factory: EnvFactory, num_envs: int) -> None:
        registered = user_registered()
        if _WORKERS == "forkserver":
            multiprocessing.set_forkserver_preload([__name__])
        try:
            with _main_hidden():
                super().__init__(
                    [Recipe(factory, i, registered) for i in range(num_envs)],
                    copy=False,
                    context=_WORKERS,
                    autoreset_mode=AutoresetMode.SAME_STEP,
                    worker=_worker,
                )
        except BaseException as error:
            if hasattr(self, "_state"):
                self._explain(error)
            raise
        # Where nobody closes them, the interpreter's own end would wait for a worker that does not answer.
        Finalize(self, _kill, args=(self.processes,), exitpriority=0)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start every environment."""
        try:
            return super().reset(seed=seed, options=options)
        except (EOFError, OSError) as error:
            self._explain(error)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment."""
        try:
            return super().step(actions)
        except (EOFError, OSError) as error:
            self._explain(error)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Let the environments close, then end the processes; takes seconds at most, whatever state they are in."""
        self._state = AsyncState.DEFAULT
        for pipe in self.parent_pipes:
            with suppress(OSError):
                pipe.send(("close", None))
        end = time.monotonic() + (0.0 if terminate else _CLOSE_S)
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        _kill(self.processes)
        for pipe in self.parent_pipes:
            pipe.close()
        self.error_queue.close()

    def _raise_if_errors(self, successes: Any) -> None:
        """Raise the error of the failed environment with the lowest number."""
        failed = [i for i, success in enumerate(successes) if not success]
        if not failed:
            return
        self._state = AsyncState.DEFAULT
        try:
            reports = sorted((self.error_queue.get(timeout=_CLOSE_S) for _ in failed), key=lambda report: report[0])
        except queue.Empty:
            raise RunFailedError(f"Environment {failed[0]} failed without saying why.", code="env-worker") from None
        finally:
            self.close(terminate=True)
        index, kind, error, trace = reports[0]
        if not isinstance(error, SteadyRLError):
            error = RunFailedError(
                f"The worker of environment {index} failed with {kind.__name__}: {words(error)}", code="env-worker"
            )
        error.add_note(f"In the worker of environment {index}:\n{trace}")
        raise error

    def _explain(self, error: BaseException) -> NoReturn:
        """Close everything; where a worker has ended, say which one instead of telling of a broken pipe."""
        dead = [(i, process.exitcode) for i, process in enumerate(self.processes) if _ended(process)]
        self.close(terminate=True)
        if not dead or not isinstance(error, EOFError | OSError):
            raise error
        index, status = dead[0]
        how = f"signal {signal.Signals(-status).name}" if status and status < 0 else f"exit status {status}"
        raise RunFailedError(
            f"The process of environment {index} ended by itself ({how}).",
            remedy="Look above for what it printed; vec='sync' runs it in this process.",
            code="env-worker",
        ) from error


def _kill(processes: list[Any]) -> None:
    for process in processes:
        if process.is_alive():
            process.kill()
            process.join()


def _ended(process: Any) -> bool:
    process.join(0.2)  # its pipe breaks a moment before its exit status can be read
    return not process.is_alive()


def _worker(index: int, env_fn: Any, pipe: Any, parent_pipe: Any, *rest: Any) -> None:
    """Gymnasium's worker, which tells of a failing constructor like of any error and leaves Ctrl-C to the parent.

    It ends without a word where the parent has ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(BrokenPipeError, ConnectionResetError, EOFError):
        try:
            env = env_fn()
        except BaseException as error:
            _report(index, error, pipe, error_queue=rest[1])
            return
        _async_worker(index, lambda: env, pipe, parent_pipe, *rest)


def _report(index: int, error: BaseException, pipe: Any, error_queue: Any) -> None:
    if not isinstance(error, SteadyRLError):
        error = RunFailedError(
            f"Environment {index} cannot be made in its own process: {type(error).__name__}: {words(error)}",
            remedy="Define it in a module or file that a new process can import, or use vec='sync'.",
            code="env-worker",
        )
    pipe.recv()
    error_queue.put((index, type(error), error, traceback.format_exc()))
    pipe.send((None, False))


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Keep new processes from running the user's script again: everything they need is sent to them.

    `multiprocessing` imports the main module in every child by its `__spec__` or `__file__`, so that a script without
    an `if __name__ == "__main__":` guard would start workers from its workers.
    """
    main = sys.modules["__main__"]
    missing = object()
    held = {key: main.__dict__.pop(key, missing) for key in ("__spec__", "__file__")}
    main.__dict__["__spec__"] = None
    try:
        yield
    finally:
        del main.__dict__["__spec__"]
        main.__dict__.update({key: value for key, value in held.items() if value is not missing})
