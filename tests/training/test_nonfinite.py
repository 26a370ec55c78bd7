"""Bad numbers anywhere in a training: seen before anything changes, named, saved, left out where that is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import steadyrl as srl
from steadyrl.errors import NonFiniteError, SteadyRLError
from steadyrl.training.agent import Agent
from steadyrl.training.agents import AGENTS
from steadyrl.training.checkpoint import save_checkpoint
from steadyrl.training.events import EpisodeBroken, EpisodeEnded, Event, MetricsLogged, Notice
from steadyrl.training.finding import find_checkpoint
from support.nonfinite import (
    ALGOS,
    BAD,
    LOSSES,
    OPTIMIZERS,
    OPTIONS,
    SMALL,
    Poison,
    Poisoned,
    action_of,
    clean,
    digest,
    learnt,
    poison_actions,
    stored,
    watched,
)

TOLD = ("observation", "final", "reward", "info")
SOURCES = (*TOLD, "action", "loss-0", "loss-1", "gradient-0", "gradient-1")
ADDS = {"ppo": {"normalize_obs": True, "normalize_reward": True}, "sac": {"normalize_obs": True}}


def poisoned(algo: str, source: str, value: float, *, at: int = 50, **options: Any) -> Agent:
    """An agent in two environments, with one bad number at this source."""
    where = source if source in TOLD else ""
    tree = options.pop("tree", False)
    times = options.pop("times", 1)
    make = partial(Poisoned, where, value, at, action_of(algo), tree, times)
    agent = AGENTS[algo](make, **SMALL | {"num_envs": 2} | OPTIONS[algo] | ADDS.get(algo, {}) | options)
    algorithm: Any = agent.loop.algorithm
    kind, _, number = source.partition("-")
    if kind == "loss":
        name = LOSSES[algo][int(number)]
        setattr(algorithm, name, Poison(value, 4, times).loss(getattr(algorithm, name)))
    elif kind == "gradient":
        Poison(value, 4, times).gradient(getattr(algorithm, OPTIMIZERS[algo][int(number)]))
    elif kind == "action":
        poison_actions(agent, Poison(value, 45))
    return agent


def cases() -> list[tuple[str, str]]:
    found = [(algo, source) for algo in ALGOS for source in SOURCES]
    found = [(algo, source) for algo, source in found if not source.endswith("1") or len(LOSSES[algo]) > 1]
    found.remove(("dqn", "action"))  # whole numbers
    return found


def check_refused(algo: str, source: str, value: float, **options: Any) -> None:
    agent = poisoned(algo, source, value, **options)
    with watched(agent) as seen, pytest.raises(SteadyRLError) as caught:
        agent.learn(200)
    assert learnt(agent) == seen["learnt"], "something had been learnt from it"
    assert clean(stored(agent)), "a bad number was stored"
    if seen["during"] == "step":
        assert digest(stored(agent)) == seen["stored"], "something had been stored before it was seen"
    message = caught.value.message
    if source == "info":
        assert "environment 0" in message
        assert "in step 10 of its episode" in message
        return
    assert isinstance(caught.value, NonFiniteError)
    assert caught.value.exit_status == 3
    assert caught.value.batch, "there is nothing to save"
    facts = caught.value.facts
    if source in TOLD:
        assert "Environment 0" in message
        assert "in step 10 of its episode" in message
        assert (facts["source"], facts["environment"], facts["episode_step"]) == ("environment", 0, 10)
        assert facts["what"].split()[0] == {"final": "observation"}.get(source, source)
        assert facts.get("entry") == (None if source == "reward" else 1)
    elif source == "action":
        assert (facts["source"], facts["environment"], facts["dimension"]) == ("action", 1, 1)
        assert f"environment step {seen['at']}" in message
        sent = np.array([action for env in agent.loop.venv._env.envs for action in env.unwrapped.actions])  # type: ignore[attr-defined]
        assert len(sent) == seen["at"]
        assert np.isfinite(sent).all()
    else:
        assert facts["source"] == source.partition("-")[0]
        assert facts["name"].startswith("train/")
        assert facts["step"] == seen["at"]
        assert f"environment step {seen['at']}" in message
        assert facts["name"] in message
    agent.close()


@pytest.mark.parametrize(("algo", "source"), cases(), ids=map("-".join, cases()))
def test_a_bad_number_is_seen_before_anything_changes(algo: str, source: str) -> None:
    names = list(BAD)
    check_refused(algo, source, BAD[names[cases().index((algo, source)) % len(names)]])


@pytest.mark.soak
@pytest.mark.parametrize("kernels", ["native", "torch"])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("algo", "source"), cases(), ids=map("-".join, cases()))
def test_every_bad_number_is_seen_before_anything_changes(algo: str, source: str, bad: str, kernels: str) -> None:
    check_refused(algo, source, BAD[bad], kernels=kernels)


@pytest.mark.parametrize("algo", ALGOS)
def test_a_bad_number_in_a_dictionary_is_named_by_its_key(algo: str) -> None:
    check_refused(algo, "observation", np.nan, tree=True)
    agent = poisoned(algo, "observation", np.inf, tree=True)
    with pytest.raises(NonFiniteError, match="as entry 1 of its observation at 'place' in step 10 of its episode"):
        agent.learn(200)


@pytest.mark.parametrize("source", ["observation", "final", "reward"])
def test_a_bad_number_of_a_worker_is_named_as_one_of_this_process(source: str) -> None:
    agent = poisoned("ppo", source, np.inf, vec="async")
    with watched(agent) as seen, pytest.raises(NonFiniteError, match=r"Environment 0 .* in step 10 of its episode"):
        agent.learn(200)
    assert learnt(agent) == seen["learnt"]
    assert digest(stored(agent)) == seen["stored"]
    agent.close()


def test_a_bad_first_observation_is_seen() -> None:
    with pytest.raises(NonFiniteError, match="in step 0 of its episode"):
        poisoned("sac", "observation", np.nan, at=0).learn(10)


def test_a_bad_log_probability_of_a_whole_number_is_not_trained_on() -> None:
    agent = AGENTS["a2c"](partial(Poisoned, action="discrete"), **SMALL, num_envs=2, n_steps=8)
    poison_actions(agent, Poison(np.nan, 12), log_probs=True)
    with (
        watched(agent) as seen,
        pytest.raises(NonFiniteError, match="environment 1 in step 3 of the rollout") as caught,
    ):
        agent.learn(200)
    assert learnt(agent) == seen["learnt"]
    assert clean(stored(agent))
    assert caught.value.facts["source"] == "log-probability"


def broken_by(event_type: type, change: Callable[[], Any]) -> Callable[[Event], None]:
    return lambda event: change() if isinstance(event, event_type) else None


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("algo", ALGOS)
def test_bad_weights_are_not_trained_on(algo: str, bad: str) -> None:
    agent = poisoned(algo, "", 0.0)
    weights = next(agent.policy.net.parameters())

    def spoil() -> None:
        weights.data.view(-1)[3] = BAD[bad]
        before.append(learnt(agent))

    before: list[str] = []
    with pytest.raises(NonFiniteError, match=r"Weight 3 of \S+ is .* at environment step 8\d: it was not trained on"):
        agent.learn(200, callback=broken_by(EpisodeEnded, spoil))
    assert learnt(agent) == before[-1]


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_bad_observation_statistics_are_not_trained_on(algo: str) -> None:
    agent = poisoned(algo, "", 0.0)
    normalizer = agent.policy.normalizer
    assert normalizer is not None

    def spoil() -> None:
        normalizer.statistics[""].mean = np.array([0.0, np.nan, 0.0])

    with pytest.raises(NonFiniteError):
        agent.learn(200, callback=broken_by(EpisodeEnded, spoil))
    assert all(bool(torch.isfinite(p).all()) for p in agent.policy.net.parameters())


def run_of(algo: str, source: str, value: float, path: Path, **options: Any) -> SteadyRLError:
    agent = poisoned(algo, source, value, checkpoint_freq=20, **options)
    with pytest.raises(SteadyRLError) as caught:
        agent.learn(200, run_dir=path)
    agent.close()
    return caught.value


@pytest.mark.parametrize(
    ("algo", "source"), [("ppo", "reward"), ("ppo", "loss-0"), ("td3", "gradient-1"), ("sac", "action")]
)
def test_the_batch_is_saved_and_the_newest_checkpoint_is_whole(algo: str, source: str, tmp_path: Path) -> None:
    error = run_of(algo, source, np.nan, tmp_path / "run")
    (words_file,) = (tmp_path / "run" / "failures").glob("*.json")
    words = json.loads(words_file.read_text())
    arrays = load_file(words_file.with_suffix(".safetensors"))
    assert f"The batch is saved in {words_file.with_suffix('.safetensors')}." in error.remedy
    assert words_file.name == f"nonfinite-step{words['step']}.json"
    assert words["message"] == error.message
    assert words["arrays"] == {name: list(array.shape) for name, array in arrays.items()}
    assert len(words["config_sha256"]) == 64
    assert {"reward": "rewards", "action": "actions"}.get(source, "obs") in arrays
    if source in ("reward", "action"):
        assert np.isnan(arrays[f"{source}s"]).any()
    else:
        assert len(arrays["index"]) == len(arrays["obs"]) == OPTIONS[algo]["batch_size"]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "failed"
    healthy = srl.load(find_checkpoint(tmp_path / "run" / "checkpoints", str(words["step"])))
    assert all(bool(torch.isfinite(p).all()) for p in healthy.policy.net.parameters())
    assert manifest["weights_sha256"] == healthy.policy.sha256()
    assert "The agent as it was before is saved in" in error.remedy


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    agent = AGENTS["ppo"]("CartPole-v1", **SMALL)
    good = save_checkpoint(tmp_path, 0, agent.bundle())
    agent.policy.parts["net"].flat.data[5] = torch.inf
    with pytest.raises(NonFiniteError, match=r"net\.\S+ holds numbers that are not finite, so it was not saved"):
        save_checkpoint(tmp_path, 1, agent.bundle())
    with pytest.raises(NonFiniteError, match="not saved"):
        agent.save(tmp_path / "bad.srl")
    assert [path.name for path in tmp_path.iterdir()] == [good.name]
    agent.close()


def test_statistics_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    agent = AGENTS["ppo"]("CartPole-v1", **SMALL, normalize_obs=True)
    assert agent.policy.normalizer is not None
    agent.policy.normalizer.statistics[""].mean = np.array([0.0, np.nan, 0.0, 0.0])
    with pytest.raises(NonFiniteError, match=r"normalizer\.mean/ holds"):
        agent.save(tmp_path / "bad.srl")
    assert not list(tmp_path.iterdir())


def test_a_run_with_bad_weights_keeps_its_last_good_checkpoint(tmp_path: Path) -> None:
    agent = poisoned("a2c", "", 0.0, checkpoint_freq=20)
    weights = next(agent.policy.net.parameters())
    spoil = broken_by(EpisodeEnded, lambda: weights.data.view(-1)[0].fill_(torch.nan))
    with pytest.raises(NonFiniteError) as caught:
        agent.learn(200, run_dir=tmp_path / "run", callback=spoil)
    assert "saved" not in caught.value.remedy
    steps = sorted(int(path.name.removeprefix("step_")) for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert steps == [20, 40, 60]
    srl.load(find_checkpoint(tmp_path / "run" / "checkpoints", "60"))


def test_a_skipped_minibatch_is_counted_and_said_once(tmp_path: Path) -> None:
    events: list[Event] = []
    agent = poisoned("sac", "loss-1", np.nan, times=3, on_nonfinite="skip", log_interval=10)
    with watched(agent):
        agent.learn(200, run_dir=tmp_path / "run", callback=events.append)
    warnings = [event for event in events if isinstance(event, Notice) and event.code == "nonfinite-batch"]
    assert len(warnings) == 1
    assert "train/actor_loss is nan in minibatch 1" in warnings[0].message
    rows = [event.metrics["train/nonfinite_batches"] for event in events if isinstance(event, MetricsLogged)]
    assert rows[0] == 0
    assert rows[-1] == 3
    assert len(list((tmp_path / "run" / "failures").glob("*.json"))) == 3
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(("algo", "source"), [case for case in cases() if case[1].startswith(("loss", "gradient"))])
def test_a_skipped_minibatch_leaves_no_trace(algo: str, source: str) -> None:
    agent = poisoned(algo, source, np.inf, on_nonfinite="skip", **({"prioritized": True} if algo == "dqn" else {}))
    guard, before, after = agent.loop.guard, [], []
    minibatch, leave = guard.minibatch, type(guard).__exit__

    class Watching(type(guard)):  # type: ignore[misc]
        def __exit__(self, *args: Any) -> bool:
            left_out = leave(self, *args)
            if left_out:
                before.append(entered[-1])
                after.append((learnt(agent), digest(stored(agent))))
            return left_out

    entered: list[Any] = []

    def enter(*args: Any) -> Any:
        entered.append((learnt(agent), digest(stored(agent))))
        return minibatch(*args)

    guard.minibatch = enter  # type: ignore[method-assign, assignment]
    guard.__class__ = Watching
    agent.learn(200)
    assert guard.count == 1
    assert before == after
    assert len(entered) > 5
    assert learnt(agent) != before[0][0]


def test_too_many_in_a_row_stop_the_run_with_a_good_checkpoint(tmp_path: Path) -> None:
    error = run_of("dqn", "loss-0", np.nan, tmp_path / "run", times=99, on_nonfinite="skip", nonfinite_limit=4)
    assert isinstance(error, NonFiniteError)
    assert error.message.startswith("4 minibatches in a row were left out; of the last one: The loss train/loss is nan")
    assert error.facts["in_a_row"] == 4
    step = json.loads((tmp_path / "run" / "manifest.json").read_text())["timesteps"]
    agent = srl.load(find_checkpoint(tmp_path / "run" / "checkpoints", str(step)))
    assert all(bool(torch.isfinite(p).all()) for p in agent.policy.net.parameters())


def test_good_minibatches_between_bad_ones_begin_the_count_anew() -> None:
    agent = poisoned("dqn", "", 0.0, on_nonfinite="skip", nonfinite_limit=2)
    algorithm: Any = agent.loop.algorithm
    inner = algorithm._loss
    calls: list[int] = []

    def loss(*args: Any) -> Any:
        value, *rest = inner(*args)
        calls.append(1)
        return value * (torch.nan if len(calls) % 2 else 1), *rest

    algorithm._loss = loss
    agent.learn(200)
    assert agent.loop.guard.count == (len(calls) + 1) // 2 > 10


@pytest.mark.parametrize("algo", ["ppo", "sac"])
@pytest.mark.parametrize("source", ["observation", "final", "reward"])
def test_an_environment_that_tells_a_bad_number_is_started_anew(algo: str, source: str) -> None:
    agent = poisoned(algo, source, np.nan, at=50, on_nonfinite="skip")
    events: list[Event] = []
    agent.learn(201, callback=events.append)
    notice = next(event for event in events if isinstance(event, Notice) and event.code == "env-restart")
    assert "failed in step 10 of its episode (it gave nan as " in notice.message
    assert agent.num_timesteps == 201
    assert clean(stored(agent))
    venv: Any = agent.loop.venv
    assert venv.dropped == 2  # one in each environment, in the same step
    steps = [env.unwrapped.life for env in venv._env.envs]
    assert sum(steps) in (203, 204)  # two rows did not count, one may be thrown away at the end
    lengths = [event.length for event in events if isinstance(event, EpisodeEnded)]
    assert set(lengths) == {40}, "the broken episode was counted"
    metrics = [event.metrics for event in events if isinstance(event, MetricsLogged)]
    assert not metrics or metrics[-1]["rollout/nonfinite_episodes"] == 2


def test_an_environment_that_always_tells_bad_numbers_stops_the_run() -> None:
    agent = poisoned("ppo", "reward", np.inf, times=10**9, on_nonfinite="skip", nonfinite_limit=3)
    with pytest.raises(NonFiniteError, match="gave inf as its reward"):
        agent.learn(300)
    assert agent.loop.venv.dropped == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("source", ["observation", "final", "reward"])
def test_an_episode_that_is_left_out_is_said_in_one_sentence_and_with_its_step(
    source: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    events: list[Event] = []
    agent = poisoned("ppo", source, np.nan, on_nonfinite="skip")
    agent.learn(200, run_dir=tmp_path / "run", callback=events.append)
    broken = [event for event in events if isinstance(event, EpisodeBroken)]
    what = "reward" if source == "reward" else "observation"
    reason = f"it gave nan as {'' if source == 'reward' else 'entry 1 of '}its {what}"
    assert [(event.length, event.reason) for event in broken] == [(9, reason)] * 2
    assert all(np.isfinite(event.return_) for event in broken)
    notices = [event.message for event in events if isinstance(event, Notice) and event.code == "env-restart"]
    place = f"failed in step 10 of its episode ({reason})"
    assert notices[0] == f"Environment 0 {place} and was started anew; that episode is left out."
    assert [str(warning.message) for warning in recwarn if "Left out" in str(warning.message)] == []
    rows = [row for row in srl.Run.open(tmp_path / "run").episodes() if row.get("broken")]
    assert [row["length"] for row in rows] == [9, 9]
