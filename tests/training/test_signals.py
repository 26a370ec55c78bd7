"""Signals to a training process: it ends in good order, with a saved agent and the status that says why."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import steadyrl as srl
from steadyrl.training import signals
from steadyrl.training.finding import find_checkpoint
from steadyrl.training.signals import StopFlag, signals_stop
from support import faulty_envs, training_envs

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
PATIENCE_S = 120.0
FLAGS = ("--preset", "none", "--n-steps", "16", "--batch-size", "16", "--eval-episodes", "2", "--json")


def start(place: Path, *flags: str, **env_kwargs: Any) -> subprocess.Popen[str]:
    """A training of `Watched` that would take for ever, in a process of its own."""
    settings = {"place": str(place), "pause_s": 0.001} | env_kwargs
    command = [
        sys.executable, "-m", "steadyrl", "train", "ppo", f"{training_envs.__file__}:Watched", *FLAGS, *flags,
        "--total-timesteps", "10000000", "--run-dir", str(place / "run"),
        "--env-kwargs", *(f"{key}={value!r}" for key, value in settings.items()),
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def wait_for(process: subprocess.Popen[str], there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not get there"
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def manifest_of(place: Path) -> dict[str, Any]:
    return dict(json.loads((place / "run" / "manifest.json").read_text()))


@pytest.mark.parametrize(
    ("name", "exit_status", "status"),
    [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "preempted"), ("SIGUSR1", 138, "preempted")],
)
@pytest.mark.parametrize("during", ["training", "evaluating"])
def test_a_signal_ends_the_run_in_good_order(
    name: str, exit_status: int, status: str, during: str, tmp_path: Path
) -> None:
    # Its evaluations never end by themselves, so one that does not look at the signal would hang.
    evaluated = during == "evaluating"
    process = start(tmp_path, "--eval-freq", "64" if evaluated else "0", endless=evaluated)
    wait_for(process, (tmp_path / during).exists)
    process.send_signal(getattr(signal, name))
    returncode, out, err = ended(process)
    assert returncode == exit_status, err
    assert "Traceback" not in err
    manifest = manifest_of(tmp_path)
    assert (manifest["status"], manifest["signal"]) == (status, name)
    document = json.loads(out)
    assert (document["status"], document["eval"]) == (status, None)
    agent = srl.load(find_checkpoint(tmp_path / "run" / "checkpoints", "final"))
    assert agent.policy.sha256() == manifest["weights_sha256"] == document["weights_sha256"]
    assert agent.num_timesteps == manifest["timesteps"] > 0
    for file in ("metrics.jsonl", "episodes.jsonl", "evals.jsonl"):
        for line in (tmp_path / "run" / file).read_text().splitlines():
            json.loads(line)


def test_a_signal_to_workers_as_well_ends_the_run_in_good_order(tmp_path: Path) -> None:
    # A terminal or a scheduler sends it to every process of the run.
    process = start(tmp_path, "--eval-freq", "0", "--vec", "async", "--num-envs", "2", "--num-workers", "2")
    wait_for(process, (tmp_path / "training").exists)
    everyone = psutil.Process(process.pid).children(recursive=True)
    assert len(everyone) == 3
    for one in everyone:
        one.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    returncode, out, err = ended(process)
    assert (returncode, err.count("Traceback")) == (143, 0), err
    assert json.loads(out)["status"] == "preempted"
    assert manifest_of(tmp_path)["timesteps"] > 0
    assert find_checkpoint(tmp_path / "run" / "checkpoints", "final").exists()
    assert not any(one.is_running() for one in everyone)


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    # A step takes for ever, so the first interrupt alone would wait for it.
    process = start(tmp_path, "--eval-freq", "0", pause_s=1e6)
    wait_for(process, (tmp_path / "training").exists)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    returncode, _, err = ended(process)
    assert returncode == 130
    assert "Traceback" not in err
    assert manifest_of(tmp_path)["status"] == "interrupted"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", "raised LookupError in step 37 of its episode: the motor fell off"),
        ("nan-obs", "nan as entry 1 of its observation in step 37"),
        ("nan-reward", "nan as its reward in step 37"),
    ],
)
def test_a_failing_environment_is_exit_status_3_and_names_it(how: str, said: str, tmp_path: Path) -> None:
    env = f"{faulty_envs.__file__}:Failing"
    command = [
        sys.executable, "-m", "steadyrl", "train", "ppo", env, *FLAGS, "--total-timesteps", "1000", "--run-dir",
        str(tmp_path / "run"), "--env-kwargs", f"how={how}", "at=37", "--eval-freq", "0",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=PATIENCE_S)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    error = json.loads(done.stdout)["error"]
    assert said in error["message"]
    assert env in error["message"]
    assert error["remedy"]
    manifest = manifest_of(tmp_path)
    assert (manifest["status"], manifest["timesteps"]) == ("failed", 36)
    assert said in manifest["message"]


@pytest.mark.parametrize(
    ("name", "status"), [("SIGINT", "interrupted"), ("SIGTERM", "preempted"), ("SIGUSR1", "preempted")]
)
def test_inside_a_signal_sets_the_flag_and_outside_everything_is_as_before(name: str, status: str) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    flag = StopFlag()
    with signals_stop(flag):
        assert flag.reason == ""
        signal.raise_signal(number)
        assert (flag.reason, flag.status) == (name, status)
    assert signal.getsignal(number) is before


def test_the_first_signal_is_the_reason_and_a_second_interrupt_raises() -> None:
    flag = StopFlag()
    with signals_stop(flag):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert flag.reason == "SIGTERM"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_callback_is_a_reason_without_a_signal() -> None:
    flag = StopFlag()
    flag.reason = "callback"
    assert flag.status == "stopped"


def test_another_thread_trains_without_handlers() -> None:
    agent = srl.A2C("CartPole-v1", preset="none")
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: agent.learn(50))
    thread.start()
    thread.join()
    assert agent.num_timesteps == 50
    assert signal.getsignal(signal.SIGINT) is before


def test_python_raises_after_the_agent_was_saved(tmp_path: Path) -> None:
    for number, kind in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)):
        agent = srl.A2C("CartPole-v1", preset="none", eval_freq=0)
        fired = False

        def fire(event: Any, number: int = number) -> None:
            nonlocal fired
            if not fired and hasattr(event, "env_index"):
                fired = True
                signal.raise_signal(number)

        place = tmp_path / number.name
        with pytest.raises(kind) as caught:
            agent.learn(10_000, callback=fire, run_dir=place)
        if kind is SystemExit:
            assert caught.value.code == 143  # type: ignore[attr-defined]
        assert 0 < agent.num_timesteps < 10_000
        assert srl.Run.open(place).load_agent().policy.sha256() == agent.policy.sha256()
        agent.learn(10)  # and may go on
        agent.close()


@pytest.mark.parametrize("for_good", [False, True])
def test_after_the_signal_that_ends_a_process_no_other_is_answered(
    for_good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: signal.getsignal(getattr(signal, name)) for name in ("SIGINT", "SIGTERM", "SIGUSR1")}
    monkeypatch.setattr(signals, "_for_good", False)
    if for_good:
        signals.end_for_good()
    try:
        with pytest.raises(signals.Preempted), signals.signals_raise():
            signal.raise_signal(signal.SIGTERM)
        after = [signal.getsignal(getattr(signal, name)) for name in before]
        assert after == ([signal.SIG_IGN] * 3 if for_good else list(before.values()))
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
