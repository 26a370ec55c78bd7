"""What `help` and IPython show of an agent's arguments: hyperparameters and settings of the run by name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from steadyrl.configs import CONFIGS
from steadyrl.configs.run import RunSettings

_OTHERS, _OPTIONS = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_OF_A_CALL = ("env", "run_dir", "name")  # of the settings: the agent's first argument, and what learn takes


def signature_of(cls: type[Any], base: type[Any], algo: str) -> inspect.Signature:
    """That of an algorithm's class, with the defaults where there is no preset.

    A class with a constructor of its own has that one's.

    Args:
        cls: The class.
        base: The one whose constructor takes all options of its algorithm.
        algo: Such as `ppo`.
    """
    init = cls.__init__
    own = [parameter for name, parameter in inspect.signature(init).parameters.items() if name != "self"]
    if init is not base.__init__:
        return inspect.Signature(own)
    named = [parameter for parameter in own if parameter.kind not in (_OTHERS, _OPTIONS)]
    return inspect.Signature([*named, *_options(CONFIGS[algo]), *_options(RunSettings)])


def _options(cls: type[Any]) -> Iterator[inspect.Parameter]:
    for field in dataclasses.fields(cls):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if field.name not in _OF_A_CALL:
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=str(field.type)
            )
