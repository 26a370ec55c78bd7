"""What becomes of an environment's fault in our workers, Gymnasium's and Stable-Baselines3's.

    python benchmarks/faults.py            # benchmarks/results/faults.json
    python benchmarks/faults.py raise      # only the faults whose name begins so, printed

Each case is a program of its own with a hard limit. An error names the cause where what the program says (its error,
or what its workers print) holds it, and the environment where it holds its number. Whatever still runs two seconds
after the program has ended is an orphan. `make bench-peers` installs the peers.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("PEERS", HERE.parent / ".venv-peers" / "bin" / "python"))
MARK = "FAULTS_CASE"
LIMIT_S = 20.0  # of a case once its environments are made; their own time-out is 3 s where there is one
START_S = 60.0
REST_S = 2.0
PYTHONS = {"steadyrl": Path(sys.executable), "gymnasium": PEERS, "stable_baselines3": PEERS}
PLACES = ("reset", "step", "close")
CAUSES = {
    "raise": "the motor fell off",
    "SIGKILL": r"SIGKILL|exit ?code:? -9",
    "SIGSEGV": r"SIGSEGV|exit ?code:? -11",
    "SIGSTOP": r"stopped by a signal|SIGSTOP|timed? ?out",
    "os._exit": r"exit status 7|exit ?code:? 7",
    "loop": r"did not answer within|timed? ?out",
    "loop in C": r"did not answer within|timed? ?out",
    "unpicklable info": r"cannot (be sent|pickle)",
    "wrong shape": r"shape|broadcast",
    "NaN": r"\bnan\b",
}
KILLED_IN = ("loop", "loop in C", "SIGSTOP")
AT_ONCE = 3  # cases; they mostly wait
NEVER_IN_CLOSE = ("unpicklable info", "wrong shape", "NaN")
ENVIRONMENT = re.compile(r"(environment|env|worker)[ <=-]*(number |index )?2\b", re.IGNORECASE)


def marked(mark: str) -> list[psutil.Process]:
    """The processes that run with this mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def run(library: str, fault: str, where: str) -> dict[str, Any]:
    """One case; where it is `killed`, SIGKILL ends the program while its environment is in the fault."""
    kill = where == "killed"
    mark = uuid.uuid4().hex
    places = os.pathsep.join(
        [str(HERE.parent / "tests"), *([str(HERE.parent / "src")] if library == "steadyrl" else [])]
    )
    environment = os.environ | {MARK: mark, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("a+") as out, tempfile.TemporaryFile("a+") as err:
        command = [str(PYTHONS[library]), str(HERE / "faults_case.py"), library, fault, "step" if kill else where]
        program = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
        hangs = False
        try:
            until_told(out, "made", 1)
            if kill:
                until_told(out, "stepping", 3)
                time.sleep(0.5)  # the step of the fault has certainly begun then
                program.send_signal(signal.SIGKILL)
            program.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            hangs = True
            program.kill()
            program.wait()
        time.sleep(REST_S)
        left = marked(mark)
        for process in left:
            process.kill()
        out.seek(0)
        err.seek(0)
        told = [line for line in out.read().splitlines() if line.startswith("{")]
        result = judged(json.loads(told[-1]) if told else None, err.read(), fault, hangs) | {"orphans": len(left)}
        return result | {"short": short(result, kill)}


def until_told(out: Any, word: str, times: int) -> None:
    """Wait until the program has printed this word so often: its imports take what they take."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        out.seek(0)
        if out.read().count(word) >= times:
            return
        time.sleep(0.05)


def judged(told: dict[str, Any] | None, printed: str, fault: str, hangs: bool) -> dict[str, Any]:
    """What a program did: its own error where it had one, and whether it says what happened and where."""
    text = (told["error"] if told else "") + printed
    return {
        "hangs": hangs,
        "raises": bool(told and told["error"]),
        "seconds": told["seconds"] if told else None,
        "names_cause": bool(re.search(CAUSES[fault], text)),
        "names_environment": bool(ENVIRONMENT.search(text)),
        "says": text.strip().splitlines()[-1][:300] if text.strip() else "",
    }


def versions(python: Path) -> dict[str, str]:
    code = (
        "import json; from importlib import metadata as m; "
        "print(json.dumps({d.name: d.version for d in m.distributions() if d.name in "
        "('gymnasium', 'stable_baselines3', 'numpy')}))"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout)) | {"python": platform.python_version()}


def main(chosen: str) -> None:
    if not PEERS.exists():
        raise SystemExit("The peers are not installed: run make bench-peers first.")
    wanted = [
        (fault, where)
        for fault, where in itertools.product(CAUSES, PLACES)
        if not (where == "close" and fault in NEVER_IN_CLOSE)
    ]
    wanted += [(fault, "killed") for fault in KILLED_IN]
    wanted = [case for case in wanted if case[0].startswith(chosen)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [{library: pool.submit(run, library, *case) for library in PYTHONS} for case in wanted]
        cases = []
        for (fault, where), results in zip(wanted, running, strict=True):
            found = {library: result.result() for library, result in results.items()}
            cases.append({"fault": fault, "where": where, "results": found})
            print(fault, where, {library: result["short"] for library, result in found.items()}, flush=True)
    if not chosen:
        document = {"limit_s": LIMIT_S, "versions": {name: versions(path) for name, path in PYTHONS.items()}}
        document["cases"] = cases
        (HERE / "results" / "faults.json").write_text(json.dumps(document, indent=1) + "\n")


def short(result: dict[str, Any], killed: bool) -> str:
    """A case in a few words."""
    if killed:
        return f"{result['orphans']} left" if result["orphans"] else "nothing left"
    if result["hangs"]:
        text = "an error, then hangs in close()" if result["raises"] else "hangs"
    elif result["names_cause"]:
        text = "names cause and environment" if result["names_environment"] else "names the cause"
    elif result["raises"]:
        text = "an error without the cause"
    else:
        text = "goes on"
    return f"{text}, {result['orphans']} left" if result["orphans"] else text


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
