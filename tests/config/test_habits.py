"""Names from other libraries are answered with what to do here."""

from typing import Any

import pytest

from steadyrl.config import HABITS, hints, resolve
from steadyrl.configs import CONFIGS
from steadyrl.configs.run import RunSettings
from steadyrl.errors import UserError


def test_no_habit_hides_a_name_of_our_own() -> None:
    own = {name for algo in CONFIGS for name in hints(algo)} | set(RunSettings.__dataclass_fields__)
    assert not own & set(HABITS)


@pytest.mark.parametrize("name", HABITS)
def test_a_habit_is_answered(name: str) -> None:
    for spelt in (name, name.replace("_", "-")):
        with pytest.raises(UserError) as caught:
            resolve("ppo", None, overrides={spelt: 1})
        assert caught.value.message == f"PPO has no hyperparameter {name!r}."
        assert caught.value.remedy.startswith(HABITS[name])


class ReLU:
    """Like torch's module."""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"learning_rate": lambda progress: progress}, "steadyrl.LinearSchedule(start, end)"),
        ({"clip_range": lambda progress: progress}, "steadyrl.LinearSchedule(start, end)"),
        ({"activation_fn": ReLU}, "Pass a name, not the object. Did you mean relu?"),
    ],
)
def test_objects_are_answered_with_what_takes_their_place(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve("ppo", None, overrides=options)
    assert said in caught.value.remedy
