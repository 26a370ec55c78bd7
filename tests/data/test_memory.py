"""A replay too large for the memory there is: refused before it is made, with numbers that help."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from gymnasium import spaces as gs

from steadyrl.data import memory
from steadyrl.data.layouts import replay_bytes
from steadyrl.data.memory import free_memory, require_memory, shown
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec

FREE = 16_000_000_000


@pytest.fixture(autouse=True)
def _sixteen_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: FREE)


def ten_each(buffer_size: int) -> int:
    return 10 * buffer_size


def test_large_images_are_refused_with_the_size_that_fits() -> None:
    """Case 18: 2 x 2,073,600 bytes a transition, and 15 more for its action, reward and flags."""
    images = ObsSpec.of(gs.Box(0, 255, (3, 960, 720), np.uint8))
    size = partial(replay_bytes, num_envs=4, obs_spec=images, action_spec=ActionSpec.of(gs.Discrete(4)))
    each = 2 * 3 * 960 * 720 + 8 + 4 + 3
    fits = int(0.7 * FREE) // each // 4 * 4
    with pytest.raises(UserError) as error:
        require_memory(size, 1_000_000, num_envs=4)
    assert error.value.code == "no-memory"
    assert error.value.message == (
        "A replay of buffer_size 1000000 takes 4.1 TB, but 0.7 of the 16 GB of free memory is 11.2 GB."
    )
    assert (
        error.value.remedy == f"Set buffer_size (--buffer-size) to at most {fits}, or allow more with --memory-limit."
    )
    require_memory(size, fits, num_envs=4)
    with pytest.raises(UserError):
        require_memory(size, fits + 4, num_envs=4)


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (None, 11_200_000_000),
        (0.5, 8_000_000_000),
        ("0.5", 8_000_000_000),
        (1, 16_000_000_000),
        ("8GB", 8_000_000_000),
        ("8 gb", 8_000_000_000),
        ("1.5G", 1_500_000_000),
        ("512MiB", 512 * 2**20),
        ("64kB", 64_000),
        ("2TiB", 2 * 2**40),
    ],
)
def test_limits(limit: str | float | None, allowed: int) -> None:
    require_memory(ten_each, allowed // 10, limit=limit)
    with pytest.raises(UserError, match="takes") as error:
        require_memory(ten_each, allowed // 10 + 1, limit=limit)
    assert f"at most {allowed // 10}," in error.value.remedy


@pytest.mark.parametrize("limit", ["8", "", "lots", "8XB", 0, -0.5, 1.5, "nan", float("nan"), "-8GB", "inf"])
def test_what_is_no_limit(limit: str | float) -> None:
    with pytest.raises(UserError, match="memory_limit is"):
        require_memory(ten_each, 1, limit=limit)


def test_when_not_even_one_step_fits() -> None:
    with pytest.raises(UserError) as error:
        require_memory(lambda size: size * FREE, 100, num_envs=10)
    assert error.value.remedy == "Make the observations smaller, or allow more with --memory-limit."


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (64_000, "64 kB"), (4_147_200_000_000, "4.1 TB"), (1.5e9, "1.5 GB")]
)
def test_sizes_for_people(size: float, text: str) -> None:
    assert shown(size) == text


def group(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)


def version_2(limit: str, used: int, cache: int) -> dict[str, str]:
    return {"memory.max": limit, "memory.current": f"{used}\n", "memory.stat": f"anon 5\ninactive_file {cache}\n"}


def test_control_groups_of_version_2_and_all_above(tmp_path: Path) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("0::/job/task\n")
    mount = tmp_path / "fs"
    group(mount / "job" / "task", version_2("max\n", 100, 0))
    group(mount / "job", version_2("5000\n", 3000, 700))
    assert free_memory(mount, membership) == 2700
    group(mount / "job" / "task", version_2("2000\n", 1500, 100))
    assert free_memory(mount, membership) == 600
    group(mount / "job", version_2("1000\n", 3000, 700))
    assert free_memory(mount, membership) == 0


def test_control_groups_of_version_1(tmp_path: Path) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n")
    files = {"memory.limit_in_bytes": "9000", "memory.usage_in_bytes": "4000", "memory.stat": "total_inactive_file 500"}
    group(tmp_path / "fs" / "memory", files)  # inside a container the mount is the group itself
    assert free_memory(tmp_path / "fs", membership) == 5500


def test_without_control_groups_the_machine_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = psutil.virtual_memory()
    monkeypatch.setattr("psutil.virtual_memory", lambda: machine)
    assert free_memory(tmp_path, tmp_path / "none") == machine.available
    membership = tmp_path / "cgroup"
    membership.write_text("0::/\nnonsense\n")
    group(tmp_path / "fs", {"memory.max": "1\n"})  # its use cannot be read
    assert free_memory(tmp_path / "fs", membership) == machine.available
