"""Whatever a constructor accepts can be saved and loaded."""

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrl as srl
from support.bundles import packed
from support.training_envs import Legs

WHOLE = st.integers(1, 5) | st.integers(0, 2**63 - 1) | st.sampled_from([0, 2**63, 10**30, -1]) | st.integers()
NUMBER = st.floats(0, 1) | st.floats() | st.sampled_from([0, 1, 10**30, 1e-320])
VALUE = st.recursive(
    WHOLE | NUMBER | st.none() | st.booleans() | st.text(max_size=3) | st.just("\ud800") | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("seed", "env_seed", "algo_seed", "eval_seed", "eval_freq", "checkpoint_freq"), WHOLE),
    **dict.fromkeys(("max_episode_steps", "log_interval", "sde_sample_freq", "eval_episodes", "n_epochs"), WHOLE),
    **dict.fromkeys(("learning_rate", "gamma", "ent_coef", "vf_coef", "max_grad_norm", "log_std_init"), NUMBER),
    **dict.fromkeys(("clip_range", "clip_range_vf", "target_kl"), NUMBER),
    **dict.fromkeys(("use_sde", "normalize_obs", "layer_norm"), st.booleans()),
    "name": st.text(max_size=3) | st.just("\udfff"),
    "net_arch": st.lists(st.integers(0, 3), max_size=3),
    "env_kwargs": st.fixed_dictionaries({"extra": VALUE}),
}


@st.composite
def options_of(draw: st.DrawFn) -> dict[str, Any]:
    """Up to three options, so that many are accepted."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True))
    return {name: draw(VALUES[name]) for name in names}


class Takes(Legs):
    def __init__(self, extra: Any = None) -> None:
        super().__init__()


@settings(max_examples=150, deadline=None)
@given(options_of())
def test_what_is_accepted_can_be_saved_and_loaded(options: dict[str, Any]) -> None:
    try:
        agent = srl.PPO(Takes, preset="none", n_steps=8, batch_size=8, **options)
    except srl.UserError:
        return
    with tempfile.TemporaryDirectory() as folder:
        loaded = srl.load(agent.save(Path(folder) / "x"))
    assert loaded.config == agent.config
    assert loaded.about["seed"] == options.get("seed", 0)
    assert loaded.policy.sha256() == agent.policy.sha256()


def test_the_property_covers_agents_that_are_accepted() -> None:
    agent = srl.PPO(Takes, preset="none", seed=2**63 - 1, env_kwargs={"extra": [2**63 - 1, None, "x"]}, use_sde=True)
    with tempfile.TemporaryDirectory() as folder:
        assert srl.load(agent.save(Path(folder) / "x")).about["env_kwargs"] == {"extra": [2**63 - 1, None, "x"]}


def test_an_agent_saved_before_there_was_layer_normalisation_is_loaded(tmp_path: Path) -> None:
    agent = srl.PPO(Takes, preset="none", n_steps=8, batch_size=8)
    path = agent.save(tmp_path / "new")
    with zipfile.ZipFile(path) as archive:
        header, weights = json.loads(archive.read("bundle.json")), archive.read("weights.safetensors")
    assert header["policy"]["architecture"].pop("layer_norm") is False
    assert header["about"]["config"].pop("layer_norm") is False
    old = tmp_path / "old.srl"
    old.write_bytes(packed(header, weights))
    loaded = srl.load(old)
    assert loaded.config == agent.config
    assert loaded.policy.sha256() == agent.policy.sha256()
