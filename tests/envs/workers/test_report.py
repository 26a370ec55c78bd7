"""What a worker tells of an environment that failed becomes the same error in the parent."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers.report import report_of
from steadyrl.errors import NonFiniteError, RunFailedError, SteadyRLError, UserError
from support.envs import ConstantReward


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("kind", [UserError, RunFailedError, NonFiniteError])
def test_errors_of_this_library_stay_what_they_are(kind: type[SteadyRLError]) -> None:
    report = report_of(raised(kind("It broke.", remedy="Mend it.", code="some-code")), 3, 1, "step")
    error = pickle.loads(pickle.dumps(report)).error()
    assert type(error) is kind
    assert (error.message, error.remedy, error.code) == ("It broke.", "Mend it.", "some-code")


class OwnError(RunFailedError):
    """Of a class that the parent does not know."""


def test_a_kind_that_the_parent_does_not_know_is_the_nearest_it_knows() -> None:
    assert type(report_of(OwnError("x"), 0, 0, "step").error()) is RunFailedError
    assert type(report_of(SteadyRLError("x"), 0, 0, "step").error()) is RunFailedError


@pytest.mark.parametrize("phase", ["reset", "step", "close"])
def test_other_errors_name_environment_and_phase(phase: Any) -> None:
    report = report_of(raised(ValueError("too hot")), 3, 1, phase)
    assert report.message == f"Environment 3 raised ValueError in {phase}(): too hot"
    assert (report.kind, report.code, report.asks) == ("RunFailedError", "env-error", False)
    assert "its traceback says where" in report.remedy


def test_what_cannot_be_made_there_is_said() -> None:
    report = report_of(raised(OSError("no licence")), 3, 1, "make", asks=True)
    assert report.message == "Environment 3 cannot be made in its own process: OSError: no licence"
    assert (report.code, report.asks) == ("env-worker", True)
    assert "vec='sync'" in report.remedy


def test_all_that_is_known_of_the_environment_comes_along() -> None:
    env = make_env_factory(ConstantReward)(index=3)
    env.reset(seed=5, options={"level": 1})
    env.step(1)
    env.step(0)
    cause = raised(LookupError("the motor fell off"))
    error = RunFailedError("Environment 3 failed.")
    error.__cause__ = cause
    failure = report_of(raised(error), 3, 1, "step", env).failure
    assert (failure.env_index, failure.worker, failure.phase, failure.step) == (3, 1, "step", 2)
    assert (failure.seed, failure.options, failure.random_state, failure.whole) == (5, {"level": 1}, None, True)
    np.testing.assert_array_equal(failure.actions, [1, 0])
    assert failure.error == "LookupError: the motor fell off"
    assert "the motor fell off" in failure.traceback
    assert "Environment 3 failed." in failure.traceback


def test_without_an_environment_nothing_is_made_up() -> None:
    failure = report_of(raised(ValueError("x")), 2, 0, "make").failure
    assert (failure.step, failure.seed, failure.options, failure.actions, failure.whole) == (0, None, None, [], True)


def test_the_note_names_worker_environment_step_and_seed() -> None:
    env = make_env_factory(ConstantReward)(index=3)
    env.reset(seed=5)
    env.step(1)
    error = report_of(raised(ValueError("x")), 3, 1, "step", env).error()
    assert vars(error)["failure"].step == 1
    (note,) = error.__notes__
    assert note.startswith("In worker 1, environment 3, step 1 of its episode, seed 5:\nTraceback")
    assert note.rstrip().endswith("ValueError: x")
    env.reset()
    (note,) = report_of(raised(ValueError("x")), 3, 1, "reset", env).error().__notes__
    assert note.startswith("In worker 1, environment 3, step 0 of its episode:\n")
