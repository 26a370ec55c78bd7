"""What is installed, what a wheel carries, and what the lock promises."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import steadyrl
from steadyrl._version import __version__

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements" / "dev.txt").read_text()


def canonical(requirement: str) -> str:
    """The normalised distribution name of a requirement."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def locked() -> dict[str, set[str]]:
    """Pinned versions in the lock by distribution name."""
    pins: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK, flags=re.MULTILINE):
        pins.setdefault(canonical(name), set()).add(version)
    return pins


def built_wheel(out: Path, *options: str) -> Path:
    """A wheel of this tree, built without a network."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--wheel-dir", str(out)]
    options = ("--config-settings", f"build-dir={out / 'build'}", *options)
    subprocess.run([*command, *options, str(ROOT)], check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a machine without a compiler builds: Python alone."""
    return built_wheel(tmp_path_factory.mktemp("dist"), "--config-settings", "wheel.cmake=false")


def test_version_literal_agrees_with_metadata() -> None:
    assert steadyrl.__version__ == __version__ == metadata.version("steadyrl")


def test_wheel_carries_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so", ".pyd") and "kernels/native/" not in path.as_posix()
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if name.startswith("steadyrl/")} == expected
    assert {"steadyrl/py.typed", "steadyrl/presets/ppo.toml", "steadyrl/presets/a2c.toml"} <= names


def test_wheel_is_small_and_licensed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"steadyrl-{__version__}.dist-info"
        assert "The SteadyRL authors" in archive.read(f"{info}/licenses/LICENSE").decode()
        assert "steadyrl = steadyrl.cli.main:main" in archive.read(f"{info}/entry_points.txt").decode()
    assert wheel.stat().st_size < 1_000_000


@pytest.mark.full
def test_a_compiler_adds_the_kernels_and_little_else(wheel: Path, tmp_path: Path) -> None:
    native = built_wheel(tmp_path)
    plain, built = (set(zipfile.ZipFile(path).namelist()) for path in (wheel, native))
    added = {name for name in built - plain if ".dist-info" not in name}
    assert len(added) == 1
    assert re.fullmatch(r"steadyrl/kernels/_native\.[\w.-]+", added.pop())
    assert wheel.name.endswith("-py3-none-any.whl")
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-" in native.name
    assert native.stat().st_size < 2_000_000


def test_few_direct_dependencies() -> None:
    assert len(PYPROJECT["project"]["dependencies"]) <= 8


def test_all_is_the_sum_of_the_extras() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    features = sorted(set(extras) - {"all"})
    assert extras["all"] == [f"steadyrl[{','.join(features)}]"]


def test_lock_pins_every_direct_dependency() -> None:
    project = PYPROJECT["project"]
    direct = [
        *project["dependencies"],
        *(
            r
            for name, extra in project["optional-dependencies"].items()
            if name not in ("all", "envpool")
            for r in extra
        ),
        *PYPROJECT["dependency-groups"]["dev"],
        *PYPROJECT["build-system"]["requires"],
    ]
    assert sorted({canonical(r) for r in direct} - set(locked())) == []


def test_lock_pins_torch_with_the_index_and_the_cpu_hashes() -> None:
    assert locked()["torch"] == {"2.13.0"}
    entry = re.search(r"^torch==.*?(?=^\S|\Z)", LOCK, flags=re.MULTILINE | re.DOTALL)
    assert entry is not None
    hashes = set(re.findall(r"sha256:[0-9a-f]{64}", entry.group()))
    cpu = set(re.findall(r"sha256:[0-9a-f]{64}", (ROOT / "requirements" / "torch-cpu.txt").read_text()))
    assert cpu < hashes


def test_lock_is_hashed_and_names_no_source() -> None:
    entries = re.split(r"^(?=[^\s#])", LOCK, flags=re.MULTILINE)[1:]
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"://|--\w*index|--find-links|^[./]", LOCK, flags=re.MULTILINE) == []


def test_peers_run_on_the_locked_versions() -> None:
    pins = re.findall(r"^([\w-]+)[^=\n]*==([^\s;]+)", (ROOT / "requirements" / "peers.txt").read_text(), re.MULTILINE)
    shared = [(name, version) for name, version in pins if canonical(name) in locked()]
    assert {name for name, _ in shared} == {"torch", "gymnasium", "mujoco", "numpy"}
    assert [pin for pin in shared if pin[1] not in locked()[canonical(pin[0])]] == []
