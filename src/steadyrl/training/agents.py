"""The typed constructors, and loading a saved policy as the agent that made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from steadyrl.bundle import SUFFIX, read_bundle
from steadyrl.config import from_json
from steadyrl.errors import UserError
from steadyrl.seeding import Seeds
from steadyrl.training.agent import Agent, require_same_spaces, resolve_device
from steadyrl.training.evaluation import Evaluation
from steadyrl.training.evaluator import Evaluator
from steadyrl.training.learning import eval_source
from steadyrl.training.setup import EnvLike, prepare_again
from steadyrl.training.threads import torch_threads


class PPO(Agent):
    """Proximal policy optimisation; hyperparameters as in `steadyrl.configs.PPOConfig`."""

    algo = "ppo"


class A2C(Agent):
    """Advantage actor-critic; hyperparameters as in `steadyrl.configs.A2CConfig`."""

    algo = "a2c"


class DQN(Agent):
    """Deep Q-learning; hyperparameters as in `steadyrl.configs.DQNConfig`."""

    algo = "dqn"


class DDPG(Agent):
    """Deep deterministic policy gradient; hyperparameters as in `steadyrl.configs.DDPGConfig`."""

    algo = "ddpg"


class TD3(Agent):
    """Twin delayed DDPG; hyperparameters as in `steadyrl.configs.TD3Config`."""

    algo = "td3"


class SAC(Agent):
    """Soft actor-critic; hyperparameters as in `steadyrl.configs.SACConfig`."""

    algo = "sac"


AGENTS: dict[str, type[Agent]] = {cls.algo: cls for cls in (PPO, A2C, DQN, DDPG, TD3, SAC)}


def load(path: str | Path, env: EnvLike | None = None, **options: Any) -> Agent:
    """The agent in a bundle; the algorithm is read from it.

    Args:
        path: The file that `agent.save` made, with or without its suffix.
        env: Where it may learn on, with a fresh optimiser; predicting needs none.
        **options: Settings such as `device`, `threads` or `env_kwargs`, and hyperparameters that should differ.

    Raises:
        UserError: the file is missing or damaged, or the environment's spaces are not the policy's.
    """
    file = Path(path)
    if not file.is_file() and file.suffix != SUFFIX:
        file = file.with_name(file.name + SUFFIX)
    device: torch.device = resolve_device(options.get("device") or "auto")
    bundle = read_bundle(file, device)
    algo = bundle.about.get("algo")
    if algo not in AGENTS:
        raise UserError(
            f"{file} was made by the algorithm {algo!r}, which this version does not have.",
            remedy="Install the version that made it.",
            code="unknown-algorithm",
        )
    config = from_json(algo, bundle.about["config"])
    setup = None
    if env is None and (without_effect := sorted(set(options) - {"device"})):
        raise UserError(
            f"{', '.join(without_effect)} given without an environment would have no effect.",
            remedy="Pass env= as well, or leave it out.",
            code="no-env",
        )
    if env is not None:
        trained = {"seed": bundle.about.get("seed", 0)} | dict(bundle.about["config"])
        setup = prepare_again(algo, env, trained, options)
        require_same_spaces(bundle.policy, setup)
    return AGENTS[algo].from_bundle(bundle, setup, config)


def evaluate(
    agent: Agent,
    episodes: int = 100,
    *,
    seed: int | None = None,
    deterministic: bool = True,
    env: EnvLike | None = None,
) -> Evaluation:
    """Play whole episodes with the agent's policy; normaliser frozen, raw rewards, training untouched.

    Args:
        agent: Whose policy.
        episodes: How many.
        seed: Fixes the episodes; None takes the agent's `eval_seed`.
        deterministic: The most likely actions, or sampled ones.
        env: Where; None makes environments like the agent's own.

    Raises:
        UserError: there is no environment to play in.
    """
    seeds = agent.seeds if seed is None else Seeds(agent.seeds.seed, eval_seed=seed)
    source = eval_source(agent, env)
    if source is None:
        raise UserError(
            "There is no environment to evaluate in.",
            remedy="Pass env=: an id, a function that makes an environment, or an environment.",
            code="no-env",
        )
    evaluator = Evaluator(source, seeds.eval_episode_seeds(episodes))
    try:
        with torch_threads(agent.threads):
            return evaluator(agent.policy, None if deterministic else seeds.stream("eval", "actions"))
    finally:
        evaluator.close()
