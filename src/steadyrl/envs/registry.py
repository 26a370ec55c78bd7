"""From the text that names an environment to what makes it, with errors that say which names there are."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator, parse_env_id, registry

from steadyrl.errors import Ending, UserError, install, nearest, words

# Packages that register a namespace when they are imported.
_NAMESPACES = {"ALE": ("ale_py", "ale-py")}
# Gymnasium's extras -> ours, where ours has them; `classic-control` and `toy-text` are pygame, needed for pictures
# only.
_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "classic-control": "video", "toy-text": "video"}

_ATARI = re.compile(r"\w+NoFrameskip-v\d+")  # ids of ale-py that have no namespace


class Wanted(NamedTuple):
    """What is looked for in a file.

    Attributes:
        base: Class of Gymnasium that it is derived from.
        what: Its name in errors.
        names: How it may be named.
        code: Of the errors.
    """

    base: type
    what: str
    names: str
    code: str


_ENVIRONMENT = Wanted(
    gym.Env, "environment", "ENV is a Gymnasium id, package.module:Id-v0 or path/to/file.py:ClassName.", "env-file"
)

_MISSPELT = 0.8  # an id less like every known one than this may well be the right id of a package not yet imported


def find_spec(name: str) -> EnvSpec:
    """The specification of a registered id, or of `package.module:Id-v0` after importing the module.

    Raises:
        UserError: there is no such id; the message names the nearest ones, or the versions that exist.
    """
    module, _, env_id = name.rpartition(":")
    if module:
        import_module(module, name)
        if env_id not in registry and isinstance(getattr(sys.modules[module], env_id, None), type):
            raise _class_of_module(module, env_id)
    if env_id not in registry and _ATARI.fullmatch(env_id):
        _import_atari(env_id)
    if env_id in registry:
        return registry[env_id]
    try:
        namespace, base, version = parse_env_id(env_id)
    except gym.error.Error:
        raise _unknown(env_id, "An id looks like CartPole-v1, a file like path/to/file.py:ClassName.") from None
    if namespace is not None and not any(spec.namespace == namespace for spec in registry.values()):
        _import_namespace(namespace, env_id)
        if env_id in registry:
            return registry[env_id]
    siblings = sorted(
        (spec for spec in registry.values() if spec.namespace == namespace and spec.name == base),
        key=lambda spec: spec.version or 0,
    )
    if not siblings:
        raise _unknown(env_id)
    ids = [spec.id for spec in siblings]
    what = "names no version" if version is None else f"has no version v{version}"
    raise UserError(
        f"The environment '{env_id}' {what}; there {'is' if len(ids) == 1 else 'are'} {', '.join(ids)}.",
        remedy=f"Use {ids[-1]}; results of different versions are not comparable.",
        code="unknown-env",
    )


def creator_of(spec: EnvSpec) -> Callable[..., Any]:
    """The class or function behind an id.

    Raises:
        UserError: a package that it needs is missing, or the id has no single environment.
    """
    if spec.entry_point is None:
        raise UserError(
            f"The environment '{spec.id}' exists as a vector environment only.",
            remedy="Use vec='native' (--vec native).",
            code="env-entry-point",
        )
    if callable(spec.entry_point):
        return spec.entry_point
    try:
        creator: Callable[..., Any] = load_env_creator(spec.entry_point)
    except (ImportError, gym.error.DependencyNotInstalled, AttributeError, ValueError) as error:
        raise missing_package(spec.id, error) from error
    return creator


def missing_package(name: str, error: BaseException) -> UserError:
    """The error for an environment whose code cannot be imported, with the extra to install where it is known."""
    text = str(error)
    extra = re.search(r"gymnasium\[([\w-]+)\]", text)
    package = re.search(r"No module named '([\w.]+)'", text)
    if extra:
        ours = _EXTRAS.get(extra[1].replace("_", "-"))
        remedy = f"Install it: {install(ours)}." if ours else f"pip install 'gymnasium[{extra[1]}]'"
    elif package:
        remedy = f"Install the package that has the module {package[1].partition('.')[0]}."
    else:
        remedy = "Install what it asks for, or choose another version of the environment."
    return UserError(f"The environment '{name}' cannot be loaded: {text}", remedy=remedy, code="missing-package")


def import_module(module: str, name: str) -> None:
    """Import the module that registers an id; the working folder counts as well.

    Raises:
        UserError: it cannot be found or raises an error.
    """
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        importlib.import_module(module)
    except (KeyboardInterrupt, Ending):
        raise
    except ModuleNotFoundError as error:
        raise UserError(
            f"The module '{module}' of '{name}' cannot be imported: {error}.",
            remedy="Install its package, or run in the folder that holds it.",
            code="env-module",
        ) from error
    except BaseException as error:
        raise _broken_module(module, name, error) from error


def load_file(path: Path, class_name: str, wanted: Wanted = _ENVIRONMENT) -> Callable[..., Any]:
    """The class or function of this name in a Python file; the file's own folder can be imported from.

    Raises:
        UserError: the file or the name does not exist, or the file raises an error.
    """
    name = f"{path}:{class_name}"
    module = _module_of(path, name, wanted)
    creator = getattr(module, class_name, None)
    if not callable(creator):
        found = _classes_in(module, wanted.base)
        what = "defines no" if creator is None else f"holds a {type(creator).__name__} instead of a class at"
        raise UserError(
            f"The file {path} {what} '{class_name}'.",
            remedy=nearest(class_name, found) or f"It has {', '.join(found) or f'no {wanted.what} classes'}.",
            code=wanted.code,
        )
    made: Callable[..., Any] = creator
    return made


def without_class(path: str, wanted: Wanted = _ENVIRONMENT) -> UserError:
    """The error for a file that is given without the class in it.

    Raises:
        UserError: the file does not exist or raises an error.
    """
    found = _classes_in(_module_of(Path(path), path, wanted), wanted.base)
    return UserError(
        f"'{path}' names a file, but no {wanted.what} class in it.",
        remedy=f"Write {' or '.join(f'{path}:{name}' for name in found)}."
        if found
        else f"It defines no class derived from gymnasium.{wanted.base.__name__}; with one, write {path}:ClassName.",
        code=wanted.code,
    )


def _classes_in(module: ModuleType, base: type) -> list[str]:
    """Names of the classes derived from another that a file itself defines."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    return [value.__name__ for value in own if isinstance(value, type) and issubclass(value, base)]


def _class_of_module(module: str, name: str) -> UserError:
    file = getattr(sys.modules[module], "__file__", None)
    path = f"{os.path.relpath(file) if file else 'path/to/file.py'}:{name}"
    return UserError(
        f"'{module}:{name}' is a class, not an id that the module {module} registers.",
        remedy=f"Write {path} (package.module:Id-v0 is for registered ids).",
        code="unknown-env",
    )


def _module_of(path: Path, name: str, wanted: Wanted) -> ModuleType:
    if not path.is_file():
        raise UserError(f"There is no file {path}.", remedy=wanted.names, code=wanted.code)
    path = path.resolve()
    module_name = f"steadyrl_env_{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is no Python file.", remedy="Its name has to end in .py.", code=wanted.code)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[module_name]
        if isinstance(error, KeyboardInterrupt | Ending):
            raise
        raise _broken_module(str(path), name, error) from error
    return module


def _broken_module(module: str, name: str, error: BaseException) -> UserError:
    return UserError(
        f"Importing {module} for '{name}' raised {type(error).__name__}: {words(error)}",
        remedy="Correct that file, or install what it imports.",
        code="env-module",
    )


def _import_namespace(namespace: str, env_id: str) -> None:
    module, package = _NAMESPACES.get(namespace, ("", ""))
    if module and importlib.util.find_spec(module) is not None:
        import_module(module, env_id)
        return
    remedy = (
        f"pip install {package}" if package else f"Install the package that registers it and write package:{env_id}."
    )
    known = sorted({spec.namespace for spec in registry.values() if spec.namespace})
    raise UserError(
        f"No installed package registers the namespace '{namespace}' of '{env_id}'.",
        remedy=" ".join(filter(None, [remedy, nearest(namespace, known)])),
        code="unknown-env",
    )


def _import_atari(env_id: str) -> None:
    if importlib.util.find_spec("ale_py") is None:
        raise UserError(
            f"The environment '{env_id}' comes from ale-py, which is not installed.",
            remedy=f"Install it: {install('atari')}.",
            code="unknown-env",
        )
    import_module("ale_py", env_id)


def _unknown(env_id: str, hint: str = "") -> UserError:
    # Only the newest version of each name: five versions of one environment would hide the others.
    newest: dict[tuple[str | None, str], EnvSpec] = {}
    for spec in registry.values():
        held = newest.get((spec.namespace, spec.name))
        if held is None or (held.version or 0) < (spec.version or 0):
            newest[spec.namespace, spec.name] = spec
    known = [spec.id for spec in newest.values()]
    if not hint and not nearest(env_id, known, cutoff=_MISSPELT):
        hint = "The id of an environment from another package is written package.module:Id-v0."
    return UserError(
        f"There is no environment '{env_id}'.",
        remedy=" ".join(filter(None, [nearest(env_id, known), hint])),
        code="unknown-env",
    )
