"""Run the tests of the environment layer on several versions of Gymnasium (`make test-matrix`).

    python requirements/matrix.py                    # every version of gymnasium-versions.txt, all of its tests
    python requirements/matrix.py 1.1.1 --quick      # one version, the tests that hold the interface to it

Each version is installed, with its hash and without dependencies, into a folder of its own that comes before the
development environment on the path; everything else is the same. Prints a table; exit status 1 where a test failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VERSIONS = HERE / "gymnasium-versions.txt"
FOLDER = ROOT / ".gymnasium"
QUICK = (
    "tests/envs/test_adapter.py",
    "tests/envs/test_autoreset.py",
    "tests/envs/test_serial.py",
    "tests/envs/test_vector.py",
    "tests/envs/test_wrappers.py",
)
WHOLE = ("tests/envs", "tests/training/test_determinism.py", "tests/training/test_backend.py")


class Result(NamedTuple):
    """What one version made of the tests."""

    version: str
    passed: int
    failed: int
    seconds: float
    output: str

    @property
    def good(self) -> bool:
        """Whether tests ran and none failed."""
        return self.passed > 0 and self.failed == 0


def pins(text: str) -> dict[str, str]:
    """Version -> its line of a requirements file."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.partition("==")[2].split()[0]: line for line in lines}


def counts(output: str) -> tuple[int, int]:
    """Passed and failed tests, from the last line of pytest; what ended it before counts as one failure."""
    last = output.strip().splitlines()[-1] if output.strip() else ""
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?)", last)}
    failed = found.get("failed", 0) + found.get("error", 0) + found.get("errors", 0)
    return found.get("passed", 0), failed if found else 1


def install(version: str, line: str) -> Path:
    """The folder with this version of Gymnasium; it is filled when it is first asked for."""
    folder = FOLDER / version
    if not (folder / f"gymnasium-{version}.dist-info").is_dir():
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(line + "\n")
            file.flush()
            pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, "--require-hashes", "--target", str(folder), "-r", file.name], check=True)
    return folder


def run(version: str, folder: Path, tests: tuple[str, ...]) -> Result:
    """Run the tests on the version in this folder, having seen that it is the one they import."""
    path = os.pathsep.join(filter(None, [str(folder), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": path}
    asked = [sys.executable, "-c", "import gymnasium; print(gymnasium.__version__)"]
    found = subprocess.run(asked, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    if found != version:
        raise SystemExit(f"Gymnasium {found} is imported instead of {version}.")
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    return Result(version, *counts(done.stdout), time.monotonic() - start, done.stdout)


def main() -> None:
    """Run the versions and print the table."""
    known = pins(VERSIONS.read_text())
    parser = argparse.ArgumentParser(description="The environment layer on several versions of Gymnasium.")
    parser.add_argument("versions", nargs="*", help=f"default: {' '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="only the tests that hold the interface to Gymnasium")
    args = parser.parse_args()
    unknown = sorted(set(args.versions) - set(known))
    if unknown:
        parser.error(f"{', '.join(unknown)} is not in {VERSIONS.name}, which has {', '.join(known)}")
    results = []
    for version in args.versions or known:
        results.append(run(version, install(version, known[version]), QUICK if args.quick else WHOLE))
        if not results[-1].good:
            print(results[-1].output)
    print(f"{'Gymnasium':<12}{'passed':>8}{'failed':>8}{'seconds':>9}")
    for result in results:
        print(f"{result.version:<12}{result.passed:>8}{result.failed:>8}{result.seconds:>9.0f}")
    sys.exit(0 if all(result.good for result in results) else 1)


if __name__ == "__main__":
    main()
