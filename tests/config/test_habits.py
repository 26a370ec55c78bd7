"""Names from other libraries are answered with what to do here."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.config import HABITS, hints, resolve
from steadyrl.config.habits import EVALUATE, NAMES
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


def test_no_answer_of_evaluate_hides_an_argument_of_its_own() -> None:
    assert not set(inspect.signature(srl.evaluate).parameters) & set(EVALUATE)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_another_library_is_answered_however_it_is_looked_up(name: str) -> None:
    assert name not in srl.__all__
    assert not hasattr(srl, name)
    told = f"module 'steadyrl' has no attribute {name!r}. {NAMES[name]}"
    with pytest.raises(AttributeError) as missing:
        getattr(srl, name)
    with pytest.raises(ImportError) as unimportable:
        __import__("steadyrl", fromlist=[name])
    assert str(missing.value) == str(unimportable.value) == told


def test_a_name_of_nobody_is_refused_as_usual() -> None:
    with pytest.raises(AttributeError, match=r"^module 'steadyrl' has no attribute 'novelty'$"):
        _ = srl.novelty
    with pytest.raises(ImportError, match="cannot import name 'novelty' from 'steadyrl'"):
        from steadyrl import novelty  # noqa: F401


def test_names_of_another_library_load_no_torch() -> None:
    code = "import sys, steadyrl\nassert not hasattr(steadyrl, 'Monitor')\nassert 'torch' not in sys.modules"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


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
