"""Write requirements/dev.txt and native.txt: pinned and hashed, for every platform (`make lock`).

dev.txt holds what development needs, native.txt the build tools for a machine that has a compiler but none of its own.

uv resolves from index metadata alone, so no torch wheel is downloaded. Versions already in dev.txt are kept where they
still fit; pass `--upgrade` to take newer ones.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LOCK = HERE / "dev.txt"
NATIVE = HERE / "native.txt"
TORCH_CPU = HERE / "torch-cpu.txt"

HEADER = """\
# Written by `make lock`; do not edit. Install with `pip install --require-hashes --no-deps -r requirements/{name}`.
"""

# Gigabytes that a CPU build of torch does not need; a CUDA build pins them itself and `make setup` lets it fetch them.
CUDA = re.compile(r"(nvidia-|cuda-|triton$)")
# On Python 3.14 gymnasium asks for these instead of the Box2D wheel; they need a C++ compiler.
NEED_COMPILER = {"box2d-py", "swig"}

# All but envpool, whose wheels are hundreds of megabytes; its tests are among those of `make test-full`.
EXTRAS = ("atari", "box2d", "mujoco", "video")

COMMAND = ["uv", "pip", "compile", "--universal", "--python-version", "3.11"]
OPTIONS = ["--generate-hashes", "--no-header", "--no-annotate", "--quiet"]


def wanted(name: str) -> bool:
    """Whether the pinned distribution belongs in the lock."""
    return CUDA.match(name) is None and name not in NEED_COMPILER


def cpu_build() -> tuple[str, list[str]]:
    """The requirement that torch-cpu.txt names, and its hashes."""
    lines = [line for line in TORCH_CPU.read_text().splitlines() if not line.startswith("#")]
    requirement, *hashes = " ".join(lines).split()
    return requirement, hashes


def with_cpu_hashes(entry: str) -> str:
    """Add the CPU builds' hashes to the entry of torch."""
    requirement, cpu_hashes = cpu_build()
    head, *hashes = (line.strip(" \\") for line in entry.splitlines())
    if head != requirement:
        sys.exit(f"{TORCH_CPU.name} has hashes for {requirement} but {head} was resolved: bring the two together.")
    return " \\\n    ".join([head, *sorted({*hashes, *cpu_hashes})])


def resolve(lock: Path, *wanted_groups: str) -> list[str]:
    """The entries of a lock, resolved anew."""
    command = [*COMMAND, *OPTIONS, *wanted_groups, "--output-file", str(lock), *sys.argv[1:]]
    subprocess.run(command, cwd=ROOT, check=True)
    return re.split(r"\n(?=\S)", lock.read_text().strip())


def write(lock: Path, entries: list[str]) -> None:
    """Write a lock with its header."""
    lock.write_text(HEADER.format(name=lock.name) + "\n".join(entries) + "\n")


def main() -> None:
    """Resolve, then keep what a CPU machine without a compiler can install."""
    kept = []
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    for entry in resolve(LOCK, "pyproject.toml", *extras, "--group", "dev"):
        name = entry.partition("==")[0]
        if wanted(name):
            kept.append(with_cpu_hashes(entry) if name == "torch" else entry)
    write(LOCK, kept)
    write(NATIVE, resolve(NATIVE, "--group", "native"))


if __name__ == "__main__":
    main()
