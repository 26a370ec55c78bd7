"""Every kernel for NEON beside this machine's own: cross-compiled by Clang, run in an emulator (`make test-neon`).

Both programs are tests/kernels/native/every_kernel.cpp: MLPs with each activation, optimisers and the instructions of
traced losses, on the same numbers. Their results must agree as those of two instruction sets here do.
"""

import math
import shutil
import struct
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "src" / "steadyrl" / "kernels" / "native"
BUILD = ROOT / "build" / "neon"
PROGRAM = [ROOT / "tests" / "kernels" / "native" / "every_kernel.cpp", NATIVE / "mlp.cpp", NATIVE / "isa.cpp"]
KERNELS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]  # as in CMakeLists.txt
OWN = {
    "sse2": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"],
}
ZIG = [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-linux-musl"]
TOLERANCE = 5e-6  # of the larger of 1 and the number

Results = dict[str, list[float]]


def compiled(compiler: list[str], isas: dict[str, list[str]], name: str, *link: str) -> Path:
    """The program with the kernels of these instruction sets."""
    objects: list[Path] = []
    for isa, flags in isas.items():
        objects.append(BUILD / f"{name}-{isa}.o")
        source = NATIVE / f"isa_{isa}.cpp"
        parts: list[str | Path] = [*compiler, "-std=gnu++20", *KERNELS, *flags, "-c", source, "-o", objects[-1]]
        subprocess.run(parts, check=True)
    whole: list[str | Path] = [*compiler, "-std=gnu++20", "-O2", f"-I{NATIVE}", *PROGRAM, *objects, *link]
    subprocess.run([*whole, "-o", BUILD / name], check=True)
    return BUILD / name


def results(*command: str | Path) -> tuple[str, Results]:
    """The instruction set that a program ran on, and its numbers by case."""
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    cases = [line.split() for line in lines[1:]]
    return lines[0], {case[0]: [struct.unpack(">f", bytes.fromhex(bits))[0] for bits in case[1:]] for case in cases}


def apart(a: float, b: float) -> float:
    """How far two results differ; infinite where only one of them is a number."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) / max(1.0, abs(a)) if math.isfinite(a) and math.isfinite(b) else math.inf


def main() -> int:
    """Compile, run, compare; 1 where they disagree."""
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        sys.exit("error: there is no C++ compiler for this machine's own kernels.")
    BUILD.mkdir(parents=True, exist_ok=True)
    here, own = results(compiled([compiler], OWN, "own", "-pthread"))
    program = compiled(ZIG, {"neon": []}, "neon", "-static")
    there, neon = results(sys.executable, ROOT / "requirements" / "emulator.py", program)
    if own.keys() != neon.keys() or not own:
        sys.exit("error: the two programs ran different cases.")
    worst = {name: max(map(apart, own[name], neon[name])) for name in own}
    print(
        f"{here} here, {there} in the emulator: {len(own)} cases, {list(worst.values()).count(0.0)} the same to the bit"
    )
    name = max(worst, key=lambda each: worst[each])
    print(f"largest difference {worst[name]:.2g}, in {name} (at most {TOLERANCE:g})")
    return int(worst[name] > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
