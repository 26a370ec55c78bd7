"""What cannot fit is refused from its numbers alone, with the size and the memory that is free."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from gymnasium import spaces

import steadyrl as srl
from steadyrl.configs import PPOConfig
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.training import sizes
from steadyrl.training.setup import prepare_training
from steadyrl.training.sizes import check_sizes
from support.envs import SpaceProbe

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"net_arch": (10**12,)}, "The networks (net_arch (1000000000000,) on 4 inputs and 2 outputs)"),
        ({"net_arch": (10**7, 10**7)}, "200,000"),
        ({"net_arch": {"pi": (8,), "vf": (10**9, 10**9)}}, "GiB"),
        ({"net_arch": (1,) * 501}, "net_arch has 1002 hidden layers, but at most 1000"),
        ({"n_steps": 10**12}, "A rollout of n_steps 1000000000000 * num_envs 1 transitions would take"),
        ({"num_envs": 10**9}, "num_envs is 1000000000, but at most 65536 are possible."),
        ({"num_envs": 65_536, "vec": "async"}, "65536 processes for vec='async' would take 2,560.0 GiB of memory"),
    ],
)
def test_impossible_sizes_are_refused_before_the_run_folder(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(srl.UserError) as caught:
        srl.train("ppo", "CartPole-v1", preset="none", run_dir=tmp_path / "run", total_timesteps=10, **options)
    assert said in caught.value.message
    assert caught.value.code == "too-large"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("observation", "action", "options", "said"),
    [
        (spaces.Discrete(2**40), spaces.Discrete(2), {"embed_above": 0}, "1,099,511,627,776 inputs"),
        (spaces.Discrete(2**40), spaces.Discrete(2), {}, "64 inputs, made by 70,368,744,177,664 weights"),
        (BOX, spaces.Discrete(2**40), {}, "1,099,511,627,776 outputs"),
    ],
)
def test_spaces_of_too_many_values_are_refused(
    observation: Any, action: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(srl.UserError, match=said):
        prepare_training("ppo", partial(SpaceProbe, observation, action), options, preset="none")


@pytest.mark.parametrize(
    ("observation", "action"),
    [
        (spaces.Dict({f"{i:0100}": BOX for i in range(6000)}), spaces.Discrete(2)),
        (BOX, spaces.MultiBinary(200_000)),
        (BOX, spaces.Box(-1.0, 1.0, (50_000,), np.float32)),
    ],
)
def test_spaces_that_a_bundle_cannot_describe_are_refused(observation: Any, action: Any) -> None:
    with pytest.raises(srl.UserError, match="The description of the spaces takes"):
        prepare_training("ppo", partial(SpaceProbe, observation, action), {"net_arch": (4,)}, preset="none")


def test_the_memory_that_is_free_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    config = PPOConfig(n_steps=1000, num_envs=100)
    obs, action = ObsSpec.of(spaces.Box(-1.0, 1.0, (20,), np.float32)), ActionSpec.of(spaces.Discrete(2))
    needed = 100_000 * (20 * 4 + 8 + 5 * 4 + 3)
    monkeypatch.setattr(sizes, "_free", lambda: needed)
    check_sizes(config, obs, action, vec="sync")
    monkeypatch.setattr(sizes, "_free", lambda: needed - 1)
    with pytest.raises(srl.UserError, match=r"A rollout of n_steps 1000 \* num_envs 100 transitions would take"):
        check_sizes(config, obs, action, vec="sync")


def test_the_memory_of_the_machine_is_what_is_free() -> None:
    assert 0 < sizes._free() <= psutil.virtual_memory().total


def test_names_that_cannot_be_saved_are_refused() -> None:
    observation = spaces.Dict({"\ud800": BOX})
    with pytest.raises(srl.UserError, match=r"The name of the observation's part is .* no Unicode and cannot be saved"):
        prepare_training("ppo", partial(SpaceProbe, observation, spaces.Discrete(2)), {}, preset="none")
    with pytest.raises(srl.UserError, match="The name of the run is"):
        prepare_training("ppo", "CartPole-v1", {"name": "\ud800"})
