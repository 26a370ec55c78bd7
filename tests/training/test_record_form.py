"""Records of a run that hold something else than a run writes are refused with the place named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.cli.main import main
from steadyrl.errors import UserError
from steadyrl.training.equivalence import what_of
from steadyrl.training.files import MAX_JSON, read_json
from steadyrl.training.record_form import CONFIG, MANIFEST, VERSION, checked, refuse_newer, require
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.taking_up import setup_of
from support.stored_run import stored_run

CONFIGURATION: dict[str, Any] = {
    "algo": "ppo",
    "total_timesteps": 64,
    "hyperparameters": {"n_steps": 32, "num_envs": 1, "batch_size": 32},
    "settings": {
        "env": "CartPole-v1",
        "env_kwargs": {},
        "max_episode_steps": None,
        "seed": 1,
        "eval_seed": 2,
        "threads": None,
        "kernels": "auto",
        "device": "auto",
    },
}
RECORD: dict[str, Any] = {
    "status": "stopped",
    "algo": "ppo",
    "env": {"id": "CartPole-v1"},
    "working_directory": "/",
    "timesteps": 64,
    "wall_s": 2,
}


def folder(path: Path, config: Any = CONFIGURATION, manifest: Any = RECORD) -> RunFolder:
    (path / "config.json").write_text(json.dumps(config))
    (path / "manifest.json").write_text(json.dumps(manifest))
    return RunFolder.open(path)


def without(document: dict[str, Any], way: str) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(document))
    place = copy
    *path, last = way.split("/")
    for name in path:
        place = place[name]
    del place[last]
    return copy


def test_a_good_record_is_taken(tmp_path: Path) -> None:
    assert setup_of(folder(tmp_path)).resolved.algo == "ppo"
    assert srl.Run.open(tmp_path).summary()["fps"] == 32
    assert what_of(tmp_path) == ("ppo", "CartPole-v1")


@pytest.mark.parametrize("way", ["algo", "total_timesteps", "hyperparameters", "settings", "settings/env"])
def test_what_a_configuration_lacks_is_named(way: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"config.json cannot be used: it lacks '{way.replace('/', '.')}'") as caught:
        setup_of(folder(tmp_path, without(CONFIGURATION, way)))
    assert caught.value.code == "unreadable"
    assert caught.value.remedy == "Restore the file, or train again."


@pytest.mark.parametrize("way", ["status", "working_directory"])
def test_what_a_manifest_lacks_is_named(way: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"manifest.json cannot be used: it lacks '{way}'"):
        setup_of(folder(tmp_path, manifest=without(RECORD, way)))


@pytest.mark.parametrize(
    "name", ["seed", "eval_seed", "threads", "kernels", "device", "env_kwargs", "max_episode_steps"]
)
def test_a_summary_needs_the_settings(name: str, tmp_path: Path) -> None:
    folder(tmp_path, without(CONFIGURATION, f"settings/{name}"))
    with pytest.raises(UserError, match=f"it lacks 'settings.{name}'"):
        srl.Run.open(tmp_path).summary()


def test_a_status_and_an_environment_are_needed(tmp_path: Path) -> None:
    folder(tmp_path, manifest={})
    with pytest.raises(UserError, match="it lacks 'status'"):
        _ = srl.Run.open(tmp_path).status
    folder(tmp_path, manifest=without(RECORD, "env"))
    with pytest.raises(UserError, match="it lacks 'env'"):
        srl.Run.open(tmp_path).summary()
    for name in ("env", "algo"):
        folder(tmp_path, manifest=without(RECORD, name))
        with pytest.raises(UserError, match=f"it lacks '{name}'"):
            what_of(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
@pytest.mark.parametrize("command", ["eval", "record", "resume"])
def test_what_a_newer_steadyrl_made_is_refused(
    name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stored_run(tmp_path)
    document = json.loads((run / name).read_text())
    assert document["version"] == VERSION
    (run / name).write_text(json.dumps(document | {"version": VERSION + 98}))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert main([command, str(run), *(["--checkpoint", "40"] if command != "resume" else [])]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{run / name} is of version 99 and was made by a newer steadyrl; this one reads version 1." in said
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_versions_up_to_this_ones_are_read() -> None:
    for version in (None, 0, 1, 1.0, "2"):
        refuse_newer(Path("f"), {} if version is None else {"version": version})
    for newer in (2, 1.5):
        with pytest.raises(UserError, match=r"f is of version .* and was made by a newer steadyrl") as caught:
            refuse_newer(Path("f"), {"version": newer})
        assert caught.value.code == "newer-version"


@pytest.mark.parametrize("form", [CONFIG, MANIFEST])
def test_each_name_has_its_type(form: dict[str, tuple[type, ...]]) -> None:
    for name, kinds in form.items():
        odd: tuple[Any, ...] = ("x", 1, 1.5, True, None, [], {})
        for value in odd:
            if type(value) in kinds:
                assert checked(Path("f"), {name: value}, form) == {name: value}
            else:
                with pytest.raises(UserError, match=f"f cannot be used: '{name}' is .*, not {kinds[0].__name__}"):
                    checked(Path("f"), {name: value}, form)


def test_settings_are_looked_at_as_well() -> None:
    with pytest.raises(UserError, match=r"'settings.threads' is 'x', not int or null"):
        checked(Path("f"), {"settings": {"threads": "x"}}, CONFIG)
    require(Path("f"), {"a": None}, ["a"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": NaN}', "it is not strict JSON"),
        ('{"a": 1, "a": 1}', "it is not strict JSON (a key stands twice)"),
        ("[" * 100_000, "it is not strict JSON"),
        ("[1]", "it is not an object"),
        ("", "it is not strict JSON"),
    ],
)
def test_json_is_strict(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UserError) as caught:
        read_json(tmp_path / "x.json")
    assert f"{tmp_path / 'x.json'} cannot be read: {told}" in caught.value.message
    assert caught.value.code == "unreadable"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="cannot be read: it is no regular file"):
        read_json(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_JSON + 1)
    with pytest.raises(UserError, match=f"it has {MAX_JSON + 1} bytes, more than the {MAX_JSON} that it may have"):
        read_json(tmp_path / "huge")
    with pytest.raises(UserError, match="does not exist"):
        read_json(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UserError, match="cannot be read: Too many levels of symbolic links"):
        read_json(tmp_path / "loop")
