"""`steadyrl bench`: words in, page or document out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steadyrl.bench import report as report_module
from steadyrl.bench.report import Asked
from steadyrl.bench.rows import Cell, Row
from steadyrl.cli.main import main
from steadyrl.envs.timing import Cost


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """What was asked for; one row is the answer to everything."""
    found: list[Asked] = []
    row = Row(Cell(2, "sync"), 500.0, 1.0, 0)

    def bench(asked: Asked, **options: Any) -> report_module.Report:
        found.append(asked)
        memory = (1e9, "1 GB")
        cost = Cost(0.1, 1e-3, 1.0, draws=False)
        return report_module.Report(asked, cost, [row], [], [], row.cell, row, row, None, 1.0, memory, 1.0)

    monkeypatch.setattr(report_module, "bench", bench)
    return found


def test_every_flag_arrives(asked: list[Asked], capsys: pytest.CaptureFixture[str]) -> None:
    words = "CartPole-v1 --algo PPO --num-envs 1,4 --num-workers 2 --seconds 3 --memory-limit 8GB --max-episode-steps 9"
    assert main(["bench", *words.split(), "--env-kwargs", "a=1"]) == 0
    (found,) = asked
    assert found == Asked(
        "CartPole-v1", "ppo", (1, 4), (2,), 3.0, "8GB", {"a": 1}, 9, ["--env-kwargs", "a=1", "--max-episode-steps", "9"]
    )
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Measuring CartPole-v1 for about 6 s ..."
    assert out[-1].strip() == (
        "steadyrl train ppo CartPole-v1 --vec sync --num-envs 2 --env-kwargs a=1 --max-episode-steps 9"
    )


def test_json_is_the_one_thing_on_stdout(asked: list[Asked], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "CartPole-v1", "--json"]) == 0
    captured = capsys.readouterr()
    document: dict[str, Any] = json.loads(captured.out)
    assert document.keys() >= {"rows", "recommendation", "cost", "memory", "beside_gymnasium", "training", "env"}
    assert document["rows"][0].keys() >= {"backend", "num_envs", "steps_per_second", "reason"}
    assert document["recommendation"].keys() >= {"backend", "num_envs", "num_workers", "threads", "gain", "command"}
    assert "Measuring" in captured.err
    assert asked == [Asked("CartPole-v1", extra=[])]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "`steadyrl bench` needs an environment."),
        (["CartPole-v1", "--num-envs", "0"], "num_envs holds 0"),
        (["CartPole-v1", "--num-workers", "1,-2"], "num_workers holds -2"),
        (["CartPole-v1", "--seconds", "0.1"], "seconds is 0.1"),
        (["CartPole-v1", "--algo", "pppo"], "There is no algorithm 'pppo'"),
        (["CartPole-v1", "--max-episode-steps", "0"], "max_episode_steps"),
        (["CartPole-v1", "--secnds", "3"], "There is no flag --secnds"),
        (["CartPol-v1"], "There is no environment 'CartPol-v1'"),
        (["CartPole-v1", "--memory-limit", "lots"], "memory_limit is 'lots'"),
    ],
)
def test_wrong_words_are_answered(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_environment_that_fails_ends_with_status_3(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.py"
    file.write_text(
        "import gymnasium as gym\n\n\nclass Broken(gym.Env):\n"
        "    observation_space = gym.spaces.Box(-1, 1, (2,))\n    action_space = gym.spaces.Discrete(2)\n\n"
        "    def reset(self, *, seed=None, options=None):\n        raise RuntimeError('no simulator')\n"
    )
    assert main(["bench", f"{file}:Broken", "--seconds", "0.5"]) == 3
    assert "raised RuntimeError in reset(): no simulator" in capsys.readouterr().err
