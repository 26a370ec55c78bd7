"""Whether a replay keeps each frame of stacked observations once."""

from __future__ import annotations

from steadyrl.configs import Config, OffPolicyConfig
from steadyrl.data.frames import Frames, fits
from steadyrl.data.memory import shown
from steadyrl.envs.around import Stacking
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.training.events import Notice
from steadyrl.training.sizes import replay_size


def frames_of(config: OffPolicyConfig, obs_spec: ObsSpec, stacking: Stacking | None) -> Frames | None:
    """How the replay keeps observations as frames; None where it keeps them whole.

    Args:
        config: Says whether it should.
        obs_spec: The observation.
        stacking: How `frame_stack` stacked it; None where it did not.

    Raises:
        UserError: it is asked for by name and cannot be.
    """
    if config.replay_frames == "off":
        return None
    if stacking is not None and not obs_spec.is_tree and config.hindsight == "none":
        for axis in (stacking.axis, 0, -1):  # channels may be stored elsewhere than the environment has them
            frames = Frames(stacking.frames, axis, stacking.depth)
            if fits(frames, obs_spec.leaves[0]):
                return frames
    if config.replay_frames == "on":
        raise UserError(
            "replay_frames is 'on', but the observations are no uint8 pictures that frame_stack stacked.",
            remedy="Use frame_stack (--frame-stack 4) on pictures of uint8, or replay_frames='auto'.",
            code="bad-value",
        )
    return None


def frames_notice(config: Config, obs_spec: ObsSpec, action_spec: ActionSpec, frames: Frames) -> Notice:
    """What is said of it, once."""
    assert isinstance(config, OffPolicyConfig)
    once, whole = (replay_size(config, obs_spec, action_spec, each, config.buffer_size) for each in (frames, None))
    return Notice(
        "replay-frames",
        f"The replay keeps each frame of the {frames.number} in an observation once: {shown(once)} for "
        f"buffer_size {config.buffer_size} instead of {shown(whole)}.",
    )
