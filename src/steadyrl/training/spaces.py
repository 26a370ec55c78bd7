"""What a training makes of the environment's spaces, and how it says so; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steadyrl.configs import Config
from steadyrl.envs.around import Stacking
from steadyrl.errors import UserError
from steadyrl.nn.encoding import NATURE_LEAST, OUTPUTS, Encoding
from steadyrl.spaces import ActionSpec, ActionTree, ObsSpec, Reading
from steadyrl.spaces.images import ImageLayout, image_of
from steadyrl.training.architectures import architecture_of
from steadyrl.training.events import Notice

# What a configuration of before these fields meant.
LEGACY = {"cnn": "none", "embed_above": 0}
_MOST = 12  # lines about the parts of spaces
_SLOW = 3e9  # weights of an image's encoder times features, above which Gram-Schmidt takes seconds


def migrated(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters as they were written, with what those of an older version meant."""
    old = "cnn" not in hyperparameters and "net_arch" in hyperparameters
    return {**(LEGACY if old else {}), **hyperparameters}


def reading_of(config: Config, encoders: Mapping[str, Any], stacking: Stacking | None = None) -> Reading:
    """How spaces are read; images that are flattened need no layout, and stacked ones have that of their frames.

    Args:
        config: Declares the layout and length.
        encoders: Classes of own encoders by path.
        stacking: Of pictures that `frame_stack` stacked.

    Raises:
        UserError: the declared layout is another one than that which `frame_stack` took the frames to have.
    """
    layout: ImageLayout | Mapping[str, ImageLayout] = config.image_layout
    if stacking is not None:
        layout = layout if isinstance(layout, str) else layout.get("", "auto")
        stacked: ImageLayout = "hwc" if stacking.axis == -1 else "chw"
        if layout not in ("auto", stacked):
            raise UserError(
                f"image_layout is '{layout}', but frame_stack reads the frames as '{stacked}' and stacked them so.",
                remedy="Stack them with frames on an axis of their own, wrappers=[{'name': 'FrameStackObservation', "
                "'kwargs': {'stack_size': 4}}], instead of frame_stack.",
                code="image-layout",
            )
        layout = stacked
    free = config.cnn == "none" and layout == "auto"
    return Reading("any" if free else layout, config.sequence_length, encoders)


def encoders_of(given: Any) -> dict[str, Any]:
    """What `encoders=` was given.

    Raises:
        UserError: it is no dictionary of classes by path.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(
        isinstance(path, str) and isinstance(kind, type) for path, kind in given.items()
    ):
        raise UserError(
            f"encoders is {given!r}, not a dictionary of classes by path.",
            remedy="For example: encoders={'camera': MyEncoder}, or {'': MyEncoder} for a space without parts.",
            code="bad-value",
        )
    return dict(given)


def space_notices(
    config: Config, obs: ObsSpec, action: ActionSpec, encoders: Mapping[str, Any] | None = None
) -> list[Notice]:
    """What becomes of observations and actions; a warning where an image is flattened or small."""
    encoding = architecture_of(config, encoders).encoding(encoders or {})
    lines = shown_spaces(encoding, obs, action)
    if len(lines) == 2:
        lines = [" ".join(lines)]
    shown = lines if len(lines) <= _MOST else [*lines[: _MOST - 1], f"... and {len(lines) - _MOST + 1} parts more."]
    return [Notice("spaces", text) for text in shown] + _warnings(config, encoding, obs)


def shown_spaces(encoding: Encoding, obs: ObsSpec, action: ActionSpec) -> list[str]:
    """What becomes of observations and actions, a line for each part."""
    lines = [f"Observation{leaf.where}: {encoding.said(leaf)}." for leaf in obs.leaves]
    if isinstance(action, ActionTree):
        return lines + [f"Action at '{path}': {_said(part)}." for path, part in action.parts]
    return [*lines, f"Action: {_said(action)}."]


def _warnings(config: Config, encoding: Encoding, obs: ObsSpec) -> list[Notice]:
    notices = []
    for leaf in obs.leaves:
        if leaf.kind != "image" or leaf.path in encoding.own:
            continue
        image = image_of(leaf.shape, leaf.layout)
        slow = getattr(config, "ortho_init", False) and encoding.weights(leaf) * OUTPUTS.get(encoding.way(leaf), 0)
        if slow > _SLOW:
            text = f"The image{leaf.where} makes a layer so large that its orthogonal initial weights take many seconds"
            notices.append(Notice("image", f"{text}: smaller images start sooner, and so does ortho_init False."))
        size = f"{image.height} x {image.width}"
        if encoding.cnn == "none":
            text = f"The image{leaf.where} of {size} is flattened, as cnn is none: its pixels lose their places."
            notices.append(Notice("image", text, "warning"))
        elif encoding.way(leaf) == "small":
            text = (
                f"The image{leaf.where} of {size} is too small for the Nature CNN, which needs {NATURE_LEAST} pixels "
                "a side: it gets three layers of 3 x 3 instead (--cnn impala takes any size)."
            )
            notices.append(Notice("image", text))
    return notices


def _said(action: ActionSpec) -> str:
    start = f" from {action.start[0]}" if any(action.start) and len(set(action.start)) == 1 else ""
    if action.kind == "discrete":
        return f"one of {action.nvec[0]:,}{start}"
    if action.kind == "multidiscrete":
        counts = " x ".join(map(str, action.nvec[:8])) + (" ..." if action.size > 8 else "")
        return f"{action.size} choices, {counts}{start}"
    if action.kind == "multibinary":
        return f"{action.size} bits"
    free = int((~action.bounded).sum())
    bounds = f", {free} of them without bounds" if free else ", mapped from [-1, 1] to their bounds"
    return f"{action.size} {action.dtype} number{'s' if action.size != 1 else ''}{bounds}"
