import contextlib
import json
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from steadyrl.cli.main import main
from steadyrl.cli.train_command import TrainOptions, changed_settings, parse, score
from steadyrl.configs import PPOConfig
from steadyrl.configs.run import RunSettings
from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.events import Listener, Notice
from steadyrl.training.plan import Plan
from steadyrl.training.signals import STATUS, signalled


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


SUMMARY = {
    "run": "somewhere",
    "algo": "ppo",
    "env": "CartPole-v1",
    "seed": 0,
    "total_timesteps": 1000,
    "status": "finished",
    "signal": None,
    "fps": 500.0,
    "wall_s": 2.0,
    "weights_sha256": "0" * 64,
    "eval": {"mean": 499.5, "std": 1.25, "ci95": [498.0, 500.0], "episodes": 10},
}


def fake_run(monkeypatch: pytest.MonkeyPatch, execute: Callable[..., dict[str, Any]]) -> None:
    """Puts a stand-in for the training in place; `execute` returns the summary."""
    module = ModuleType("steadyrl.training.run")

    def run(plan: Plan, listeners: Sequence[Listener], say: Callable[[Notice], None]) -> SimpleNamespace:
        for notice in plan.setup.notices:
            say(notice)
        summary = execute(plan)
        return SimpleNamespace(path=plan.run_dir, summary=lambda: summary, close=lambda: None)

    module.execute = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "steadyrl.training.run", module)


def test_words_become_algorithm_environment_values_and_options() -> None:
    line = "--seed 3 PPO CartPole-v1 --n_steps=8 --learning-rate-end 0 --json --exp-name tag --preset none"
    algo, env, values, options = parse([*line.split(), "--total-timesteps", "1e3", "--env-kwargs", "a=1"])
    assert (algo, env) == ("ppo", "CartPole-v1")
    assert values == {"seed": 3, "n_steps": 8, "learning_rate_end": 0.0, "name": "tag", "env_kwargs": {"a": 1}}
    assert options == TrainOptions(total_timesteps=1000, preset="none", json=True)


def test_the_environment_may_be_a_flag_as_in_cleanrl() -> None:
    assert parse(["a2c", "--env-id", "CartPole-v1"])[:2] == ("a2c", "CartPole-v1")


def test_swapped_words_are_told_their_order() -> None:
    with pytest.raises(UserError, match="The algorithm is the first word and the environment the second") as caught:
        parse(["CartPole-v1", "PPO", "--seed", "1"])
    assert caught.value.remedy == "Type steadyrl train ppo CartPole-v1."


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_the_name_of_an_algorithm_may_be_a_value(algo: str) -> None:
    assert parse(["--name", "ppo", algo, "CartPole-v1"])[0] == algo


def test_help_shows_every_flag_in_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["train", "ppo", "CartPole-v1", "--help"]) == 0
    out = capsys.readouterr().out
    for cls in (TrainOptions, RunSettings, PPOConfig):
        for field in fields(cls):
            flag = field.name.replace("_", "-")
            assert f"--{flag} " in out or f"--[no-]{flag}" in out
    assert "--learning-rate-end X" in out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "preset 256" in out
    assert out.splitlines()[-1].startswith("  steadyrl train ppo CartPole-v1 --seed 1")
    headings = ("run:", "hyperparameters:", "environment:", "seeds:", "checkpoints:", "failures:", "output:")
    places = [out.index(f"\n{heading}\n") for heading in headings]
    assert places == sorted(places)


def test_the_folder_is_named_before_training_and_everything_after(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before: list[str] = []

    def execute(plan: Plan) -> dict[str, Any]:
        before.append(capsys.readouterr().out)
        assert plan.setup.settings.seed == 5
        return SUMMARY

    fake_run(monkeypatch, execute)
    assert main(["train", "ppo", "CartPole-v1", "--seed", "5", "--num-envs", "2", "--run-dir", "out"]) == 0
    assert before[0].splitlines() == [
        "Run folder: out",
        "ppo on CartPole-v1, 100,000 steps, seed 5.",
        "Settings: preset CartPole-v1; set by you: num_envs.",
        "  source: DLR-RM/rl-baselines3-zoo@22e3ff2450fd hyperparams/ppo.yml",
        "batch_size is 64 (n_steps * num_envs) instead of the preset's 256, which a rollout cannot fill.",
        "Observation: float32 numbers of shape (4,) -> 4 numbers. Action: one of 2.",
    ]
    after = capsys.readouterr().out.splitlines()
    assert after[:3] == [
        "Finished: 1,000 steps in 2.0 s (500 steps per second).",
        "Evaluation of the final agent: 499.5 +- 1.2 (std; 95% interval 498.0..500.0, 10 episodes).",
        "Run folder   out",
    ]
    assert after[-2:] == ["Go on with   steadyrl eval out", "             steadyrl record out"]
    assert any(line.startswith("TensorBoard  tensorboard --logdir out") for line in after)


def test_what_cannot_be_filmed_is_not_to_be_recorded(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_run(monkeypatch, lambda *args, **options: SUMMARY)
    Path("blind.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\n"
        "class Blind(CartPoleEnv):\n    metadata = {'render_modes': ['human'], 'render_fps': 30}\n"
    )
    assert main(["train", "ppo", "blind.py:Blind", "--run-dir", "out"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Go on with   steadyrl eval out"


def test_commands_to_go_on_with_can_be_pasted(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_run(monkeypatch, lambda *args, **options: SUMMARY)
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", "my out"]) == 0
    after = capsys.readouterr().out.splitlines()
    assert after[-2:] == ["Go on with   steadyrl eval 'my out'", "             steadyrl record 'my out'"]
    assert any(line.startswith("TensorBoard  tensorboard --logdir 'my out'") for line in after)


def test_with_json_stdout_is_one_document(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_run(monkeypatch, lambda plan: SUMMARY)
    assert main(["train", "ppo", "CartPole-v1", "--json", "--run-dir", "out"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == SUMMARY
    assert err.startswith("Run folder: out\n")


@pytest.mark.parametrize(
    ("status", "signal", "code"),
    [
        ("finished", None, 0),
        ("stopped", None, 0),
        ("interrupted", "SIGINT", 130),
        ("preempted", "SIGTERM", 143),
        ("preempted", "SIGUSR1", 138),
        ("failed", None, 3),
    ],
)
def test_the_exit_status_tells_how_the_run_ended(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: str,
    signal: str | None,
    code: int,
) -> None:
    evaluated = SUMMARY["eval"] if status == "finished" else None
    fake_run(monkeypatch, lambda plan: {**SUMMARY, "status": status, "signal": signal, "eval": evaluated})
    assert main(["train", "a2c", "CartPole-v1", "--run-dir", "out"]) == code
    assert (status == "finished") == ("Evaluation of the final agent" in capsys.readouterr().out)


def test_a_run_that_fails_is_status_3_with_the_cause(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(plan: Plan) -> dict[str, Any]:
        raise RunFailedError("The loss is NaN at step 7.", remedy="Lower --learning-rate.", code="non-finite")

    fake_run(monkeypatch, execute)
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", "out"]) == 3
    assert capsys.readouterr().err == "error: The loss is NaN at step 7.\nLower --learning-rate.\n"


def test_an_unforeseen_failure_leaves_its_traceback_in_the_run_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_run(monkeypatch, lambda plan: {"no": "status"})
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", "out"]) == 3
    assert "KeyError" in capsys.readouterr().err
    assert "Traceback" in (here / "out" / "error.txt").read_text()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (signalled("SIGTERM"), "preempted", 143),
        (signalled("SIGUSR1"), "preempted", 138),
        (ImportError("torch"), "failed", 3),
    ],
)
def test_a_run_that_ends_while_torch_is_imported_does_not_look_alive(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: str,
    code: int,
) -> None:
    class Broken(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise error

    monkeypatch.setitem(sys.modules, "steadyrl.training.run", Broken("steadyrl.training.run"))
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", "out", "--json"]) == code
    assert json.loads((here / "out" / "manifest.json").read_text())["status"] == status
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["code"] == ("unexpected" if status == "failed" else status)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_a_signal_outside_the_loop_has_its_status_whatever_foreign_code_makes_of_it(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(plan: Plan) -> dict[str, Any]:
        try:
            signal.raise_signal(getattr(signal, name))
        except BaseException as error:
            raise RunFailedError("The worker ended.") from error
        raise AssertionError("no signal came")

    before = signal.getsignal(signal.SIGTERM)
    fake_run(monkeypatch, execute)
    code = 128 + int(getattr(signal, name))
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", "out"]) == code
    manifest = json.loads((here / "out" / "manifest.json").read_text())
    assert (manifest["status"], manifest["signal"]) == (STATUS[name], name)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_foreign_code_swallows_still_ends_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(plan: Plan) -> dict[str, Any]:
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        return SUMMARY

    fake_run(monkeypatch, execute)
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", "out"]) == 143
    assert json.loads((here / "out" / "manifest.json").read_text())["status"] == "preempted"


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("bye"), GeneratorExit()])
def test_code_that_ends_the_program_is_a_failed_run(
    error: BaseException, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(plan: Plan) -> dict[str, Any]:
        raise error

    fake_run(monkeypatch, execute)
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", "out", "--json"]) == 3
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["code"] == "env-exit"
    assert type(error).__name__ in told["message"]
    assert "CartPole-v1" in told["message"]
    manifest = json.loads((here / "out" / "manifest.json").read_text())
    assert (manifest["status"], manifest["error_file"]) == ("failed", "error.txt")
    assert str(Path("out/error.txt")) in told["remedy"]
    assert type(error).__name__ in (here / "out" / "error.txt").read_text()


def test_code_that_ends_the_program_while_preparing_is_bad_input(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    assert main(["train", "ppo", "leaves.py:Env", "--json"]) == 2
    assert "SystemExit" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert [path.name for path in here.iterdir() if path.name != "__pycache__"] == ["leaves.py"]


def test_bad_input_that_shows_late_leaves_no_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(plan: Plan) -> dict[str, Any]:
        raise UserError("There is no such device.")

    fake_run(monkeypatch, execute)
    for where in (["--run-dir", "a/b/out"], []):
        assert main(["train", "ppo", "CartPole-v1", *where]) == 2
        assert list(here.iterdir()) == []


def test_warnings_are_told_without_a_display(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("steadyrl.training.run")

    def run(plan: Plan, listeners: Sequence[Listener], say: Callable[[Notice], None]) -> SimpleNamespace:
        for listener in listeners:
            listener(Notice("long-episode", "It does not end.", "warning"))
            listener(Notice("other", "By the way.", "note"))
        return SimpleNamespace(summary=lambda: SUMMARY, close=lambda: None)

    module.execute = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "steadyrl.training.run", module)
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", "out", "--quiet"]) == 0
    assert capsys.readouterr().err == "warning: It does not end.\n"


def test_a_score_without_an_interval() -> None:
    assert score({"mean": 1.0, "std": 0.0, "ci95": [None, None], "episodes": 1}) == "1.00 +- 0.00 (std; 1 episode)"


@pytest.mark.parametrize(
    ("mean", "std", "said"),
    [
        (0.0, 0.0, "0.0 +- 0.0"),
        (0.98, 0.0, "0.980 +- 0.000"),
        (0.0123, 0.004, "0.0123 +- 0.0040"),
        (-1.5, 25.0, "-1.5 +- 25.0"),
        (-9.4, 0.8, "-9.40 +- 0.80"),
        (4821.25, 13.0, "4821.2 +- 13.0"),
        (1e-30, 0.0, "0.000000000 +- 0.000000000"),
        (float("nan"), float("nan"), "nan +- nan"),
    ],
)
def test_a_small_score_is_shown_with_more_decimals(mean: float, std: float, said: str) -> None:
    assert score({"mean": mean, "std": std, "ci95": [None, None], "episodes": 3}) == f"{said} (std; 3 episodes)"


def test_only_flags_of_the_algorithm_are_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "ppo", "CartPole-v1", "--polcy-delay", "3"]) == 2
    assert "--policy-delay" not in capsys.readouterr().err
    assert main(["train", "td3", "Pendulum-v1", "--polcy-delay", "3"]) == 2
    assert "Did you mean --policy-delay" in capsys.readouterr().err


def test_settings_of_the_run_are_among_those_set_by_the_user() -> None:
    settings = RunSettings(env="CartPole-v1", seed=3, frame_stack=4, env_kwargs={"a": 1}, name="x", vec="sync")
    assert changed_settings(settings) == ["frame_stack", "vec", "env_kwargs"]
    assert changed_settings(RunSettings(env="CartPole-v1")) == []
