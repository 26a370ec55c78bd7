"""What a worker needs to make its environments, as bytes.

cloudpickle is used only here, from a parent to its own child.
"""

from __future__ import annotations

import cloudpickle
from gymnasium.envs.registration import registry

from steadyrl.envs.make import EnvFactory
from steadyrl.errors import UserError


class Recipe:
    """The factory and the ids that the user registered.

    Both travel as bytes that are undone inside the worker's guard, so that what cannot be loaded there is told in
    words.

    Raises:
        UserError: the factory cannot be sent.
    """

    def __init__(self, factory: EnvFactory) -> None:
        try:
            self._payload = cloudpickle.dumps(factory)
        except Exception as error:
            raise UserError(
                f"The environment {factory.id} cannot be sent to another process: {error}",
                remedy="Use vec='sync', or pass an id, a file or a function that holds no locks or threads.",
                code="env-pickle",
            ) from error
        self.id = factory.id
        self._registered = user_registered()

    def factory(self) -> EnvFactory:
        """The factory, once the user's ids are registered here too."""
        for env_id, payload in self._registered.items():
            if env_id not in registry:
                _register(env_id, payload)
        factory: EnvFactory = cloudpickle.loads(self._payload)
        return factory


def user_registered() -> dict[str, bytes]:
    """Specifications of the ids that do not come with Gymnasium, as bytes; those that cannot be sent are left out."""
    sent = {}
    for env_id, spec in registry.items():
        if isinstance(spec.entry_point, str) and spec.entry_point.startswith("gymnasium."):
            continue
        try:
            sent[env_id] = cloudpickle.dumps(spec)
        except Exception:
            continue  # the id may not be needed there; where it is, making the environment says that it is unknown
    return sent


def _register(env_id: str, payload: bytes) -> None:
    try:
        registry[env_id] = cloudpickle.loads(payload)
    except Exception:
        return  # as above
