"""When tests of `torch.compile` on the CPU are skipped."""

from __future__ import annotations

import pytest

from steadyrl.training.compiling import missing_program

needs_compiler = pytest.mark.skipif(bool(missing_program("cpu")), reason=f"no {missing_program('cpu')}")
