"""A run that an earlier version made, to be changed and looked at, and calls that refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steadyrl.training.checkpoint import INDEX, _sealed

DATA = Path(__file__).parent.parent / "artefacts"


def stored_run(folder: Path) -> Path:
    """A copy of it in this folder."""
    return Path(shutil.copytree(DATA / "run-version-2", folder / "run"))


def resealed(run: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The stored run's checkpoint with another index."""
    folder = run / "checkpoints" / "step_40"
    index = json.loads((folder / INDEX).read_text())
    del index["checksum"]
    change(index)
    (folder / INDEX).write_bytes(_sealed(index))
    return folder


def refusing(error: Exception) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise error

    return refuse
