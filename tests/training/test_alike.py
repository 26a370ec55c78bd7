"""The same run folder whatever steps the environments and whoever finishes first; the same bits for 1 to 4 threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from steadyrl.training.chain import chain
from steadyrl.training.comparing import compared, first_difference
from support.kernels import needs_native
from support.threads import COUNTS, NETWORKS, matrix
from support.workers import ALGOS, BACKENDS, train_delayed


@pytest.mark.parametrize("algo", ["a2c", "sac"])
def test_workers_and_their_order_change_nothing_in_a_run_folder(algo: str, tmp_path: Path) -> None:
    sync = train_delayed(algo, tmp_path / "sync", **BACKENDS["sync"])
    workers = train_delayed(algo, tmp_path / "async", **BACKENDS["async, 2 workers"])
    assert [run.config["settings"]["vec"] for run in (sync, workers)] == ["sync", "async"]
    assert sync.metrics()[-1]["train/n_updates"] >= 3
    assert compared(sync.path, workers.path)["evals.jsonl"] >= 2
    assert first_difference(sync.path, workers.path) is None
    assert chain(sync.path) == chain(workers.path)
    other = train_delayed(algo, tmp_path / "other", **BACKENDS["sync"], env_seed=4)
    assert first_difference(sync.path, other.path) is not None


@pytest.mark.soak
@pytest.mark.parametrize("algo", ALGOS)
def test_every_backend_gives_the_same_run_folder(algo: str, tmp_path: Path) -> None:
    runs = {name: train_delayed(algo, tmp_path / name, **how) for name, how in BACKENDS.items()}
    assert {name: first_difference(runs["sync"].path, run.path) for name, run in runs.items()} == dict.fromkeys(runs)


@needs_native
def test_native_kernels_give_the_same_bits_for_any_number_of_threads() -> None:
    large = "17-256-256-6, batch 256"
    found = matrix(large, "native", ["ppo", "sac"])
    assert all(list(by_threads) == [str(count) for count in COUNTS] for by_threads in found.values())
    assert {algo: len(set(by_threads.values())) for algo, by_threads in found.items()} == {"ppo": 1, "sac": 1}
    assert len({sha for by_threads in found.values() for sha in by_threads.values()}) == 2


@needs_native
@pytest.mark.soak
@pytest.mark.parametrize("network", NETWORKS)
def test_native_kernels_give_the_same_bits_for_every_algorithm(network: str) -> None:
    found = matrix(network, "native", NETWORKS[network].algos)
    assert {algo: len(set(by_threads.values())) for algo, by_threads in found.items()} == dict.fromkeys(found, 1)
