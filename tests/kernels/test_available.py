"""Without the extension: a reason, no error; with a compiler it must be there."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from steadyrl import kernels

BLOCKED = """
import sys
sys.modules["steadyrl.kernels._native"] = None
from steadyrl import kernels
assert not kernels.available()
kernels.set_threads(2)
print(kernels.reason())
try:
    kernels.isa()
except ImportError:
    print("refused")
"""


def test_without_the_extension_there_is_a_reason() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "The native kernels are not built: this installation was made without a C++ compiler.",
        "refused",
    ]


def test_importing_the_package_loads_neither_torch_nor_the_extension() -> None:
    heavy = ("torch", "numpy", "steadyrl.kernels._native")
    code = f"import sys, steadyrl.kernels; print([m for m in sys.modules if m in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_reason_is_given_exactly_where_kernels_are_missing() -> None:
    assert kernels.available() == (kernels.reason() == "")


@pytest.mark.full
def test_a_full_machine_has_the_kernels() -> None:
    assert any(map(shutil.which, ("c++", "g++", "clang++"))), "make test-full needs a C++ compiler"
    assert kernels.available(), kernels.reason()
