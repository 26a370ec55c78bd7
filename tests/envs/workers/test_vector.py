"""Environments in processes of their own: what reaches them, how they fail, and that closing always ends."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import registry

from steadyrl.envs.vector import Vec, make_vec
from steadyrl.envs.workers.vector import WorkerVectorEnv
from steadyrl.errors import RunFailedError, UserError
from support.envs import ConstantReward
from support.faulty_envs import Failing, ToldModules

ZEROS = np.zeros(2, np.int64)


def _workers(envs: Any) -> list[Any]:
    vector = envs._env
    assert isinstance(vector, WorkerVectorEnv)
    return list(vector.processes)


@pytest.fixture
def registered() -> Iterator[str]:
    """An id that only this process knows; its class is told by value, as one of a user's script is."""

    class OnlyHere(ConstantReward):
        pass

    OnlyHere.__module__ = "__main__"
    gym.register("OnlyHere-v0", entry_point=cast("Any", OnlyHere), max_episode_steps=2)
    yield "OnlyHere-v0"
    del registry["OnlyHere-v0"]


def test_ids_registered_here_reach_the_workers(registered: str) -> None:
    # By the id itself, and inside a function that makes it.
    for env in (registered, lambda: gym.make("OnlyHere-v0")):
        envs = make_vec(env, 2, vec="async", num_workers=2)
        envs.reset([0, 1])
        envs.step(ZEROS)
        assert envs.step(ZEROS).truncated.tolist() == [True, True]
        envs.close()


def test_workers_import_no_torch() -> None:
    envs = make_vec(ToldModules, 2, vec="async", num_workers=2)
    assert envs.reset([0, 1])[""].tolist() == [[0.0], [0.0]]
    envs.close()


def test_a_file_is_loaded_again_in_each_worker(tmp_path: Path) -> None:
    (tmp_path / "sibling.py").write_text("HORIZON = 2\n")
    (tmp_path / "mine.py").write_text(
        "from sibling import HORIZON\nfrom support.envs import ConstantReward\n\n"
        "class Mine(ConstantReward):\n    def __init__(self):\n        super().__init__(HORIZON)\n"
    )
    kinds: list[Vec] = ["sync", "async"]
    for vec in kinds:
        envs = make_vec(f"{tmp_path / 'mine.py'}:Mine", 2, vec=vec)
        envs.reset([0, 1])
        envs.step(ZEROS)
        assert envs.step(ZEROS).truncated.all()
        envs.close()


def test_an_error_names_environment_type_and_message() -> None:
    envs = make_vec(Failing, 2, vec="async", num_workers=2, env_kwargs={"how": "raise", "at": 2})
    envs.reset([0, 1])
    envs.step(ZEROS)
    with pytest.raises(
        RunFailedError, match=r"Environment 0 \(Failing\) raised LookupError in step 2 .* the motor fell off"
    ) as caught:
        envs.step(ZEROS)
    assert any("self.env.step" in note and "LookupError" in note for note in caught.value.__notes__)
    envs.close()


def test_a_user_error_stays_one() -> None:
    class Wrong(ConstantReward):
        def step(self, action: Any) -> Any:
            return 1, 2

    envs = make_vec(Wrong, 2, vec="async", num_workers=2)
    envs.reset([0, 1])
    with pytest.raises(UserError, match="returned 2 values") as caught:
        envs.step(ZEROS)
    assert (caught.value.code, bool(caught.value.remedy)) == ("old-gym", True)
    envs.close()


def test_a_constructor_that_fails_in_the_worker_only(tmp_path: Path) -> None:
    here = os.getpid()

    class OnlyInParent(ConstantReward):
        def __init__(self) -> None:
            if os.getpid() != here:
                raise OSError("the licence server is busy")
            super().__init__()

    OnlyInParent.__module__ = "__main__"
    with pytest.raises(UserError, match="OnlyInParent raised OSError: the licence server is busy"):
        make_vec(OnlyInParent, 2, vec="async", num_workers=2)


def test_a_module_that_leaves_in_the_worker_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaves_elsewhere.py").write_text(
        "import os, sys\nfrom support.envs import ConstantReward\n"
        "if os.environ.get('AT_HOME') != str(os.getpid()):\n    sys.exit(0)\n"
        "class Mine(ConstantReward):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("AT_HOME", str(os.getpid()))
    mine = importlib.import_module("leaves_elsewhere").Mine
    with pytest.raises(RunFailedError, match="Environment 0 cannot be made in its own process: SystemExit"):
        make_vec(mine, 2, vec="async", num_workers=2)


def test_what_cannot_be_sent_is_said() -> None:
    lock = threading.Lock()
    with pytest.raises(UserError, match="cannot be sent to another process"):
        make_vec(lambda: ConstantReward(horizon=2 + lock.locked()), 2, vec="async", num_workers=2)


@pytest.mark.parametrize(("how", "text"), [("exit", "exit status 7"), ("kill", "signal SIGKILL")])
def test_a_worker_that_dies_is_named_and_closing_ends(how: str, text: str) -> None:
    envs = make_vec(Failing, 2, vec="async", num_workers=2, env_kwargs={"how": how, "at": 1})
    envs.reset([0, 1])
    processes = _workers(envs)
    if how == "kill":
        os.kill(processes[1].pid, signal.SIGKILL)
    with pytest.raises(RunFailedError, match=rf"process of environment {int(how == 'kill')} ended .*{text}"):
        envs.step(ZEROS)
    envs.close()
    assert not any(p.is_alive() for p in processes)


def test_closing_ends_a_worker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steadyrl.envs.workers.vector.CLOSE_S", 0.3)
    envs = make_vec(ConstantReward, 2, vec="async", num_workers=2)
    processes = _workers(envs)
    os.kill(processes[0].pid, signal.SIGSTOP)
    with pytest.warns(UserWarning, match=r"Environment 0 .* in worker 0 did not answer within 0.3 s"):
        envs.close()
    assert not any(p.is_alive() for p in processes)


@pytest.mark.parametrize("how", ["hang", "stopped"])
def test_closing_ends_in_the_middle_of_a_step(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steadyrl.envs.workers.vector.CLOSE_S", 0.3)
    envs = make_vec(Failing, 2, vec="async", num_workers=2, env_kwargs={"how": how, "at": 1})
    envs.reset([0, 1])
    processes = _workers(envs)
    if how == "stopped":
        os.kill(processes[0].pid, signal.SIGSTOP)
    with interrupted_after(0.3), pytest.raises(KeyboardInterrupt):
        envs.step(ZEROS)
    envs.close()
    assert not any(p.is_alive() for p in processes)


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """The main thread gets a KeyboardInterrupt."""
    before = signal.signal(signal.SIGUSR2, signal.default_int_handler)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGUSR2))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR2, before)


def test_an_exit_of_the_program_is_an_error_of_the_environment() -> None:
    envs = make_vec(Failing, 2, vec="async", num_workers=2, env_kwargs={"how": "sys.exit", "at": 1})
    envs.reset([0, 1])
    with pytest.raises(RunFailedError, match=r"Environment 0 \(Failing\) raised SystemExit in step 1"):
        envs.step(ZEROS)
    envs.close()


PARENT = """
import os, signal, sys, time
from steadyrl.envs.vector import make_vec
from support.envs import ConstantReward
envs = make_vec(ConstantReward, 2, vec="async", num_workers=2)
envs.reset([0, 1])
print(*[p.pid for p in envs._env.processes], flush=True)
{then}
"""


@pytest.mark.parametrize(
    "then",
    [
        "os._exit(0)",
        "[os.kill(p.pid, signal.SIGTERM) for p in envs._env.processes]",
        "os.kill(envs._env.processes[0].pid, signal.SIGSTOP); time.sleep(0.3)",
    ],
)
def test_workers_end_with_the_parent_and_without_a_word(then: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PARENT.format(then=then)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # The pipes of stdout and stderr are at their end, so the workers, which hold them too, have ended.
    assert len(done.stdout.split()) == 2


def test_ctrl_c_is_left_to_the_parent() -> None:
    envs = make_vec(ConstantReward, 2, vec="async", num_workers=2)
    envs.reset([0, 1])
    for process in _workers(envs):
        os.kill(process.pid, signal.SIGINT)
    time.sleep(0.1)
    assert envs.step(ZEROS).rewards.tolist() == [1.0, 1.0]
    envs.close()


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import gymnasium as gym, numpy as np\n"
        "from steadyrl.envs.vector import make_vec\n"
        "print('started')\n"
        "class Mine(gym.Env):\n"
        "    observation_space = gym.spaces.Box(-1, 1, (1,))\n"
        "    action_space = gym.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return np.zeros(1, np.float32), {}\n"
        "    def step(self, action):\n"
        "        return np.zeros(1, np.float32), 2, False, False, {}\n"
        "gym.register('Mine-v0', Mine)\n"
        "envs = make_vec('Mine-v0', 2, vec='async')\n"
        "envs.reset([0, 1])\n"
        "print(envs.step(np.zeros(2, np.int64)).rewards)\n"
        "envs.close()\n"
        "print(__file__ is not None)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split("\n"), done.stderr) == (0, ["started", "[2. 2.]", "True", ""], "")
