"""What is given to `load` and is no saved agent is told as what it is, with the call that works."""

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steadyrl as srl
from steadyrl.training.agent import Agent
from support.stored_run import stored_run

NOT_OURS = "Stable-Baselines3 saves as NAME.zip"


def refused(path: Any) -> srl.UserError:
    with pytest.raises(srl.UserError) as caught:
        srl.load(path)
    return caught.value


def by_the_remedy(error: srl.UserError) -> Agent:
    """The agent of the one call that the remedy names."""
    told = re.fullmatch(r"Use (steadyrl\.[^ ]+)\.", error.remedy)
    assert told is not None
    code = told[1]
    path = re.search(r'"(.*)"', code)
    assert path is not None
    if code.startswith("steadyrl.load("):
        assert code == f'steadyrl.load("{path[1]}")'
        return srl.load(path[1])
    assert code == f'steadyrl.Run.open("{path[1]}").load_agent()'
    return srl.Run.open(path[1]).load_agent()


@pytest.fixture
def run(tmp_path: Path) -> srl.Run:
    small: dict[str, Any] = {"preset": "none", "n_steps": 16, "batch_size": 16, "net_arch": (4,), "eval_episodes": 1}
    return srl.train("ppo", "CartPole-v1", total_timesteps=32, run_dir=tmp_path / "first", **small)


def test_a_run_folder_is_opened_as_one(run: srl.Run) -> None:
    error = refused(str(run.path))
    assert (error.message, error.code) == (f"{run.path} is a run folder, not a saved agent.", "not-a-bundle")
    agent = by_the_remedy(error)
    assert agent.policy.sha256() == run.agent.policy.sha256()
    assert agent.setup is not None


def test_a_saved_agent_goes_before_a_run_folder_of_its_name(run: srl.Run) -> None:
    run.agent.save(run.path)
    assert srl.load(run.path).policy.sha256() == run.agent.policy.sha256()


def test_the_folder_of_a_checkpoint_is_sent_to_its_file(tmp_path: Path) -> None:
    folder = stored_run(tmp_path) / "checkpoints" / "step_40"
    error = refused(folder)
    assert error.message == f"{folder} is the folder of a checkpoint, not a saved agent."
    assert by_the_remedy(error).num_timesteps == 40


def test_other_folders_are_no_saved_agents(tmp_path: Path) -> None:
    assert refused(tmp_path).code == "no-such-file"
    assert refused(tmp_path / "nothing").code == "no-such-file"


@pytest.mark.parametrize("named", ["cartpole.zip", "cartpole"])
def test_what_another_library_saved_is_told(named: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "cartpole.zip", "w") as file:
        file.writestr("policy.pth", b"")
    with pytest.raises(srl.UserError, match=NOT_OURS) as caught:
        srl.PPO.load(tmp_path / named)
    assert str(tmp_path / "cartpole.zip") in caught.value.message
    assert "docs/migration.md" in caught.value.remedy


def test_a_missing_zip_is_told_too(tmp_path: Path) -> None:
    assert NOT_OURS in refused(tmp_path / "cartpole.zip").message
    assert NOT_OURS not in refused(tmp_path / "cartpole.srl").message


def test_our_own_file_under_such_a_name_is_loaded(tmp_path: Path) -> None:
    agent = srl.PPO("CartPole-v1", preset="none", net_arch=(4,))
    agent.save(tmp_path / "one.zip")
    agent.save(tmp_path / "two").rename(tmp_path / "two.zip")
    for name in ("one.zip", "two.zip"):
        assert srl.load(tmp_path / name).policy.sha256() == agent.policy.sha256()


def test_a_damaged_bundle_is_told_as_one(tmp_path: Path) -> None:
    path = tmp_path / "cartpole.srl"
    path.write_bytes(np.zeros(9, dtype=np.uint8).tobytes())
    assert refused(path).code == "bad-bundle"
