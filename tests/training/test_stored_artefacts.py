"""What earlier versions wrote is read for ever: files of theirs, as they were, lie in `tests/artefacts`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import steadyrl as srl
from steadyrl.training.checkpoint import POLICY, find_checkpoint, read_index, verify
from steadyrl.training.resuming import read_state
from steadyrl.training.saving import STATE

DATA = Path(__file__).parent.parent / "artefacts"


def test_a_checkpoint_of_version_1_gives_its_agent() -> None:
    """It held the policy alone, and its index no checksum of itself."""
    path = find_checkpoint(DATA / "checkpoint-version-1", "final")
    assert verify(path.parent)["files"].keys() == {POLICY}
    agent = srl.load(path)
    assert (agent.algo, agent.num_timesteps) == ("dqn", 40)
    assert (
        agent.policy.sha256() == srl.load(DATA / "run-version-2" / "checkpoints" / "step_40" / POLICY).policy.sha256()
    )


def test_a_run_of_version_2_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(DATA / "run-version-2", run)
    index = read_index(run / "checkpoints" / "step_40")
    assert (index["version"], index["step"]) == (2, 40)
    assert read_state(run / "checkpoints" / "step_40")["loop"]["stepper"]["timesteps"] == 40
    done = srl.resume(run, say=lambda notice: None)
    assert done.status == "finished"
    assert done.agent.num_timesteps == 80
    assert done.manifest["lineage"][0]["from_step"] == 40
    steps = [row["step"] for row in done.episodes()]
    assert steps == sorted(steps)
    assert min(steps) < 40 < max(steps)


@pytest.mark.parametrize("name", [STATE, POLICY])
def test_what_is_stored_here_was_not_touched(name: str) -> None:
    """A checkout that changed line ends, say, is told of here and not by some other test."""
    assert verify(DATA / "run-version-2" / "checkpoints" / "step_40")["files"][name]["size"] > 0
