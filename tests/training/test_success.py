"""Whether evaluated episodes succeeded, wherever an evaluation is told."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.training.events import EvaluationEnded, Event, Progress
from steadyrl.training.history import history_of
from steadyrl.training.session_form import require_session

OPTIONS: dict[str, Any] = {"preset": "none", "n_steps": 8, "batch_size": 8, "net_arch": (8,), "vec": "sync"}


class Hunt(gym.Env[Any, Any]):
    """Three steps; whether it succeeded follows from the seed, and every `silent`th episode does not tell."""

    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)

    def __init__(self, silent: int = 0) -> None:
        self.silent = silent
        self.begun = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.lucky = 0, bool(self.np_random.random() < 0.5)
        self.begun += 1
        return np.zeros(2, np.float32), {"is_success": True}  # of no episode that has ended

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        told = not (self.silent and self.begun % self.silent == 0)
        info = {"is_success": self.lucky} if told else {}
        return np.zeros(2, np.float32), float(self.lucky), self.t == 3, False, info


def test_an_evaluation_tells_the_share_of_successes_among_those_that_tell() -> None:
    agent = srl.PPO(Hunt, **OPTIONS)
    result = srl.evaluate(agent, 40)
    assert result.success_rate == (result.returns > 0).mean()
    assert result.successes == tuple(bool(value) for value in result.returns > 0)
    assert {True, False} == set(result.successes)
    assert f"success_rate={(result.returns > 0).mean():.6g}" in repr(result)
    part = srl.evaluate(agent, 40, env=Hunt(silent=2))
    assert [success is None for success in part.successes] == [False, True] * 20
    assert part.success_rate == (part.returns[::2] > 0).mean()
    vector = srl.evaluate(agent, 40, env=gym.vector.SyncVectorEnv([Hunt] * 4))
    assert vector.success_rate == (vector.returns > 0).mean()
    none = srl.evaluate(agent, 4, env=Hunt(silent=1))
    assert (none.success_rate, none.successes) == (None, ())
    assert "success" not in repr(none)


def test_a_run_keeps_and_shows_it_and_a_resumed_one_goes_on_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hunt.py").write_text(Path(__file__).read_text())
    events: list[Event] = []
    options = OPTIONS | {"run_dir": tmp_path / "run", "eval_freq": 16, "eval_episodes": 10, "checkpoint_freq": 16}
    train = partial(srl.train, "ppo", f"{tmp_path / 'hunt.py'}:Hunt", total_timesteps=48, **options)

    def until_16(event: Event) -> bool:
        events.append(event)
        return not (isinstance(event, Progress) and event.step >= 16)

    train(callback=until_16)
    run = srl.resume(tmp_path / "run", callback=events.append, say=lambda notice: None)
    rates = [row["success_rate"] for row in run.evals()]
    assert [event.success_rate for event in events if isinstance(event, EvaluationEnded)] == rates
    assert rates == [(np.array(row["returns"]) > 0).mean() for row in run.evals()]
    assert len(rates) == 3
    assert [event.success_rate for event in history_of(run.path).evaluations] == rates
    assert run.manifest["eval"]["success_rate"] == rates[-1]
    assert main(["eval", str(run.path), "--episodes", "10", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["success_rate"] == rates[-1]
    assert main(["eval", str(run.path), "--episodes", "10"]) == 0
    assert f"10 episodes), success rate {100 * rates[-1]:.3g}%." in capsys.readouterr().out


@pytest.mark.parametrize(("successes", "good"), [([True, None], True), ("yes", False), ([1, 0], False)])
def test_successes_of_a_stored_session_are_truth_values(successes: Any, good: bool) -> None:
    state = {
        "since_row": [], "elapsed": 1.0, "start_step": 0, "best": None, "evaluated_at": [1, 1], "said_long": False,
        "owed": False, "evaluation": {"returns": [1.0], "lengths": [3], "successes": successes},
    }  # fmt: skip
    if good:
        require_session(state)
        return
    with pytest.raises(ValueError, match="successes"):
        require_session(state)
