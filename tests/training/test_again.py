"""Runs of the six algorithms, made again from their manifests by a process that did not train them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.again import cases, judged, reproduced_together
from support.killing import SMALL

LATER = {"ppo": 1, "a2c": 6, "dqn": 0, "ddpg": 3, "td3": 4, "sac": 2}  # which of its cases: all environments, in turn


def test_a_run_of_each_algorithm_is_made_again_bit_for_bit(tmp_path: Path) -> None:
    chosen = [cases(algo, 10, total=240)[LATER[algo]] for algo in SMALL]
    assert {case.env for case in chosen} >= {"CartPole", "Pendulum", "HalfCheetah", "LunarLander"}
    assert {case.normalised for case in chosen} == {False, True}
    paths = [tmp_path / case.algo for case in chosen]
    for case, path in zip(chosen, paths, strict=True):
        case.train(path)
    for case, path, said in zip(chosen, paths, reproduced_together(paths), strict=True):
        row = judged(case, path, said)
        assert (row["identical"], row["first_difference"], row["parted"]) == (True, None, None), row
        assert row["not_as_it_was"] == [], row
        assert row["intervals"] >= 3, row


@pytest.mark.soak
@pytest.mark.parametrize("algo", SMALL)
def test_ten_runs_are_made_again_bit_for_bit(algo: str, tmp_path: Path) -> None:
    chosen = cases(algo, 10)
    paths = [tmp_path / str(number) for number in range(len(chosen))]
    for case, path in zip(chosen, paths, strict=True):
        case.train(path)
    rows = [judged(*found) for found in zip(chosen, paths, reproduced_together(paths), strict=True)]
    assert [row for row in rows if not row["identical"] or row["parted"] is not None] == []
