"""Where everything is there, the kernels are too."""

from __future__ import annotations

import pytest

from steadyrl import kernels


@pytest.mark.full
def test_the_kernels_are_built() -> None:
    assert kernels.reason() == ""
