"""Branch coverage of what supervises environments and of the guards, worker processes included, in one run.

    pip install coverage                      # 7.10 or newer; it is not among the locked dependencies
    python benchmarks/coverage_workers.py     # benchmarks/results/coverage-workers.json

Prints what no test reaches, and exits with 1 where there is anything. `requirements/coverage.ini` says what is measured
and how processes that are forked, executed and killed are followed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "requirements" / "coverage.ini"
RESULT = ROOT / "benchmarks" / "results" / "coverage-workers.json"
TESTS = [
    "tests/envs/workers",
    "tests/envs/test_nonfinite.py",
    "tests/envs/test_outputs.py",
    "tests/envs/test_restart.py",
    "tests/envs/test_restarting.py",
    "tests/algorithms/test_guard_alone.py",
    "tests/algorithms/test_guard.py",
    "tests/training/test_guards.py",
]


def measured(folder: Path) -> dict[str, Any]:
    """Run the tests, and return what the JSON report says; ends the program where a test fails."""
    told = folder / "report.json"
    environment = os.environ | {"COVERAGE_FILE": str(folder / "data")}
    config = ["--rcfile", str(CONFIG)]
    commands = [
        ["run", *config, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "900", *TESTS],
        ["combine", "-q", *config],
        ["json", "-q", *config, "-o", str(told)],
    ]
    for command in commands:
        done = subprocess.run([sys.executable, "-m", "coverage", *command], cwd=ROOT, env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"'coverage {command[0]}' ended with {done.returncode}.")
    found: dict[str, Any] = json.loads(told.read_text())
    return found


def document(report: dict[str, Any]) -> dict[str, Any]:
    """The result that is kept: totals, and what is missing by module."""
    totals, modules = report["totals"], {}
    for path, each in sorted(report["files"].items()):
        summary = each["summary"]
        modules[path.partition("steadyrl/")[2].removesuffix(".py")] = {
            "statements": summary["num_statements"],
            "branches": summary["num_branches"],
            "missing_lines": each["missing_lines"],
            "missing_branches": each["missing_branches"],
            "excluded_lines": summary["excluded_lines"],
        }
    return {
        "how": f"coverage.py {report['meta']['version']}, --branch, one run of these tests (see coverage_workers.py)",
        "tests": TESTS,
        "statements": totals["num_statements"],
        "branches": totals["num_branches"],
        "missing_lines": totals["missing_lines"],
        "missing_branches": totals["missing_branches"],
        "percent": round(totals["percent_covered"], 3),
        "modules": modules,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    if importlib.util.find_spec("coverage") is None:
        raise SystemExit("There is no coverage.py: pip install coverage")
    with tempfile.TemporaryDirectory(prefix="steadyrl-coverage-") as folder:
        found = document(measured(Path(folder)))
    arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    for name, module in found["modules"].items():
        if module["missing_lines"] or module["missing_branches"]:
            print(f"{name}: lines {module['missing_lines']}, branches {module['missing_branches']}")
    print(f"{found['percent']}% of {found['statements']} statements and {found['branches']} branches")
    sys.exit(1 if found["missing_lines"] or found["missing_branches"] else 0)


if __name__ == "__main__":
    main()
