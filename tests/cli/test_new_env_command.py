"""`steadyrl new-env`: what it writes is correct, and passes its own test."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from steadyrl.cli.main import main


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new")
    assert main(["new-env", "my_task", "--dir", str(folder)]) == 0
    return folder


def test_both_files_are_written_and_pass(written: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == ["my_task.py", "test_my_task.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(written)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=written)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_a_fault_in_it_turns_its_test_red(written: Path, tmp_path: Path) -> None:
    text = (written / "my_task.py").read_text()
    assert text.count("self.steps = 0\n") == 2
    head, _, tail = text.rpartition("self.steps = 0\n")
    (tmp_path / "my_task.py").write_text(f"{head}self.steps = self.steps\n{tail}")
    (tmp_path / "test_my_task.py").write_text((written / "test_my_task.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "checker", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "reset-leak" in done.stdout


def test_it_says_where_and_what_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("2-poles", "ünï", "class"):
        assert main(["new-env", name, "--dir", str(tmp_path)]) == 2
        assert "cannot be the name of a module that can be imported everywhere" in capsys.readouterr().err
    assert main(["new-env", "two-poles", "--dir", str(tmp_path / "deep"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["env"] == f"{tmp_path / 'deep' / 'two_poles.py'}:TwoPoles"
    assert all(Path(file).is_file() for file in told["files"])


def test_files_are_not_overwritten_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_mine.py").write_text("precious")
    assert main(["new-env", "mine", "--dir", str(tmp_path)]) == 2
    assert "test_mine.py exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]
    assert main(["new-env", "mine", "--dir", str(tmp_path), "--force"]) == 0
    assert "precious" not in (tmp_path / "test_mine.py").read_text()


def test_it_needs_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-env"]) == 2
    assert "needs a name" in capsys.readouterr().err


def test_what_a_full_disk_kept_from_being_written_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, text: str, encoding: str) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "task.py").touch()
    monkeypatch.setattr(Path, "write_text", full)
    assert main(["new-env", "other", "--dir", str(tmp_path)]) != 0
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*.py")] == ["task.py"]
    assert main(["new-env", "task", "--dir", str(tmp_path), "--force"]) != 0
    assert (tmp_path / "task.py").exists()
