"""How large a stored state may be: the reader refuses more, so the writer has to say it first. No torch."""

from __future__ import annotations

from typing import Any

from steadyrl.errors import RunFailedError

# A training with 1,000 environments takes some 10 MB, and each update between two rows of metrics 200 bytes.
MAX_STATE = 256 << 20  # bytes, of the JSON and of the index of arrays
MAX_DEPTH = 200  # an environment holds objects that hold objects


def require_readable(value: dict[str, Any], text: bytes, arrays: bytes, where: str) -> None:
    """Raises RunFailedError for a state that could not be read again.

    Args:
        value: As JSON values.
        text: The same as JSON.
        arrays: The file of its arrays, which begins with eight bytes of its index's length.
        where: The checkpoint, for messages.
    """
    size = max(len(text), int.from_bytes(arrays[:8], "little"))
    if size > MAX_STATE:
        parts = {name: _count(part) for name, part in value.items()}
        largest = max(parts, key=lambda name: parts[name])
        raise RunFailedError(
            f"The state in the checkpoint {where} would take {size} bytes besides its arrays, more than the "
            f"{MAX_STATE} that can be read again; most of it is '{largest}'.",
            remedy="Where that is 'session', lower log_interval; where it is 'envs', num_envs; "
            "or train without what a resume needs (--no-save-state).",
            code="state-too-large",
        )
    for name, part in value.items():
        if _is_deeper(part, MAX_DEPTH - 1):
            raise RunFailedError(
                f"The state in the checkpoint {where} has values nested deeper than {MAX_DEPTH} in '{name}', "
                "which could not be read again.",
                remedy="Give the environment get_state() and set_state(state) with a flat state, or train without "
                "what a resume needs (--no-save-state).",
                code="state-too-deep",
            )


def _parts(value: Any) -> list[Any]:
    if type(value) is dict:
        return list(value.values())
    return value if type(value) is list else []


def _count(value: Any) -> int:
    """Values in a tree."""
    return 1 + sum(map(_count, _parts(value)))


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether a value's innermost parts lie more than `depth` levels below it."""
    level = [value]
    for _ in range(depth + 1):
        if not level:
            return False
        level = [part for parent in level for part in _parts(parent)]
    return bool(level)
