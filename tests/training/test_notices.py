"""What a configuration comes to, where that is not what one would expect, is said before the training."""

import dataclasses
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.configs import CONFIGS
from steadyrl.training.notices import _MODES
from steadyrl.training.setup import prepare_training
from support.training_envs import Fast


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((8, 1, 4), None),
        (
            (8, 2, 5),
            "3 minibatches of 5 and a smaller one of 1, whose single advantage is not normalised.",
        ),
        ((8, 2, 7), "2 minibatches of 7 and a smaller one of 2."),
    ],
)
def test_a_remainder_is_said(size: tuple[int, int, int], said: str | None) -> None:
    options = dict(zip(("n_steps", "num_envs", "batch_size"), size, strict=True))
    notices = prepare_training("ppo", Fast, options, preset="none").notices
    told = [notice.message for notice in notices if notice.code == "remainder"]
    assert told == ([f"A rollout of 16 makes {said}"] if said else [])


@pytest.mark.parametrize(
    ("total", "said"),
    [
        (15, "15 steps make 1 update of the networks"),
        (31, "31 steps make 2 updates of the networks"),
        (32, None),
        (None, None),
    ],
)
def test_a_total_of_hardly_a_rollout_is_said(total: int | None, said: str | None) -> None:
    setup = prepare_training("ppo", Fast, {"n_steps": 16, "batch_size": 16}, preset="none", total_timesteps=total)
    told = [notice.message for notice in setup.notices if notice.code == "config"]
    assert [message.startswith(said or "") for message in told] == ([True] if said else [])


@pytest.mark.parametrize(("starts", "updates"), [(20, 0), (30, 0), (19, 1)])
def test_a_run_that_ends_before_its_first_update_says_so(starts: int, updates: int) -> None:
    options = {"learning_starts": starts, "batch_size": 4, "buffer_size": 64, "train_freq": 8}
    setup = prepare_training("dqn", Fast, options, preset="none", total_timesteps=20)
    told = [notice.message for notice in setup.notices if notice.code == "no-updates"]
    said = f"learning_starts {starts} is not below total_timesteps 20: nothing is learnt."
    assert [message.startswith(said) for message in told] == [True] * (updates == 0)
    agent = srl.DQN.from_setup(setup).learn(20)
    assert agent.loop.counters.updates == updates


def test_an_agent_does_not_know_yet_how_long_it_learns(capsys: pytest.CaptureFixture[str]) -> None:
    srl.DQN(Fast, learning_starts=2_000_000, buffer_size=64)
    assert "nothing is learnt" not in capsys.readouterr().err


def test_an_agent_that_has_not_learnt_yet_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    agent = srl.DQN(Fast, learning_starts=20, buffer_size=64, batch_size=4, train_freq=4)
    said = "No update yet: learning begins after 20 steps (learning_starts)."
    agent.learn(10)
    assert said in capsys.readouterr().err
    agent.learn(5)
    assert said not in capsys.readouterr().err
    other = srl.DQN(Fast, learning_starts=20, buffer_size=64, batch_size=4, train_freq=4).learn(30)
    assert other.loop.counters.updates > 0
    assert said not in capsys.readouterr().err


def test_no_seed_is_said_to_be_the_default() -> None:
    def seedless(options: dict[str, Any]) -> list[str]:
        setup = prepare_training("ppo", Fast, options, preset="none", total_timesteps=9)
        assert setup.settings.seed == 0
        return [notice.message for notice in setup.notices if notice.code == "seedless"]

    assert [message.startswith("seed None leaves the default, 0") for message in seedless({"seed": None})] == [True]
    assert seedless({"seed": 0}) == seedless({}) == []


@pytest.mark.parametrize(
    ("algo", "options", "said"),
    [
        ("dqn", {"n_atoms": 11, "v_min": -1.0}, ["n_atoms and v_min have no effect without head c51."]),
        ("dqn", {"n_atoms": 11, "head": "c51"}, []),
        ("dqn", {"prioritized_beta_end": 1.0}, ["prioritized_beta has no effect without prioritized."]),
        ("dqn", {"prioritized_beta_end": 1.0, "prioritized": True}, []),
        ("dqn", {"n_quantiles": 50}, []),
        ("ppo", {"recurrent_size": 9}, ["recurrent_size has no effect without recurrent lstm or gru."]),
        ("ppo", {"recurrent_size": 9, "recurrent": "gru"}, []),
    ],
)
def test_a_value_without_effect_is_said(algo: str, options: dict[str, Any], said: list[str]) -> None:
    notices = prepare_training(algo, Fast, options, preset="none").notices
    assert [notice.message for notice in notices if notice.code == "no-effect"] == said


def test_what_modes_name_are_fields() -> None:
    every = {field.name for config in CONFIGS.values() for field in dataclasses.fields(config)}
    for mode, _, fields in _MODES:
        for config in CONFIGS.values():
            own = {field.name for field in dataclasses.fields(config)}
            assert {mode, *fields} <= own or mode not in own, f"{mode} of {config.__name__}"
        assert {mode, *fields} <= every
