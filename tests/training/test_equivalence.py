"""Equivalence of two sets of seeds is shown by the data, never by their want."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from steadyrl.cli.main import main
from steadyrl.errors import UserError
from steadyrl.training.equivalence import equivalence, final_score


def scores(mean: float, std: float, n: int, seed: int) -> list[float]:
    return list(np.random.default_rng(seed).normal(mean, std, n))


def test_the_same_scores_are_equivalent_and_others_are_not() -> None:
    same = scores(100, 2, 10, 0)
    assert equivalence(same, same).equivalent
    assert equivalence(same, same).first == equivalence(same, same).second
    apart = equivalence(same, scores(130, 2, 10, 1))
    assert not apart.equivalent
    assert apart.low > 10


def test_few_noisy_seeds_show_nothing() -> None:
    assert not equivalence(scores(100, 60, 3, 0), scores(100, 60, 3, 1)).equivalent


def test_the_error_of_calling_others_equivalent_is_at_most_about_alpha() -> None:
    """True difference equal to the margin: both tests together accept in at most 5% of the cases, and some slack."""
    found = [equivalence(scores(100, 5, 20, 2 * i), scores(110, 5, 20, 2 * i + 1), 10.0).equivalent for i in range(60)]
    assert sum(found) <= 8


def test_the_margin_is_a_tenth_unless_given() -> None:
    same = scores(100, 1, 8, 0)
    found = equivalence(same, same)
    assert found.margin == pytest.approx(0.1 * found.first)
    assert equivalence(same, same, 3.0).margin == 3.0
    for margin in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match="margin"):
            equivalence(same, same, margin)
    with pytest.raises(UserError, match="2 and 8 runs"):
        equivalence(same[:2], same)


def runs(folder: Path, means: list[float], env: str = "CartPole-v1") -> Path:
    for seed, mean in enumerate(means):
        run = folder / f"seed{seed}"
        run.mkdir(parents=True)
        manifest = {"status": "finished", "algo": "ppo", "env": {"id": env}, "eval": {"mean": mean}, "started": ""}
        (run / "manifest.json").write_text(json.dumps(manifest))
        (run / "config.json").write_text("{}")
    return folder


def test_the_command_compares_two_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = runs(tmp_path / "a", [100.0, 101, 102, 99]), runs(tmp_path / "b", [100.0, 102, 101, 98])
    c, other = runs(tmp_path / "c", [50.0, 51, 52]), runs(tmp_path / "d", [1.0, 2, 3], "Acrobot-v1")
    assert final_score(a / "seed0") == 100.0
    assert main(["reproduce", str(a), "--statistical", "--against", str(b), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equivalent"] is True
    assert main(["reproduce", str(a), "--statistical", "--against", str(c)]) == 1
    assert "Not shown to be equivalent" in capsys.readouterr().out
    assert main(["reproduce", str(a), "--statistical", "--against", str(other)]) == 2
    assert "several kinds" in capsys.readouterr().err
    assert main(["reproduce", str(a), "--margin", "3"]) == 2
    assert "no effect without --statistical" in capsys.readouterr().err
