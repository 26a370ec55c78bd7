"""The folder of a run: its name, its configuration, its manifest. No torch."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steadyrl.errors import UserError
from steadyrl.training.files import read_json, require_free_space, write_json
from steadyrl.training.provenance import provenance

MANIFEST_VERSION = 1


class RunFolder:
    """A run folder that exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls,
        *,
        algo: str,
        env: str,
        seed: int,
        run_dir: Path | None,
        name: str | None,
        config: dict[str, Any],
        manifest: dict[str, Any],
    ) -> RunFolder:
        """Make the folder with `config.json` and `manifest.json`.

        Raises:
            UserError: it exists already, cannot be made, or the disk is full.
        """
        wanted = run_dir if run_dir is not None else Path("runs") / _safe(env) / algo / _stamp(seed, name)
        require_free_space(wanted)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        base = {"version": MANIFEST_VERSION, "status": "running", "started": started, "ended": None}
        folder = cls(_make(wanted, exact=run_dir is not None))
        try:
            write_json(folder.path / "config.json", config)
            write_json(folder.path / "manifest.json", base | manifest | provenance())
        except BaseException:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Raises UserError for a path that is no run folder."""
        if not (path / "config.json").is_file():
            what = "is not a run folder: it holds no config.json" if path.is_dir() else "does not exist"
            raise UserError(
                f"{path} {what}.", remedy="Name a run folder that `steadyrl train` made.", code="no-such-run"
            )
        return cls(path)

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def config(self) -> dict[str, Any]:
        """`config.json`."""
        return read_json(self.path / "config.json")

    @property
    def manifest(self) -> dict[str, Any]:
        """`manifest.json`."""
        return read_json(self.path / "manifest.json")

    def finish(self, status: str, **facts: Any) -> None:
        """Write how the run ended into the manifest."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        write_json(self.path / "manifest.json", self.manifest | {"status": status, "ended": ended} | facts)

    def failed(self, error: BaseException) -> None:
        """Write that the run failed, unless how it ended is written already."""
        if self.manifest["status"] == "running":
            self.finish("failed", timesteps=0, wall_s=0.0, message=str(error), weights_sha256=None, eval=None)

    def remove(self) -> None:
        """Take the folder away again: nothing was trained in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _safe(env: str) -> str:
    return env.replace("/", "-").replace(":", "-").replace("\\", "-")


def _stamp(seed: int, name: str | None) -> str:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-seed{seed}"
    return f"{stamp}-{_safe(name)}" if name else stamp


def _make(wanted: Path, *, exact: bool) -> Path:
    path, attempt = wanted, 1
    while True:
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            if exact:
                raise UserError(
                    f"The run folder {path} exists already.",
                    remedy="Choose another --run-dir, or remove the folder.",
                    code="run-folder-exists",
                ) from None
            attempt += 1
            path = wanted.with_name(f"{wanted.name}-{attempt}")
        except OSError as error:
            raise UserError(
                f"The run folder {path} cannot be made: {error.strerror or error}.",
                remedy="Choose another place with --run-dir, or mend the permissions.",
                code="cannot-write",
            ) from error
