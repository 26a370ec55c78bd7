"""Where a checkpoint cannot hold the environments' state, that is said when it is known, and written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import steadyrl as srl
from steadyrl.cli.main import main


def test_it_is_said_at_the_start_although_it_shows_only_after_a_reset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("Box2D")
    options = {"preset": "none", "n_steps": 16, "batch_size": 16, "eval_freq": 0, "run_dir": tmp_path / "run"}
    run = srl.train("ppo", "BipedalWalker-v3", total_timesteps=16, **options)  # type: ignore[arg-type]
    assert "A resumed run would start its episodes anew: the state of BipedalWalker-v3" in capsys.readouterr().err
    (told,) = run.manifest["checkpoints"]["inexact"]
    assert told.startswith("episodes in progress, which start anew (BipedalWalker.world is a ")


def test_a_failed_proof_says_what_could_not_be_brought_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("Box2D")
    line = "verify-resume ppo BipedalWalker-v3 --preset none --n-steps 32 --batch-size 32 --eval-freq 0 --kills 1"
    assert main([*line.split(), "--total-timesteps", "3000", "--keep", str(tmp_path / "kept"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["identical"] is False or not document["kills"]
    assert document["inexact"][0].startswith("episodes in progress, which start anew")
