"""The manifest says what a run was computed with, and whoever takes it up is told of every value that changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import steadyrl as srl
from steadyrl import kernels
from steadyrl.training.computing import computing_facts, torch_blas
from steadyrl.training.provenance import LOCKS, lock_hashes, provenance
from steadyrl.training.resuming import differences
from steadyrl.training.run_folder import RunFolder

OPTIONS: dict[str, Any] = {
    "preset": "none", "n_steps": 16, "batch_size": 16, "num_envs": 2, "checkpoint_freq": 50, "eval_freq": 0, "seed": 1,
    "vec": "sync",
}  # fmt: skip
DESCRIBED = """PyTorch built with:
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64 architecture applications
  - Intel(R) MKL-DNN v3.11.2 (Git Hash abc)
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    srl.train("ppo", "CartPole-v1", total_timesteps=100, run_dir=run, **OPTIONS)
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def edit(run: Path, keys: tuple[str, ...], value: Any) -> None:
    path = run / "manifest.json"
    document = json.loads(path.read_text())
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(document))


def found(run: Path) -> list[str]:
    folder = RunFolder.open(run)
    return differences(folder, provenance(Path(folder.manifest["working_directory"])))


def test_the_manifest_says_what_computed(trained: Path) -> None:
    manifest = json.loads((trained / "manifest.json").read_text())
    assert manifest["computing"] == computing_facts()
    assert manifest["computing"]["torch_cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert manifest["threads_used"].keys() == {"torch", "kernels"}
    assert manifest["threads_used"]["torch"] >= 1
    assert manifest["native_kernels"] == (kernels.isa() if kernels.available() else None)
    assert manifest["packages"]["torch"] == torch.__version__
    assert manifest["cpu"]["cores"] >= 1
    assert isinstance(manifest["cpu_flags"], list)
    assert manifest["blas"] is None or {"name", "version"} == manifest["blas"].keys()


def test_nothing_is_said_of_a_record_that_nobody_touched(run: Path) -> None:
    assert found(run) == []


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("python",), "3.1.4", "python was 3.1.4 and is "),
        (("packages", "numpy"), "1.0", "packages numpy was 1.0 and is "),
        (("packages", "numpy"), None, "packages numpy was absent and is "),
        (("packages", "box3d"), "9.9", "packages box3d was 9.9 and is absent"),
        (("installed", "pytest"), "1.2.3", "installed pytest was 1.2.3 and is "),
        (("lock",), {"uv.lock": "0" * 64}, f"lock uv.lock was {'0' * 64} and is absent"),
        (("blas",), {"name": "other", "version": "1"}, "blas name was other and is "),
        (("computing", "torch_cpu_capability"), "OTHER", "computing torch_cpu_capability was OTHER and is "),
        (("computing", "torch_blas"), {"mkl": "1", "interface": "x"}, "computing torch_blas mkl was 1 and is "),
        (("computing", "cuda"), "12.9", "computing cuda was 12.9 and is "),
        (("cpu", "model"), "An older one", "cpu model was An older one and is "),
        (("cpu", "cores"), 4096, "cpu cores was 4096 and is "),
        (("cpu_flags",), ["fast_dreams"], "cpu_flags lacks fast_dreams"),
        (("gpu",), {"driver": "some"}, "gpu was {'driver': 'some'} and is absent"),
        (("native_kernels",), "sse9", "native_kernels was sse9 and is "),
        (("platform",), "Plan 9", "platform was Plan 9 and is "),
        (("variables", "MKL_CBWR"), "AVX2,STRICT", "variables MKL_CBWR was AVX2,STRICT and is absent"),
        (("git",), {"commit": "f" * 40}, f"git commit was {'f' * 40} and is "),
        (("settings", "threads"), 7, "threads is None in config.json, and the run began with 7"),
        (("settings", "eval_episodes"), 3, "eval_episodes is 10 in config.json, and the run began with 3"),
    ],
)
def test_every_value_that_changed_is_told_by_its_name(
    keys: tuple[str, ...], value: Any, said: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MKL_CBWR", raising=False)
    edit(run, keys, value)
    assert any(text.startswith(said) for text in found(run)), found(run)


def test_a_version_is_told_once_though_two_lists_have_it(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    if "torch" not in manifest["installed"]:
        pytest.skip("torch is installed in a way that leaves no dist-info folder in sight")
    edit(run, ("packages", "torch"), "1.0")
    edit(run, ("installed", "torch"), "1.0")
    assert [text for text in found(run) if " torch " in text] == [f"packages torch was 1.0 and is {torch.__version__}"]


def test_other_threads_are_told_when_a_run_goes_on(run: Path) -> None:
    used = json.loads((run / "manifest.json").read_text())["threads_used"]
    edit(run, ("threads_used",), used | {"torch": 9})
    said: list[str] = []
    srl.resume(run, 150, say=lambda notice: said.append(notice.message))
    assert f"Not as it was: threads of torch were 9 and are {used['torch']}." in said
    assert json.loads((run / "manifest.json").read_text())["threads_used"] == used


def test_locks_are_hashed_in_the_folder_or_at_the_root_of_its_repository(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    here = project / "deep" / "down"
    here.mkdir(parents=True)
    assert lock_hashes(here) == {}
    (project / "uv.lock").write_text("a")
    outer = lock_hashes(here)
    assert outer.keys() == {"uv.lock"}
    (here / "uv.lock").write_text("b")
    (project / "requirements").mkdir()
    (project / "requirements" / "dev.txt").write_text("c")
    assert lock_hashes(here).keys() == {"uv.lock", "requirements/dev.txt"} <= set(LOCKS)
    assert lock_hashes(here)["uv.lock"] != outer["uv.lock"]


def test_the_libraries_are_read_out_of_what_torch_says_of_itself() -> None:
    assert torch_blas(DESCRIBED) == {
        "interface": "mkl", "mkl": "2024.2-Product Build 20240605", "onednn": "3.11.2", "openmp": "201511"
    }  # fmt: skip
    assert torch_blas("") == {}


def test_another_installed_version_is_told(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    about = tmp_path / "other" / "safetensors-99.0.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: safetensors\nVersion: 99.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    assert found(run) == [f"packages safetensors was {manifest['packages']['safetensors']} and is 99.0"]
