import json

import pytest

from steadyrl.cli.main import main
from steadyrl.cli.presets_command import shown_setting
from steadyrl.config import presets
from steadyrl.configs import CONFIGS


def documents(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, object]]:
    assert main(["presets", *args, "--json"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)["presets"]
    return rows


def test_every_preset_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [(row["algo"], row["env"]) for row in documents(capsys)]
    assert listed == [(algo, name) for algo in CONFIGS for name in presets(algo)]


def test_the_list_can_be_narrowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert {row["algo"] for row in documents(capsys, "a2c")} == {"a2c"}
    assert [(row["algo"], row["env"]) for row in documents(capsys, "Pendulum-v1")] == [
        (algo, "Pendulum-v1") for algo in ("ppo", "a2c", "ddpg", "td3", "sac")
    ]
    (row,) = documents(capsys, "ppo", "CartPole-v1")
    assert row["total_timesteps"] == 100_000
    assert row["hyperparameters"] == presets("ppo")["CartPole-v1"].values
    assert "rl-baselines3-zoo" in str(row["source"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("sac", "CartPole-v1"),
            "of sac for CartPole-v1, only of ppo, a2c, dqn.\n`steadyrl presets CartPole-v1` shows",
        ),
        (("ppo", "Foo-v1"), "There is no preset for Foo-v1.\n`steadyrl presets` lists them all."),
        (("ppo", "Cartpole-v0"), "Did you mean CartPole-v1? `steadyrl presets` lists them all."),
    ],
)
def test_where_there_is_none_it_says_where_there_are(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["presets", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_table_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["ppo", "CartPole-v1", "100,000", "steps"]
    assert max(map(len, lines)) <= 80
    assert sum("source:" in line for line in lines) == sum(len(presets(algo)) for algo in CONFIGS)


def test_settings_are_shown_as_typed() -> None:
    assert shown_setting({"start": 1e-3, "end": 0}) == "0.001..0"
    assert shown_setting({"pi": [256, 256], "vf": [64]}) == "{pi:[256,256],vf:[64]}"
    assert shown_setting([64, 64]) == "[64,64]"
