"""What `config.json` and `manifest.json` of a run folder have to look like to whoever reads them. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from steadyrl.errors import UserError

VERSION = 1  # of both files
_NONE = type(None)
Form = Mapping[str, tuple[type, ...]]

SETTINGS: Form = {
    "env": (str,),
    "env_kwargs": (dict,),
    "max_episode_steps": (int, _NONE),
    "seed": (int,),
    "eval_seed": (int,),
    "threads": (int, _NONE),
    "kernels": (str,),
    "device": (str,),
}
CONFIG: Form = {
    "algo": (str,),
    "total_timesteps": (int,),
    "hyperparameters": (dict,),
    "settings": (dict,),
    "environment": (str,),
    "backend": (dict,),
}
MANIFEST: Form = {
    "status": (str,),
    "algo": (str,),
    "env": (dict,),
    "command_line": (list,),
    "working_directory": (str,),
    "total_timesteps": (int, _NONE),
    "timesteps": (int, _NONE),
    "wall_s": (int, float, _NONE),
    "lineage": (list,),
}


def checked(path: Path, document: dict[str, Any], form: Form, where: str = "") -> dict[str, Any]:
    """The document, if everything in it that the form tells of is of a type that it may have.

    Args:
        path: Of the file, for the error.
        document: Its content, or a part of it.
        form: Types by name.
        where: Which part, with a dot at its end.

    Raises:
        UserError: something is of another type; it is named.
    """
    for name, kinds in form.items():
        if name in document and type(document[name]) not in kinds:
            wanted = " or ".join("null" if kind is _NONE else kind.__name__ for kind in kinds)
            raise _unreadable(path, f"'{where}{name}' is {document[name]!r:.80}, not {wanted}")
    if form is CONFIG and "settings" in document:
        checked(path, document["settings"], SETTINGS, "settings.")
    return document


def refuse_newer(path: Path, document: Mapping[str, Any]) -> None:
    """Raises UserError for a document that a newer steadyrl wrote, whose names may mean something else here."""
    version = document.get("version")
    if isinstance(version, int | float) and version > VERSION:
        raise UserError(
            f"{path} is of version {version} and was made by a newer steadyrl; this one reads version {VERSION}.",
            remedy="Use that steadyrl: pip install --upgrade steadyrl.",
            code="newer-version",
        )


def require(path: Path, document: Mapping[str, Any], names: Iterable[str], where: str = "") -> None:
    """Raises UserError for the first of these names that the document lacks."""
    for name in names:
        if name not in document:
            raise _unreadable(path, f"it lacks '{where}{name}'")


def _unreadable(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} cannot be used: {why}.",
        remedy="Restore the file, or train again.",
        code="unreadable",
    )
