from typing import Any

import pytest

from steadyrl.cli.bench_command import BenchOptions
from steadyrl.cli.flags import Flag, flags_of, shown, take_apart, unknown_flag, values
from steadyrl.cli.main import main
from steadyrl.configs import LinearSchedule, PPOConfig
from steadyrl.configs.run import RunSettings
from steadyrl.errors import UserError

FLAGS = [*flags_of(RunSettings, "run"), *flags_of(PPOConfig, "ppo")]
ALIASES = {"exp-name": "name", "env-id": "env"}


def parsed(line: str) -> dict[str, Any]:
    return values(take_apart(line.split(), FLAGS, ALIASES), FLAGS)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--seed 3", {"seed": 3}),
        ("--seed=3", {"seed": 3}),
        ("--num_envs 4 --n-steps=1e2", {"num_envs": 4, "n_steps": 100}),
        ("--log-std-init -2", {"log_std_init": -2.0}),
        ("--log-std-init -2e-1", {"log_std_init": -0.2}),
        ("--log-std-init=-.5", {"log_std_init": -0.5}),
        ("--capture-video", {"capture_video": True}),
        ("--no-capture-video", {"capture_video": False}),
        ("--no_ortho_init", {"ortho_init": False}),
        ("--capture-video=False", {"capture_video": False}),
        ("--normalize-obs True --seed 1", {"normalize_obs": True, "seed": 1}),
        ("--net-arch=[64,32]", {"net_arch": (64, 32)}),
        ("--net-arch {'pi':[8],'vf':[4]}", {"net_arch": {"pi": (8,), "vf": (4,)}}),
        ("--image-layout {'left/eye':'chw'}", {"image_layout": {"left/eye": "chw"}}),
        ("--image-layout chw", {"image_layout": "chw"}),
        ("--learning-rate 1e-3 --learning-rate-end 0", {"learning_rate": 1e-3, "learning_rate_end": 0.0}),
        ("--target-kl None", {"target_kl": None}),
        ("--exp-name tag --env-id CartPole-v1", {"name": "tag", "env": "CartPole-v1"}),
        ("--env-kwargs continuous=True gravity=-9.5", {"env_kwargs": {"continuous": True, "gravity": -9.5}}),
        ("--env-kwargs a=x --env-kwargs b=[1,2]", {"env_kwargs": {"a": "x", "b": [1, 2]}}),
        ("--env-kwargs={'a':1}", {"env_kwargs": {"a": 1}}),
        ("--env-kwargs a=true b=none", {"env_kwargs": {"a": True, "b": None}}),
    ],
)
def test_spellings(line: str, expected: dict[str, Any]) -> None:
    assert parsed(line) == expected


def test_positionals_are_told_from_values() -> None:
    line = "--seed 1 ppo --capture-video CartPole-v1 --env-kwargs a=1 last"
    words = take_apart(line.split(), FLAGS, ALIASES)
    assert words.positionals == ["ppo", "CartPole-v1", "last"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--gama 0.9", "Did you mean --gamma"),
        ("--update-epochs 4", "--n-epochs"),
        ("--algo ppo --env CartPole-v1", "the algorithm is the first word, the environment the second"),
        ("--n-timesteps 100", "Here it is --total-timesteps. --help"),
        ("-n 100", "Here it is --total-timesteps. --help"),
        ("--seed", "--seed needs a value"),
        ("--seed --gamma 1", "--seed needs a value"),
        ("--env-kwargs oops", "not K=V"),
        ("--env-kwargs 1x=2", "not K=V"),
        ("--no-seed", "There is no flag --no-seed"),
        ("-s 1", "There is no flag -s"),
        ("-seed 1", "There is no flag -seed"),
        ("--capture-video=often", "True or False"),
        ("--seed 1 --seed 2", "--seed is given twice, as 1 and 2"),
        ("--seed 1 --gamma 0.9 --seed=1", "--seed is given twice, as 1 and 1"),
        ("--num-envs 2 --num_envs 4", "--num-envs is given twice, as 2 and 4"),
        ("--name a --exp-name b", "--name is given twice, as a and b"),
        ("--capture-video --no-capture-video", "--capture-video is given twice, as True and False"),
        ("--no-ortho-init --ortho-init=True", "--ortho-init is given twice, as False and True"),
        ("--env-kwargs a=1 b=2 a=3", "--env-kwargs has a twice, as 1 and 3"),
        ("--env-kwargs a=1 --env-kwargs {'a':2}", "--env-kwargs has a twice, as 1 and 2"),
    ],
)
def test_mistakes_are_named(line: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parsed(line)


@pytest.mark.parametrize("name", ["gamma", "n-steps", "net-arch", "recurrent", "vec", "exp-name"])
def test_the_example_of_a_missing_value_is_the_default_and_fits(name: str) -> None:
    with pytest.raises(UserError) as caught:
        parsed(f"--{name}")
    typed = caught.value.remedy.removeprefix("For example: ").removesuffix(".")
    (found,) = parsed(typed).items()
    defaults = {"gamma": 0.99, "n_steps": 2048, "net_arch": (64, 64), "recurrent": "none", "vec": "auto"}
    assert found in [*defaults.items(), ("name", "name")]


def test_flags_that_gather_values_may_be_given_again() -> None:
    flags = flags_of(RunSettings, "run")
    assert {flag.name for flag in flags if flag.is_repeatable} == {"env-kwargs", "wrappers"}
    words = take_apart(["--wrapper", "A", "--wrapper", "B", "--wrappers", "A"], flags, {"wrapper": "wrappers"})
    assert values(words, flags) == {"wrappers": ("A", "B", "A")}


def test_a_hopeless_flag_gets_no_suggestion() -> None:
    assert unknown_flag("--qqqqqqqq", ["seed"]).remedy == "--help lists them."


def flag(name: str) -> Flag:
    return next(found for found in FLAGS if found.name == name)


def test_a_flag_carries_doc_default_and_placeholder() -> None:
    assert flag("gamma") == Flag("gamma", float, "Discount factor.", "0.99", "ppo")
    assert [flag(name).metavar for name in ("seed", "gamma", "run-dir", "name", "net-arch", "learning-rate")] == [
        "N",
        "X",
        "PATH",
        "NAME",
        "[N,N]",
        "X",
    ]
    assert flag("image-layout").metavar == "{auto,hwc,chw}"
    assert flag("vec").metavar == "{auto,sync,async,envpool,native}"
    assert flag("env-kwargs").metavar == "K=V ..."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (LinearSchedule(1e-3, 0.0), "0.001 to 0"),
        ((64, 64), "[64,64]"),
        (None, "none"),
        (3e-4, "0.0003"),
        ("tanh", "tanh"),
        ({"pi": (8,)}, "{pi: [8]}"),
    ],
)
def test_shown_as_one_would_type_it(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_flag_that_takes_a_list_says_so_and_how_to_write_two() -> None:
    flags = {flag.name: flag for flag in flags_of(BenchOptions, "flags")}
    assert flags["num-envs"].metavar == flags["num-workers"].metavar == "[N,N]"
    assert (flags["num-workers"].default, flags["num-envs"].default) == ("", "[1,2,4,8,16]")
    with pytest.raises(UserError, match="takes one word, but 1 4 are 2") as caught:
        take_apart(["--num-envs", "1", "4"], flags.values(), {})
    assert caught.value.remedy == "Write --num-envs 1,4."


def test_a_switch_that_begins_with_no_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--help"]) == 0
    out = capsys.readouterr().out
    assert "  --no-side-effects " in out
    assert "--[no-]quick" in out
