"""What a configuration comes to, where that is not what one would expect, is said before the training."""

import pytest

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
