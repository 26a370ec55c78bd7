"""The commands as a user types them, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import steadyrl as steadyrl_package
from steadyrl.cli.train_command import score

SMALL = ["--total-timesteps", "600", "--eval-episodes", "2", "--num-envs", "2", "--n-steps", "32"]


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "steadyrl", *args]


def environment() -> dict[str, str]:
    # Absolute, since each command runs in a folder of its own.
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(steadyrl_package.__file__).parent.parent)}


def steadyrl(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), capture_output=True, text=True, check=False, cwd=folder, env=environment(), timeout=120
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A working folder with one run, and what `train --json` said of it."""
    folder = tmp_path_factory.mktemp("work")
    result = steadyrl(folder, "train", "ppo", "CartPole-v1", *SMALL, "--seed", "3", "--json")
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_train_says_what_programs_rely_on(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, document = trained
    assert (document["algo"], document["env"], document["seed"]) == ("ppo", "CartPole-v1", 3)
    assert (document["total_timesteps"], document["status"]) == (600, "finished")
    assert len(document["weights_sha256"]) == 64
    assert document["fps"] > 0
    assert document["wall_s"] > 0
    low, high = document["eval"]["ci95"]
    assert low <= document["eval"]["mean"] <= high
    assert document["eval"]["episodes"] == 2
    assert document["eval"]["std"] >= 0
    assert (folder / document["run"] / "config.json").is_file()


def test_eval_repeats_the_final_evaluation(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, document = trained
    result = steadyrl(folder, "eval", document["run"], "--episodes", "2", "--json")
    assert result.returncode == 0, result.stderr
    evaluation = json.loads(result.stdout)
    assert {name: evaluation[name] for name in ("mean", "std", "ci95", "episodes")} == document["eval"]
    assert evaluation["returns"] == [float(length) for length in evaluation["lengths"]]
    assert sum(evaluation["returns"]) / 2 == evaluation["mean"]
    spoken = steadyrl(folder, "eval", "latest", "--episodes", "2").stdout
    assert f"Return of the final agent: {score(evaluation)}." in spoken


def test_another_evaluation_seed_gives_other_episodes(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, document = trained
    seeds = [steadyrl(folder, "eval", document["run"], "--json", "--eval-seed", seed) for seed in ("0", "1")]
    first, second = (json.loads(result.stdout)["returns"] for result in seeds)
    assert len(first) == len(second) == 100
    assert first != second


def test_a_checkpoint_that_is_not_there_is_bad_input(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, document = trained
    result = steadyrl(folder, "eval", document["run"], "--checkpoint", "123457")
    assert result.returncode == 2
    assert "123457" in result.stderr
    assert "final" in result.stderr


def test_record_makes_a_video_of_the_episode(trained: tuple[Path, dict[str, Any]]) -> None:
    av = pytest.importorskip("av", reason="the extra 'video' is not installed")
    pytest.importorskip("pygame", reason="CartPole draws with pygame")
    folder, document = trained
    result = steadyrl(folder, "record", document["run"], "--max-steps", "7", "--json")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    (row,) = json.loads(result.stdout)["recordings"]
    assert (row["length"], row["return"], row["seed"]) == (7, 7.0, 0)
    with av.open(str(folder / row["path"])) as video:
        assert sum(1 for _ in video.decode(video=0)) == 8  # the first observation and one a step


def test_the_first_line_names_the_folder_without_torch(tmp_path: Path) -> None:
    # A torch that cannot be imported: whatever is printed came before it.
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('torch came first')")
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{env['PYTHONPATH']}"
    result = subprocess.run(
        command("train", "ppo", "CartPole-v1", *SMALL),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=env,
    )
    assert result.stdout.splitlines()[0].startswith("Run folder: runs/CartPole-v1/ppo/")
    assert result.returncode == 3
    assert "torch came first" in result.stderr


def metrics_begun(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


@pytest.mark.parametrize(
    ("number", "code", "status"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "preempted"), (signal.SIGUSR1, 138, "preempted")],
)
def test_a_signal_ends_the_run_with_a_saved_agent(tmp_path: Path, number: int, code: int, status: str) -> None:
    args = ["train", "a2c", "CartPole-v1", "--total-timesteps", "100000000", "--eval-freq", "0", "--json"]
    args += ["--run-dir", "run", "--log-interval", "1"]
    with subprocess.Popen(
        command(*args), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            metrics = tmp_path / "run" / "metrics.jsonl"
            deadline = time.monotonic() + 60
            while process.poll() is None and not metrics_begun(metrics) and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code
    document = json.loads(out)
    assert document["status"] == status
    assert 0 < document["total_timesteps"] < 100_000_000
    result = steadyrl(tmp_path, "eval", "run", "--episodes", "1", "--json")
    assert result.returncode == 0, result.stderr


def test_equal_commands_give_equal_weights_and_other_seeds_others(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    _, document = trained
    hashes = [
        json.loads(steadyrl(tmp_path, "train", "ppo", "CartPole-v1", *SMALL, "--json", *more).stdout)["weights_sha256"]
        for more in (["--seed", "3", "--eval-freq", "0"], ["--seed", "4"])
    ]
    assert hashes[0] == document["weights_sha256"]
    assert hashes[1] != document["weights_sha256"]
