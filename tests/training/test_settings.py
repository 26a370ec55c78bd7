"""How settings of a run are read: defaults, paths, and numbers that files can hold."""

from pathlib import Path

import numpy as np
import pytest

from steadyrl.errors import UserError
from steadyrl.training.settings import read_settings
from steadyrl.training.setup import prepare_training
from support.envs import ConstantReward
from support.training_envs import Fast


def test_none_leaves_the_default() -> None:
    setup = prepare_training("ppo", Fast, {"eval_freq": None, "seed": None, "name": None}, preset="none")
    assert (setup.settings.seed, setup.settings.eval_freq) == (0, None)


def test_the_run_folder_may_be_text() -> None:
    assert prepare_training("ppo", Fast, {"run_dir": "runs/x"}, preset="none").settings.run_dir == Path("runs/x")


def test_arguments_of_the_environment_are_stored_as_python_numbers() -> None:
    setup = prepare_training("ppo", ConstantReward, {"env_kwargs": {"horizon": np.int64(4)}}, preset="none")
    assert setup.settings.env_kwargs == {"horizon": 4}
    assert type(setup.settings.env_kwargs["horizon"]) is int
    with pytest.raises(UserError, match=r"env_kwargs\['horizon'\]"):
        prepare_training("ppo", ConstantReward, {"env_kwargs": {"horizon": np.arange(2)}}, preset="none")


def test_only_the_environment_may_be_nothing() -> None:
    assert read_settings({"env": "Fast", "seed": None, "threads": None}) == read_settings({"env": "Fast"})
    with pytest.raises(UserError, match="env"):
        read_settings({"env": None})
