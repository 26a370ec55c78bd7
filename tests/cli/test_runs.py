import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from steadyrl.cli.main import main
from steadyrl.cli.runs import Found, find_run, runs_below
from steadyrl.errors import UserError
from steadyrl.training.checkpoint import Contents, save_checkpoint

STATE = Contents({"state.json": b"{}"})


def make_run(path: Path, started: str = "2026-01-01T00:00:00+00:00", status: str = "finished") -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    (path / "manifest.json").write_text(json.dumps({"started": started, "status": status}))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_folder_is_itself(here: Path) -> None:
    run = make_run(here / "elsewhere")
    assert find_run(str(run), "eval") == Found(run)


@pytest.mark.parametrize("word", ["latest", "runs", ".", "runs/Zoo-v0"])
def test_the_newest_run_is_the_one_that_began_last_whatever_its_name(here: Path, word: str) -> None:
    newest = make_run(Path("runs/Aa-v0/ppo/first"), "2026-02-01T00:00:00.250+00:00")
    make_run(Path("runs/Aa-v0/ppo/20991231T000000Z-seed9"), "2026-02-01T00:00:00.125+00:00")
    other = make_run(Path("runs/Zoo-v0/a2c/zzz"), "2025-01-01T00:00:00+00:00")
    assert find_run(word, "eval") == Found(other if word == "runs/Zoo-v0" else newest)


@pytest.mark.parametrize("damage", ["{}", "[1]", "{", '{"started": 7}', '{"started": "soon"}'])
def test_a_manifest_without_a_start_counts_by_its_time(here: Path, damage: str) -> None:
    _, new = (
        make_run(Path("runs/E/ppo") / name, f"{year}-01-01T00:00:00+00:00") for name, year in (("z", 2020), ("y", 2024))
    )
    run = make_run(Path("runs/E/ppo/x"))
    (run / "manifest.json").write_text(damage)
    os.utime(run / "manifest.json", (1.6e9, 1.6e9))  # in 2020
    assert find_run("latest", "eval").path == new
    os.utime(run / "manifest.json", (1.9e9, 1.9e9))  # in 2030
    assert find_run("latest", "eval").path == run


def test_runs_without_an_agent_do_not_win_and_are_named(here: Path) -> None:
    good = make_run(Path("runs/E/ppo/a"), "2026-01-01T00:00:00+00:00")
    for day in (2, 3):
        make_run(Path(f"runs/E/ppo/b{day}"), f"2026-01-0{day}T00:00:00+00:00", "failed")
    found = find_run("latest", "eval", lambda run: run == good)
    assert found == Found(good, f"Passed over 2 newer runs without a usable agent; taken: {good}.")
    with pytest.raises(UserError, match=r"newest is runs/E/ppo/b3 \(failed\)"):
        find_run("latest", "eval", lambda run: False)
    assert find_run("runs/E/ppo/b3", "eval", lambda run: False) == Found(Path("runs/E/ppo/b3"))


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ((300,), "a checkpoint of step 300"),
        ((300, 450, 1000), "checkpoints of the steps 300, 450, 1000"),
        (range(100, 701, 100), "checkpoints of the steps ..., 300, 400, 500, 600, 700"),
    ],
)
def test_a_killed_run_names_its_checkpoints_and_how_it_goes_on(steps: Iterable[int], named: str, here: Path) -> None:
    run = make_run(Path("runs/E/ppo/a b"), status="running")
    for step in steps:
        save_checkpoint(run / "checkpoints", step, b"policy")
    with pytest.raises(UserError) as caught:
        find_run("latest", "record", lambda run: False)
    assert caught.value.message.endswith(f"the newest is runs/E/ppo/a b (running), which has {named}.")
    take = f"Take one: steadyrl record 'runs/E/ppo/a b' --checkpoint {max(steps)}."
    assert caught.value.remedy == take  # policies alone cannot be resumed
    save_checkpoint(run / "checkpoints", 300, b"policy", STATE)
    with pytest.raises(UserError) as caught:
        find_run("latest", "record", lambda run: False)
    assert caught.value.remedy == f"{take} Or let the run go on to its end: steadyrl resume 'runs/E/ppo/a b'."


def test_a_finished_run_is_not_said_to_go_on(here: Path) -> None:
    run = make_run(Path("runs/E/ppo/a"), status="finished")
    for folder, step in (("", 40), ("final", 80), ("best", 40)):
        save_checkpoint(run / "checkpoints" / folder, step, b"policy", STATE)
    with pytest.raises(UserError) as caught:
        find_run("latest", "eval", lambda run: False)
    take = "Take one: steadyrl eval runs/E/ppo/a --checkpoint 40."
    assert caught.value.remedy == f"{take} Its final and best agents can be taken too."


def test_of_a_killed_run_damaged_checkpoints_are_not_offered(here: Path) -> None:
    run = make_run(Path("runs/E/ppo/a"), status="running")
    for step in (40, 80):
        save_checkpoint(run / "checkpoints", step, b"policy", STATE)
    (run / "checkpoints/step_80/policy.srl").write_bytes(b"")
    with pytest.raises(UserError, match=r"which has a checkpoint of step 40\.") as caught:
        find_run("latest", "eval", lambda run: False)
    assert caught.value.remedy.startswith("Take one: steadyrl eval runs/E/ppo/a --checkpoint 40. Or let the run go on")
    (run / "checkpoints/step_40/policy.srl").write_bytes(b"")
    with pytest.raises(UserError, match=r"the newest is runs/E/ppo/a \(running\), and its checkpoints are damaged\."):
        find_run("latest", "eval", lambda run: False)


def test_a_folder_of_another_program_is_no_run(here: Path) -> None:
    (here / "models/bert").mkdir(parents=True)
    (here / "models/bert/config.json").write_text("{}")
    with pytest.raises(UserError, match="no run lies up to 5 levels below"):
        find_run("models", "eval")


def test_the_home_folder_may_be_a_tilde(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    run = make_run(here / "mine")
    assert find_run("~/mine", "eval") == Found(run)


def test_a_saved_agent_is_sent_to_python(here: Path) -> None:
    (here / "cartpole.srl").write_bytes(b"PK")
    with pytest.raises(UserError, match="is a saved agent") as caught:
        find_run("cartpole.srl", "eval")
    assert 'steadyrl.load("cartpole.srl"' in caught.value.remedy
    assert caught.value.remedy.endswith("steadyrl.evaluate(agent).")


@pytest.mark.parametrize(
    ("command", "done"), [("resume", "agent.learn(100_000)"), ("record", 'env = agent.make_env("rgb_array")')]
)
def test_a_saved_agent_is_sent_to_what_works_with_it(command: str, done: str, here: Path) -> None:
    (here / "cartpole.srl").write_bytes(b"PK")
    with pytest.raises(UserError, match=f"`steadyrl {command}` takes a run folder") as caught:
        find_run("cartpole.srl", command)
    assert caught.value.remedy.startswith(f'In Python: agent = steadyrl.load("cartpole.srl", env=...); {done}')


def test_what_is_no_run_says_why_and_what_to_do(here: Path) -> None:
    with pytest.raises(UserError, match="does not exist") as caught:
        find_run("latest", "eval")
    assert "steadyrl train" in caught.value.remedy
    (here / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        find_run("file", "eval")
    (here / "empty").mkdir()
    with pytest.raises(UserError, match=r"no config\.json"):
        find_run("empty", "eval")
    with pytest.raises(UserError, match="needs a run folder"):
        find_run(None, "eval")


def test_a_wrong_folder_points_to_the_newest_run(here: Path) -> None:
    make_run(here / "runs/A-v0/ppo/20260101T000000Z-seed0")
    with pytest.raises(UserError, match="20260101T000000Z-seed0"):
        find_run("other", "record")


@pytest.mark.parametrize("command", ["resume", "eval", "record", "reproduce", "reproduce --statistical"])
def test_an_empty_word_is_not_the_current_folder(command: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(here / "runs/A-v0/ppo/a")
    assert main([*command.split(), ""]) == 2
    error = capsys.readouterr().err
    assert f"`steadyrl {command}` has '' as its run folder." in error
    assert "runs/A-v0/ppo/a" not in error
    assert runs_below(".", command) == [Path("runs/A-v0/ppo/a")]
