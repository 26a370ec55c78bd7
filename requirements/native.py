"""Build the native kernels (`make native`), or run their tests on a sanitizer build (`make test-native`).

A machine that cannot build them is no error: one line says why, and the package works through PyTorch.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build"
TOOLS = HERE / "native.txt"
COMPILERS = ("c++", "g++", "clang++", "clang-cl")


class NotBuiltError(Exception):
    """Why the kernels could not be built, in a few words."""


def run(command: list[str], log: Path) -> None:
    """Run a command, its output at the end of the log."""
    with log.open("a") as file:
        if subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT).returncode != 0:
            raise NotBuiltError(f"the build failed, see {log.relative_to(ROOT)}")


def have_tools(log: Path) -> None:
    """Make cmake callable: the machine's own, or a wheel in this environment."""
    if os.environ.get("CXX") is None and not any(map(shutil.which, COMPILERS)):
        raise NotBuiltError("no C++ compiler was found")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if shutil.which("cmake") is None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        run([*pip, "--require-hashes", "-r", str(TOOLS)], log)


def build(folder: Path, prefix: Path, *options: str) -> None:
    """Configure and build in `folder`, then put the extension below `prefix`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    have_tools(log)
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = ["cmake", "-S", ".", "-B", str(folder), f"-DPython_EXECUTABLE={sys.executable}", *options]
    # A build folder of another generator cannot be configured anew.
    used = folder / "CMakeCache.txt"
    if used.exists() and ("GENERATOR:INTERNAL=Ninja" in used.read_text()) != bool(generator):
        used.unlink()
        shutil.rmtree(folder / "CMakeFiles", ignore_errors=True)
    run([*configure, *generator], log)
    run(["cmake", "--build", str(folder), "--config", "Release", "--parallel", str(min(os.cpu_count() or 1, 4))], log)
    run(["cmake", "--install", str(folder), "--config", "Release", "--prefix", str(prefix)], log)


def library(name: str) -> str:
    """Where the compiler keeps a library."""
    compiler = os.environ.get("CXX") or next(name for name in COMPILERS if shutil.which(name))
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_under_sanitizers(arguments: list[str]) -> int:
    """Run the kernel tests on a copy of the package with a sanitizer build; the exit status."""
    folder = BUILD / "sanitize"
    package = folder / "src" / "steadyrl"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "src" / "steadyrl", package, ignore=shutil.ignore_patterns("_native.*", "__pycache__", "native")
    )
    build(folder, folder / "src", "-DSTEADYRL_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        # The C++ library too: the sanitizer looks for its functions before the extension has loaded it.
        "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter and torch leave much behind at exit
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *(arguments or ["tests/kernels"])]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main() -> None:
    """Build, or test."""
    if sys.argv[1:2] == ["sanitize"]:
        try:
            sys.exit(test_under_sanitizers(sys.argv[2:]))
        except NotBuiltError as error:
            sys.exit(f"error: there is nothing to test: {error}.")
    try:
        build(BUILD / "native", ROOT / "src")
    except NotBuiltError as error:
        for old in (ROOT / "src" / "steadyrl" / "kernels").glob("_native.*"):
            if old.suffix in (".so", ".pyd"):
                old.unlink()  # what an earlier build left is of other sources than the Python beside it
        print(f"note: the native kernels were not built ({error}): everything works through PyTorch, but slower.")


if __name__ == "__main__":
    main()
