"""Films a run: one episode at each of its evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadyrl.envs.make import EnvFactory
from steadyrl.training.evaluator import eval_source
from steadyrl.training.events import EvaluationEnded, Event
from steadyrl.training.generators import global_generators_kept
from steadyrl.training.playing import Filmed
from steadyrl.training.run_folder import RunFolder
from steadyrl.training.video import record_episode, require_av, require_pictures

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent


class Camera:
    """Listens to a run, and films one episode at each evaluation, with the evaluation's first seed.

    Args:
        agent: Who plays.
        folder: The run's; the films go into its folder `videos`.

    Raises:
        UserError: what writes films is not installed, or the environment gives no pictures.
    """

    def __init__(self, agent: Agent, folder: RunFolder) -> None:
        require_av()
        self._agent = agent
        self._folder = folder
        source = eval_source(agent, None)
        assert isinstance(source, EnvFactory), "prepare_training saw to it"
        self._source = source
        with global_generators_kept():
            require_pictures(lambda: source(render_mode="rgb_array"))

    def __call__(self, event: Event) -> None:
        """Film where an evaluation has ended."""
        if isinstance(event, EvaluationEnded):
            with global_generators_kept():
                film = Filmed(self._agent, lambda: self._source(render_mode="rgb_array"))
                record_episode(
                    film,
                    film.make,
                    self._folder.path / "videos" / f"step_{event.step}.mp4",
                    seed=self._agent.seeds.eval_episode_seeds(1)[0],
                )
