"""The folder of a run: its name, its configuration, its manifest. No torch."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steadyrl.errors import UserError
from steadyrl.training.files import expanded, read_json, require_free_space, require_regular, working_folder, write_json
from steadyrl.training.provenance import provenance
from steadyrl.training.record_form import CONFIG, MANIFEST, VERSION, checked, refuse_newer
from steadyrl.training.signals import signals_held

CHOSEN_LATER = ("vec", "num_workers", "action_masks")  # settings that are decided after the folder was made


class RunFolder:
    """A run folder that exists.

    Attributes:
        path: Absolute, so that an environment may change the working folder.
        shown: As the user wrote it, for messages.
        made: Folders above it that were made with it.
    """

    def __init__(self, shown: Path, path: Path | None = None, made: tuple[Path, ...] = ()) -> None:
        self.shown = shown
        self.path = shown.absolute() if path is None else path
        self.made = made

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
        here: Path | None = None,
    ) -> RunFolder:
        """Make the folder with `manifest.json` and `config.json`.

        Args:
            algo: Part of the default name.
            env: Part of the default name.
            seed: Part of the default name.
            run_dir: The folder; None makes one below `runs`.
            name: A tag at the end of the default name.
            config: What `config.json` holds.
            manifest: What `manifest.json` holds besides what every run has.
            here: The folder that relative paths start from; None is the working folder.

        Raises:
            UserError: it exists already, cannot be made, or the disk is full.
        """
        here = working_folder() if here is None else here
        wanted = expanded(run_dir) if run_dir is not None else Path("runs") / _safe(env) / algo / _stamp(seed, name)
        require_free_space(here / wanted)
        about = provenance(here)
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        base = {"version": VERSION, "status": "running", "started": started, "ended": None}
        folder: RunFolder | None = None
        try:
            with signals_held():
                folder = _make(wanted, here, exact=run_dir is not None)
                write_json(folder.path / "manifest.json", base | manifest | about)
                write_json(folder.path / "config.json", config)
        except BaseException:
            if folder is not None:
                folder.remove()
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Raises UserError for a path that is no run folder, or one whose records a newer steadyrl wrote."""
        path = expanded(path)
        require_regular(path / "config.json")
        if not (path / "config.json").is_file():
            what = "is not a run folder: it holds no config.json" if path.is_dir() else "does not exist"
            raise UserError(
                f"{path} {what}.", remedy="Name a run folder that `steadyrl train` made.", code="no-such-run"
            )
        for name in ("config.json", "manifest.json"):
            document: dict[str, Any] = {}
            with suppress(UserError):  # a damaged one is told of where it is needed
                document = read_json(path / name)
            refuse_newer(path / name, document)
        return cls(path)

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def can_go_on(self) -> bool:
        """Whether there is a checkpoint that holds more than a policy; whether it is whole is not looked at."""
        saved = self.checkpoints.glob("step_*/state.json")
        return any(file.parent.name.removeprefix("step_").isdecimal() for file in saved)  # the rest was set aside

    @property
    def config(self) -> dict[str, Any]:
        """`config.json`. Raises UserError where it is damaged."""
        path = self.path / "config.json"
        return checked(path, read_json(path), CONFIG)

    @property
    def manifest(self) -> dict[str, Any]:
        """`manifest.json`. Raises UserError where it is damaged."""
        path = self.path / "manifest.json"
        return checked(path, read_json(path), MANIFEST)

    def update_config(self, document: dict[str, Any]) -> None:
        """Write into `config.json` how the environments are stepped and if they have masks, which is decided late."""
        config = self.config
        chosen = {key: document["settings"][key] for key in CHOSEN_LATER if key in document["settings"]}
        config["settings"] |= chosen
        config["backend"] = document["backend"]
        with signals_held():
            write_json(self.path / "config.json", config)

    def add(self, **facts: Any) -> None:
        """Write what became known after the start into the manifest."""
        with signals_held():
            write_json(self.path / "manifest.json", self.manifest | facts)

    def finish(self, status: str, **facts: Any) -> None:
        """Write how the run ended into the manifest."""
        ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        with signals_held():
            write_json(self.path / "manifest.json", self.manifest | {"status": status, "ended": ended} | facts)

    def remove(self) -> None:
        """Take the folder away again, and those above it that were made for it and hold nothing else."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            for folder in self.made:
                folder.rmdir()


def _safe(env: str) -> str:
    return env.replace("/", "-").replace(":", "-").replace("\\", "-")


def _stamp(seed: int, name: str | None) -> str:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-seed{seed}"
    return f"{stamp}-{_safe(name)}" if name else stamp


def _make(wanted: Path, here: Path, *, exact: bool) -> RunFolder:
    shown, attempt = wanted, 1
    while True:
        path = here / shown
        try:
            made = tuple(parent for parent in path.parents if not parent.exists())
            path.mkdir(parents=True)
            return RunFolder(shown, path, made)
        except FileExistsError:
            if exact:
                raise UserError(
                    f"The run folder {shown} exists already.",
                    remedy="Choose another --run-dir, or remove the folder.",
                    code="run-folder-exists",
                ) from None
            attempt += 1
            shown = wanted.with_name(f"{wanted.name}-{attempt}")
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL
            raise UserError(
                f"The run folder {str(shown)!r} cannot be made: {getattr(error, 'strerror', None) or error}.",
                remedy="Choose another place with --run-dir, or mend the permissions.",
                code="cannot-write",
            ) from error
