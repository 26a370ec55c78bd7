"""Where everything is there, the kernels are too; where they cannot be built, no old ones stay behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steadyrl import kernels

SCRIPT = Path(__file__).resolve().parents[2] / "requirements" / "native.py"


@pytest.mark.full
def test_the_kernels_are_built() -> None:
    assert kernels.reason() == ""


def test_a_failed_build_takes_the_old_extension_away(tmp_path: Path) -> None:
    script = tmp_path / "requirements" / SCRIPT.name
    package = tmp_path / "src" / "steadyrl" / "kernels"
    for folder in (script.parent, package):
        folder.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    for name in ("_native.cpython-311-x86_64-linux-gnu.so", "_native.pyi", "program.py"):
        (package / name).touch()
    done = subprocess.run([sys.executable, str(script)], env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("note: the native kernels were not built (no C++ compiler was found)")
    assert sorted(path.name for path in package.iterdir()) == ["_native.pyi", "program.py"]
