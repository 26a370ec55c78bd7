"""What is raced, how the clock runs and how a policy is scored: alike for every library, none of them imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import gymnasium as gym
from speed_works import WORKS

EPISODES = 10  # of an evaluation
FIRST_SEED = 10_000  # of its episodes; training seeds are small


@dataclass(frozen=True)
class Race:
    """Training until a deterministic evaluation has this mean; one takes place every `every` environment steps."""

    algo: str
    env: str
    num_envs: int
    score: float
    every: int
    limit: int
    settings: dict[str, Any] = field(default_factory=dict)


RACES = {
    "ppo-cartpole": Race("ppo", "CartPole-v1", 8, 475.0, 2000, 100_000, WORKS["ppo-cartpole"].settings),
    "sac-halfcheetah": Race(
        "sac",
        "HalfCheetah-v5",
        1,
        4000.0,
        5000,
        200_000,
        {"batch_size": 256, "learning_starts": 10_000, "buffer_size": 1_000_000, "net_arch": (256, 256)},
    ),
}


class Clock:
    """Training seconds of this process, by the wall and of its processors, without what happens while it stands."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self._since: tuple[float, float] | None = None

    def go(self) -> None:
        """Run on."""
        self._since = perf_counter(), process_time()

    def stand(self) -> None:
        """Stop; without effect while it stands."""
        if self._since is not None:
            self.wall += perf_counter() - self._since[0]
            self.cpu += process_time() - self._since[1]
            self._since = None


class Judge:
    """Evaluates a policy outside the clock whenever it is due, and keeps what came of it.

    Args:
        race: What is raced.
        predict: `predict(observation, deterministic=True)` gives an action and a state, in every library.
    """

    def __init__(self, race: Race, predict: Any) -> None:
        self.race = race
        self.clock = Clock()
        self.rows: list[dict[str, float]] = []
        self._predict = predict
        self._env: Any = None
        self._next = race.every

    def __call__(self, step: int) -> bool:
        """Whether the race goes on after this environment step."""
        if step < self._next:
            return True
        self._next = step - step % self.race.every + self.race.every
        self.clock.stand()
        mean = self.evaluate()
        wall, cpu = round(self.clock.wall, 3), round(self.clock.cpu, 3)
        self.rows.append({"step": step, "mean": mean, "wall_s": wall, "cpu_s": cpu})
        self.clock.go()
        return mean < self.race.score

    def evaluate(self) -> float:
        """Mean return of whole episodes with fixed seeds."""
        if self._env is None:
            self._env = gym.make(self.race.env)
        total = 0.0
        for seed in range(FIRST_SEED, FIRST_SEED + EPISODES):
            obs, _ = self._env.reset(seed=seed)
            over = False
            while not over:
                action, _ = self._predict(obs, deterministic=True)
                obs, reward, terminated, truncated, _ = self._env.step(action)
                total += float(reward)
                over = terminated or truncated
        return total / EPISODES


def result(rows: list[dict[str, float]], score: float) -> dict[str, Any]:
    """The first evaluation that reached the score, or the last one of a run that never did."""
    first = next((row for row in rows if row["mean"] >= score), None)
    return {"reached": first is not None, **(first or rows[-1])}
