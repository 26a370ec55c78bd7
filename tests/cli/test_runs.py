from pathlib import Path

import pytest

from steadyrl.cli.runs import find_run
from steadyrl.errors import UserError


def make_run(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_folder_is_itself(here: Path) -> None:
    run = make_run(here / "elsewhere")
    assert find_run(str(run), "eval") == run


@pytest.mark.parametrize("word", ["latest", "runs", "runs/Zoo-v0"])
def test_the_newest_run_below_a_folder(here: Path, word: str) -> None:
    make_run(here / "runs/Aa-v0/ppo/20260101T000000Z-seed9")
    make_run(here / "runs/Zoo-v0/a2c/20250101T000000Z-seed0")
    if word == "runs/Zoo-v0":
        assert find_run(word, "eval") == Path("runs/Zoo-v0/a2c/20250101T000000Z-seed0")
    else:
        assert find_run(word, "eval") == Path("runs/Aa-v0/ppo/20260101T000000Z-seed9")


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
