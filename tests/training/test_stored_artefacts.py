"""What earlier versions wrote is read for ever: files of theirs, as they were, lie in `tests/artefacts`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces as gs

import steadyrl as srl
from steadyrl import kernels as native
from steadyrl.training.checkpoint import POLICY, read_index, verify
from steadyrl.training.finding import find_checkpoint
from steadyrl.training.resuming import read_state
from steadyrl.training.saving import STATE
from support.trees import Sampler

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


class Camera(Sampler):
    """What the stored bundle of images was trained in, by a version whose only network was an MLP."""

    space = gs.Dict(
        {"image": gs.Box(0, 255, (5, 4, 3), np.uint8), "room": gs.Discrete(3, start=-1), "v": gs.Box(-1, 1, (2,))}
    )

    def __init__(self) -> None:
        super().__init__(self.space, gs.Discrete(3))


@pytest.mark.parametrize("kernels", ["native", "torch"])
def test_a_policy_of_before_image_networks_acts_as_it_did(kernels: str) -> None:
    if kernels == "native" and not native.available():
        pytest.skip(native.reason())
    told = json.loads((DATA / "bundle-flat-image.json").read_text())
    agent = srl.load(DATA / "bundle-flat-image.srl", kernels=kernels)
    assert agent.policy.sha256() == told["sha256"]
    space = Camera.space
    space.seed(told["seed"])
    rows = [space.sample() for _ in told["actions"]]
    obs = {key: np.array([row[key] for row in rows]) for key in space.spaces}
    assert agent.predict(obs, deterministic=True)[0].tolist() == told["actions"]
    np.testing.assert_allclose(agent.value(obs), told["values"], rtol=1e-4)


def test_a_policy_of_before_image_networks_learns_on() -> None:
    agent = srl.load(DATA / "bundle-flat-image.srl", env=Camera)
    assert agent.config.cnn == "none"
    before = agent.policy.sha256()
    agent.learn(64)
    assert agent.policy.sha256() != before
    agent.close()
