import errno
import json
import re
from pathlib import Path

import pytest

from steadyrl.cli.session import Session, finite, guarded
from steadyrl.errors import RunFailedError, UserError


def fails(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (UserError("Bad key.", remedy="Drop it."), 2, "error: Bad key.\nDrop it.\n"),
        (RunFailedError("Loss is NaN.", remedy="Lower the rate."), 3, "error: Loss is NaN.\nLower the rate.\n"),
        (KeyboardInterrupt(), 130, "\nInterrupted.\n"),
    ],
)
def test_each_kind_of_error_has_its_status_and_message(
    error: BaseException, status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(lambda: fails(error), Session()) == status
    assert capsys.readouterr() == ("", text)


def test_the_status_of_a_good_call_is_its_own() -> None:
    assert guarded(lambda: 7, Session()) == 7


def test_an_unforeseen_error_leaves_its_traceback_in_the_run_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    session = Session(json=True, run_dir=tmp_path)
    assert guarded(lambda: fails(ZeroDivisionError("by\nzero")), session) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "unexpected"
    assert error["message"] == "Unexpected ZeroDivisionError: by"
    assert str(tmp_path / "error.txt") in error["remedy"]
    assert "in fails" in (tmp_path / "error.txt").read_text()


def test_without_a_run_folder_the_traceback_is_in_a_temporary_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert guarded(lambda: fails(KeyError("x")), Session()) == 3
    err = capsys.readouterr().err
    assert len(err.splitlines()) <= 8
    found = re.search(r"The details are in (\S+\.txt)\.", err)
    assert found is not None
    assert "KeyError: 'x'" in Path(found[1]).read_text()


def test_debug_mode_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADYRL_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: fails(ZeroDivisionError()), Session())


def test_a_full_disk_is_told_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl")
    assert guarded(lambda: fails(error), Session(run_dir=tmp_path)) == 3
    err = capsys.readouterr().err
    assert err.startswith("error: No space is left on the disk that holds metrics.jsonl.\n")
    assert str(tmp_path) in err


def test_words_go_to_stderr_where_stdout_belongs_to_json(capsys: pytest.CaptureFixture[str]) -> None:
    Session(json=True).say("hello")
    Session().say("world")
    assert capsys.readouterr() == ("world\n", "hello\n")


def test_json_has_no_nan() -> None:
    nan, infinity = float("nan"), float("inf")
    assert finite({"a": [1.0, nan], "b": (infinity, -infinity), "c": "nan"}) == {
        "a": [1.0, None],
        "b": [None, None],
        "c": "nan",
    }
