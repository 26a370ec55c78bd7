"""The documentation says what is so: its code runs, its commands parse, its links resolve, its tables are current."""

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

import steadyrl as srl
from steadyrl.cli.bench_command import BenchOptions
from steadyrl.cli.check_command import CheckOptions
from steadyrl.cli.eval_command import EvalOptions
from steadyrl.cli.flags import _ELSEWHERE, flags_of, take_apart, values
from steadyrl.cli.info_command import InfoOptions
from steadyrl.cli.main import COMMANDS
from steadyrl.cli.main import main as steadyrl_command
from steadyrl.cli.new_env_command import NewEnvOptions
from steadyrl.cli.presets_command import PresetsOptions
from steadyrl.cli.record_command import RecordOptions
from steadyrl.cli.replay_command import ReplayOptions
from steadyrl.cli.reproduce_command import ReproduceOptions
from steadyrl.cli.resume_command import ResumeOptions
from steadyrl.cli.train_command import ALIASES, EXIT_STATUS, TrainOptions
from steadyrl.cli.train_command import parse as parse_train
from steadyrl.cli.verify_resume_command import VerifyOptions, apart
from steadyrl.config.habits import ATTRIBUTES, HABITS, NAMES
from steadyrl.config.resolve import hints
from steadyrl.configs import CONFIGS
from steadyrl.configs.run import RunSettings
from steadyrl.errors import UserError
from steadyrl.training.events import Event
from support.docs import PAGES, ROOT, anchors, blocks, commands, links, page_id, prose

DOCS = ROOT / "docs"
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
OPTIONS = {
    "eval": EvalOptions,
    "record": RecordOptions,
    "presets": PresetsOptions,
    "info": InfoOptions,
    "replay": ReplayOptions,
    "bench": BenchOptions,
    "check": CheckOptions,
    "new-env": NewEnvOptions,
    "resume": ResumeOptions,
    "reproduce": ReproduceOptions,
}
FOREIGN_FLAGS = {"help", "version", "logdir", "cores", "bless"}  # argparse's, TensorBoard's and those of benchmarks
TAG = re.compile(r"\b(?:rollout|time|train|eval)/[a-z_]+\b")
NEEDS = {"atari.md": ("ale_py", "cv2")}  # modules that a page's code needs and a machine may lack
WITH_CODE = [page for page in PAGES if blocks(page, "python")]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="this copy of the tests comes without docs/")


def test_the_pages_that_are_promised_exist_and_have_code() -> None:
    guide = {f"docs/{page}.md" for page in ("guide", "environments", "runs", "numbers")}
    assert {"README.md", *guide, "docs/ppo.md", "docs/a2c.md", "docs/migration.md"} <= set(map(page_id, WITH_CODE))
    assert {"CHANGELOG.md", "docs/handbook.md"} <= set(map(page_id, PAGES))


@pytest.mark.parametrize("page", WITH_CODE, ids=page_id)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page share one namespace and one working folder, as for a reader who types them one by one."""
    for module in NEEDS.get(page.name, ()):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    namespace: dict[str, Any] = {"__name__": "docs"}
    for block in blocks(page, "python"):
        if block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
            importlib.invalidate_caches()
        else:
            # Padded, so that a traceback names the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, page_id(page), "exec"), namespace)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_commands_parse() -> None:
    checked = 0
    for page in PAGES:
        for words in commands(page):
            _check_command(words, page_id(page))
            checked += 1
    assert checked >= 10


def _check_command(words: list[str], where: str) -> None:
    command, *rest = words
    assert command in COMMANDS, f"{where}: steadyrl {command}"
    if command == "train":
        algo, env, given, _ = parse_train(rest)
        assert algo in CONFIGS
        settings = {field for field in RunSettings.__dataclass_fields__ if field in given}
        assert RunSettings(env=env, **{name: given[name] for name in settings}).env == env
    elif command == "verify-resume":
        own, training = apart(rest)
        parse_train(training)
        flags = flags_of(VerifyOptions, "")
        VerifyOptions(**values(take_apart(own, flags, {}), flags))
    else:
        flags = flags_of(OPTIONS[command], "")
        words_apart = take_apart(rest, flags, {})
        OPTIONS[command](**values(words_apart, flags))
        assert len(words_apart.positionals) <= 2


def test_the_error_that_the_guide_shows_is_the_real_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = next(block.text for block in blocks(DOCS / "runs.md", "console") if "error:" in block.text)
    command, *lines = shown.splitlines()
    assert steadyrl_command(command.removeprefix("$ steadyrl ").split()) == 2
    assert capsys.readouterr().err.splitlines() == lines
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_resolve(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_functions_that_details_link_to_exist() -> None:
    """`[`Name.method`](../src/file.py)`: the file defines it."""
    checked = 0
    for page in PAGES:
        for name, target in re.findall(r"\[`([A-Za-z_][\w.]*)`\]\(([^)#]+\.py)\)", prose(page)):
            assert name in _defined((page.parent / target).resolve()), f"{page_id(page)}: {name} in {target}"
            checked += 1
    assert checked >= 15


def test_tests_that_the_handbook_names_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", prose(DOCS / "handbook.md"))
    assert len(named) >= 30
    missing = [f"{path}::{name}" for path, name in named if name not in _defined(ROOT / path)]
    assert missing == []


def test_every_rule_of_the_handbook_says_what_holds_it() -> None:
    rules = re.split(r"^### ", prose(DOCS / "handbook.md"), flags=re.MULTILINE)[1:]
    assert [rule.splitlines()[0] for rule in rules if "Held by " not in rule] == []


def _defined(path: Path) -> set[str]:
    """Functions, classes and methods (`Class.method`) of a file; empty where there is none."""
    if not path.is_file():
        return set()
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{method.name}" for method in node.body if isinstance(method, ast.FunctionDef)}
    return names


def _flags() -> set[str]:
    classes = [TrainOptions, RunSettings, *CONFIGS.values(), *OPTIONS.values()]
    flags = [flag for cls in classes for flag in flags_of(cls, "")]
    return {flag.name for flag in flags} | {f"no-{flag.name}" for flag in flags if flag.is_switch}


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=page_id)
def test_flags_that_are_named_exist(page: Path) -> None:
    allowed = _flags() | set(ALIASES) | FOREIGN_FLAGS
    if page.name == "migration.md":
        allowed |= set(_ELSEWHERE)
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z-]*[a-z])", prose(page)))
    assert named - allowed == set()


def test_every_flag_is_documented() -> None:
    text = "".join(prose(page) for page in DOCS.glob("*.md"))
    train = {flag.name for cls in (TrainOptions, RunSettings, *CONFIGS.values()) for flag in flags_of(cls, "")}
    assert {name for name in train if not re.search(rf"--{name}\b(?!-)", text)} - {"env"} == set()


def test_every_event_is_in_the_table() -> None:
    table = re.findall(r"^\| `([A-Z]\w+)` \|", prose(DOCS / "runs.md"), re.MULTILINE)
    assert sorted(table) == sorted(event.__name__ for event in get_args(Event))


def test_cleanrls_names_lead_where_the_page_says() -> None:
    rows = re.findall(r"^\| `--([a-z-]+)` \| `(--[^`]+)`", prose(DOCS / "migration.md"), re.MULTILINE)
    here = {name: flag for name, flag in rows if name in _ELSEWHERE}
    assert len(here) >= 20
    for name, flag in here.items():
        assert flag in _ELSEWHERE[name], name


def _left_column() -> list[ast.stmt]:
    """The Python that the migration page's first table shows on its left, beside a command line."""
    table = prose(DOCS / "migration.md").partition("## From CleanRL")[0]
    cells = re.findall(r"^\| (.*?) \| ", table, re.MULTILINE)
    code = [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]
    return [ast.parse(line).body[0] for line in code if not line.startswith("--")]


def _typed(code: ast.stmt) -> tuple[set[str], set[str]]:
    """Names that a user of Stable-Baselines3 types for this code here, and arguments of the agent or its methods."""
    if isinstance(code, ast.Assign):
        return set(), {ast.unparse(target) for target in code.targets}
    value = code.value if isinstance(code, ast.Expr) else None
    called = value.func if isinstance(value, ast.Call) else value
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    others = set() if name in NAMES or not isinstance(value, ast.Call) else {str(word.arg) for word in value.keywords}
    return {name} - {""}, others


def test_the_names_of_the_migration_page_are_answered() -> None:
    agent = srl.PPO("CartPole-v1", preset="none")
    known = {*hints("ppo"), *RunSettings.__dataclass_fields__, *HABITS}
    code = [*map(_typed, _left_column())]
    names, arguments = (set().union(*found) for found in zip(*code, strict=True))
    assert {"make_vec_env", "Monitor", "save_replay_buffer", "learn", "PPO", "ActionMasker"} <= names
    assert {"policy_kwargs", "optimize_memory_usage", "reset_num_timesteps", "learning_rate"} <= arguments
    assert arguments <= known
    elsewhere = {name for name in names if not (hasattr(srl, name) or hasattr(agent, name))}
    assert elsewhere <= {*NAMES, *ATTRIBUTES, "_on_step"}  # which is a method of the user's own
    policies = {
        node.value
        for code in _left_column()
        for node in ast.walk(code)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith("Policy")
    }
    assert policies == {"MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy"}
    for policy in policies:
        with pytest.raises(UserError, match=f"takes no policy such as '{policy}'"):
            srl.PPO(policy, "CartPole-v1")


def test_make_targets_that_are_named_exist() -> None:
    named = {
        target
        for page in PAGES
        for target in re.findall(r"`make ([a-z-]+)`|^\$ make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {first or second for first, second in named} <= MAKE_TARGETS


def test_extras_that_are_named_exist() -> None:
    known = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    named = [extra for page in PAGES for extra in re.findall(r"'(?:\.|steadyrl)\[([\w,]+)\]'", prose(page))]
    assert named
    assert {name for extra in named for name in extra.split(",")} <= known


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The tags that a small run of each algorithm logs, in its files and for TensorBoard."""
    folder = tmp_path_factory.mktemp("tags")
    (folder / "walk.py").write_text(
        next(block.text for block in blocks(DOCS / "environments.md", "python") if block.title), encoding="utf-8"
    )
    tags = {}
    for algo in CONFIGS:
        own: dict[str, Any] = {"n_steps": 50, "log_interval": 1}
        if algo not in ("ppo", "a2c"):
            own = {"learning_starts": 50, "batch_size": 16, "net_arch": (8,), "log_interval": 100}
        run = srl.train(
            algo,
            "Pendulum-v1" if algo in ("td3", "ddpg") else f"{folder / 'walk.py'}:Walk",
            total_timesteps=400,
            preset="none",
            max_episode_steps=30,
            eval_episodes=2,
            on_nonfinite="skip",
            run_dir=folder / algo,
            **own,
        )
        tags[algo] = {tag for row in run.metrics() for tag in row if "/" in tag}
        events = b"".join(path.read_bytes() for path in run.path.glob("events.out.tfevents.*"))
        tags[algo] |= set(TAG.findall(events.decode("latin-1")))
    return tags


def page_of(algo: str) -> Path:
    """The page of an algorithm; DDPG is a configuration of TD3."""
    return DOCS / f"{'td3' if algo == 'ddpg' else algo}.md"


def test_every_tag_that_is_logged_is_explained(logged: dict[str, set[str]]) -> None:
    explained = set(TAG.findall(prose(DOCS / "runs.md")))
    for algo, tags in logged.items():
        assert {"eval/mean_reward", "train/learning_rate"} <= tags
        assert tags - explained == set()
        own = {tag for tag in tags if tag.startswith("train/")} - {"train/nonfinite_batches"}  # of the run's settings
        assert own - set(TAG.findall(prose(page_of(algo)))) == set()


def test_every_tag_that_is_named_is_logged(logged: dict[str, set[str]]) -> None:
    every = set().union(*logged.values())
    for page in DOCS.glob("*.md"):
        assert set(TAG.findall(prose(page))) - every == set(), page_id(page)
    for algo, tags in logged.items():
        assert set(TAG.findall(prose(page_of(algo)))) - {"train/ent_coef_loss"} <= tags


def test_generated_tables_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "tables.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr or "run: python benchmarks/tables.py"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The generator, which reads its results from an empty folder."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = importlib.import_module("tables")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def test_a_learning_table_shows_every_seed_and_whether_the_bar_was_reached(tables: Any, tmp_path: Path) -> None:
    runs = [{"mean": 500.0}, {"status": "failed"}, {"mean": 470.04}]
    facts = {"algo": "ppo", "env": "CartPole-v1", "timesteps": 100_000, "seeds": 3, "bar": 475.0, "at_least": 3}
    versions = {"versions": {"torch": "2.13.0", "gymnasium": "1.4.0", "numpy": "2.4.6"}, "python": "3.11.7"}
    (tmp_path / "learning-ppo-CartPole-v1.json").write_text(
        json.dumps({**facts, **versions, "iqm": 485.02, "passed": False, "runs": runs})
    )
    row = "| PPO | CartPole-v1 | 100,000 | 500.0, failed, 470.0 | 485.0 | at least 475 for 3 of 3 | no |"
    assert tables.learning().splitlines()[2] == row
    assert tables.learning("a2c") == tables.PENDING + "\n"
    assert "torch 2.13.0, Gymnasium 1.4.0, NumPy 2.4.6, Python 3.11.7" in tables.learning()


def test_a_speed_table_names_machine_and_ratio(tables: Any, tmp_path: Path) -> None:
    work = {
        "ratio": {"sb3": 1.5},
        "ratios_pairwise": {"sb3": [1.4, 1.5, 1.62]},
        "steps_per_second": {"ours": 3000, "sb3": 2000},
        "threads": {"ours": 1, "sb3": 2},
    }
    versions = {
        "ours": {"steadyrl": "0.1.0", "torch": "2.13.0", "gymnasium": "1.4.0"},
        "sb3": {"stable_baselines3": "2.9.0", "torch": "2.13.0"},
        "sbx": {"sbx": "0.28.0"},
    }
    document = {"machine": {"cores": 2, "platform": "Linux"}, "versions": versions, "repeats": 3, "works": {"x": work}}
    (tmp_path / "speed.json").write_text(json.dumps(document))
    assert tables.speed().splitlines()[2] == "| x | 3,000 | 2,000 (1.5; 1.4, 1.5, 1.62) | not measured |"
    assert "Medians of 3 measurements each, in turn, on one machine with 2 cores (Linux)" in tables.speed()


def test_a_block_is_rewritten_in_place_and_an_unknown_one_is_an_error(tables: Any) -> None:
    page = "before\n<!-- table: speed -->\nold\n<!-- end of table -->\nafter\n"
    new = tables.rewritten(page)
    assert new == page.replace("old", tables.PENDING)
    assert tables.rewritten(new) == new
    with pytest.raises(KeyError):
        tables.rewritten(page.replace("speed", "no-such-table"))


def test_tables_have_the_dataclasses_defaults() -> None:
    """Not by the generator's own means: flag and default as the page shows them, against the dataclass."""
    for algo, config in CONFIGS.items():
        block = prose(page_of(algo)).partition(f"<!-- table: hyperparameters-{algo} -->")[2].partition("<!-- end")[0]
        rows = re.findall(r"^\| `--([a-z-]+)` \| `?([^`|]+?)`? \|", block, re.MULTILINE)
        shown = {name.replace("-", "_"): default for name, default in rows}
        assert list(shown) == list(config.__dataclass_fields__)
        for name, value in vars(config()).items():
            words = {"on": True, "off": False, "none": "none" if value == "none" else None}
            assert _parsed(shown[name], words) == (list(value) if isinstance(value, tuple) else value), name


def _parsed(text: str, words: dict[str, Any]) -> Any:
    if text in words:
        return words[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def test_exit_statuses_are_the_real_ones() -> None:
    table = prose(DOCS / "runs.md").partition("| exit status |")[2].partition("\n\n")[0]
    said = {int(number) for number in re.findall(r"\b\d+\b", table)}
    assert set(EXIT_STATUS.values()) | {1, UserError.exit_status, 138} == said


def test_no_page_names_a_place_of_one_machine() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"/(?:work|tmp|home|root)/|pypi\.org", text) == [], page_id(page)
