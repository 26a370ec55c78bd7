"""Short runs give the weights that they gave before: a change of bits is somebody's decision, never an accident."""

from __future__ import annotations

import pytest
import torch

from steadyrl import kernels
from steadyrl.training.provenance import cpu_model
from support import golden
from support.golden import ALGOS, BLESS, key, stored

MODES = ("native", "torch")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("algo", ALGOS)
def test_the_weights_are_those_that_were_blessed(algo: str, mode: str) -> None:
    if mode == "native" and not kernels.available():
        pytest.skip(kernels.reason())
    blessed = stored().get(key(mode))
    if blessed is None:
        pytest.skip(f"nothing was blessed for {key(mode)}: {BLESS}")
    found = golden.run(algo, mode)
    assert found["updates"] >= 3
    assert found["evaluations"] >= 2
    if found["sha256"] != blessed["hashes"][algo] and blessed["cpu"] != cpu_model():
        pytest.skip(f"blessed on {blessed['cpu']}, and this is {cpu_model()}, whose bits are others: {BLESS}")
    assert found["sha256"] == blessed["hashes"][algo], (
        f"{algo} ({mode}) does not give the weights that it gave before on this CPU and torch {torch.__version__}. If "
        f"numbers were meant to change, say so in CHANGELOG.md and run: {BLESS}. If not, this change is wrong."
    )


def test_the_least_other_hyperparameter_is_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = golden.run("ppo", "torch")["sha256"]
    assert golden.run("ppo", "torch")["sha256"] == expected
    make, options = ALGOS["ppo"]
    monkeypatch.setitem(ALGOS, "ppo", (make, options | {"gamma": 0.9899999}))
    assert golden.run("ppo", "torch")["sha256"] != expected


def test_every_stored_key_names_each_algorithm_and_its_cpu() -> None:
    assert stored()
    for name, entry in stored().items():
        assert name.startswith("torch "), name
        assert entry["hashes"].keys() == ALGOS.keys(), name
        assert len(set(entry["hashes"].values())) == len(ALGOS), name
        assert entry["cpu"], name
