"""`steadyrl new-env NAME`: a correct environment to start from, with its test."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from pathlib import Path

from steadyrl.cli.parser import understood
from steadyrl.cli.session import Session
from steadyrl.errors import RunFailedError, UserError


@dataclass(frozen=True, kw_only=True)
class NewEnvOptions:
    """What `steadyrl new-env` takes."""

    dir: Path = Path()
    """The folder for both files; the present one by default."""
    force: bool = False
    """Overwrites files of these names."""
    json: bool = False
    """One JSON document on stdout."""


def run(args: list[str], session: Session) -> int:
    """Writes both files and says what to do next."""
    line = understood(
        args,
        NewEnvOptions,
        "steadyrl new-env",
        usage="steadyrl new-env NAME [flags]",
        description="Writes NAME.py, a correct environment to change, and test_NAME.py, which checks it.",
        example="  steadyrl new-env pendulum_on_a_cart\n  steadyrl check pendulum_on_a_cart.py:PendulumOnACart",
        positionals={"NAME": "of the file, in lower case with underscores"},
    )
    if line is None:
        return 0
    positionals, options = line
    if not positionals:
        raise UserError(
            "`steadyrl new-env` needs a name.", remedy="For example: steadyrl new-env my_task.", code="usage"
        )
    name = file_name(positionals[0])
    from steadyrl.checker.starter import class_name, environment, test

    written = {options.dir / f"{name}.py": environment(name), options.dir / f"test_{name}.py": test(name)}
    _write(written, options.force)
    env, tests = written
    address = f"{env}:{class_name(name)}"
    if session.json:
        session.emit({"env": address, "files": [str(env), str(tests)]})
        return 0
    session.say(f"Wrote {env} and {tests}.")
    session.say(f"Check it:  steadyrl check {address}\nTrain it:  steadyrl train ppo {address}")
    return 0


def file_name(word: str) -> str:
    """The name of the module.

    Raises:
        UserError: it cannot be one.
    """
    name = word.removesuffix(".py").replace("-", "_")
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        raise UserError(
            f"{word!r} cannot be the name of a module that can be imported everywhere.",
            remedy="Use ASCII letters, digits and underscores, such as my_task.",
            code="bad-value",
        )
    return name


def _write(texts: dict[Path, str], force: bool) -> None:
    there = [str(path) for path in texts if path.exists()]
    if there and not force:
        raise UserError(
            f"{' and '.join(there)} exist{'s' if len(there) == 1 else ''} already.",
            remedy="Choose another name, or overwrite with --force.",
            code="file-exists",
        )
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            if str(path) not in there:  # the disk may be full: what there is of it is no environment
                path.unlink(missing_ok=True)
            raise RunFailedError(
                f"{path} cannot be written: {error.strerror}.", remedy="Choose another --dir.", code="cannot-write"
            ) from error
