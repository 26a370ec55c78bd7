"""What an environment costs is found out in a process that may be lost."""

from __future__ import annotations

import pytest

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers.cost import cost_elsewhere
from steadyrl.errors import RunFailedError
from support.faults import Faulty
from support.leftovers import nothing_left


def test_a_sound_environment_has_its_cost_told() -> None:
    with nothing_left():
        cost = cost_elsewhere(make_env_factory(Faulty), 60.0)
    assert cost.make_s > 0
    assert cost.step_s > 0
    assert not cost.draws


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("os._exit", "As Faulty was timed in a process of its own: The process of environment 0 ended by itself"),
        ("SIGSTOP", "As Faulty was timed in a process of its own: Environment 0 .* did not answer within 1.5 s"),
        ("raise", "Environment 0 .* raised MotorError in step 3 of its episode: the motor fell off"),
    ],
)
def test_one_that_fails_is_named_with_where_it_was_where_it_is_lost(fault: str, told: str) -> None:
    with nothing_left():
        with pytest.raises(RunFailedError, match=f"^{told}") as caught:
            cost_elsewhere(make_env_factory(Faulty, env_kwargs={"fault": fault}), 1.5 if fault == "SIGSTOP" else 60.0)
        assert caught.value.args == (caught.value.message,)
        assert vars(caught.value)["failure"].env_index == 0
