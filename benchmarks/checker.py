"""What the environment checker finds, what it takes, and what Gymnasium's and Stable-Baselines3's say to the same.

    python benchmarks/checker.py corpus FOLDER [NAME...]   # a labelled set of faulty and sound environments
    python benchmarks/checker.py unseen FOLDER [NAME...]   # another one, written by somebody who had not seen the rules
    python benchmarks/checker.py registered [NAME...]      # every environment that is registered here
    python benchmarks/checker.py times                     # of classic-control environments

Each part goes into benchmarks/results/checker.json; with NAMEs only rows of such names. QUICK=1 checks with --quick.
FOLDER is a package with `register_all`, its labels.json and what the peers said in peers.json, where there is one
(`benchmarks/checker_peers.py` writes a plain one). A faulty environment counts as found where a finding has its kind
and severity and no error or warning is of a kind that the label does not allow; a sound one as passed where there is no
error and no warning. What was found the first time stays in a row of `unseen` as `first`, whatever is found later.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym

import steadyrl as srl
from steadyrl.errors import SteadyRLError

PLAN = "quick" if os.environ.get("QUICK") else "full"
RESULT = Path(__file__).parent / "results" / "checker.json"
EXTRA = {
    "ale_py": ("ALE/Pong-v5", "ALE/Breakout-v5", "ALE/MsPacman-v5", "ALE/Qbert-v5", "ALE/Freeway-v5"),
    "minigrid": (
        "MiniGrid-Empty-5x5-v0",
        "MiniGrid-DoorKey-6x6-v0",
        "MiniGrid-FourRooms-v0",
        "MiniGrid-MultiRoom-N2-S4-v0",
        "MiniGrid-Dynamic-Obstacles-6x6-v0",
        "MiniGrid-GoToObject-6x6-N2-v0",
        "MiniGrid-LavaCrossingS9N1-v0",
        "MiniGrid-LavaGapS5-v0",
        "MiniGrid-KeyCorridorS3R1-v0",
        "MiniGrid-UnlockPickup-v0",
        "MiniGrid-MemoryS7-v0",
        "MiniGrid-RedBlueDoors-6x6-v0",
        "MiniGrid-PutNear-6x6-N2-v0",
        "MiniGrid-Fetch-5x5-N2-v0",
        "MiniGrid-DistShift1-v0",
        "MiniGrid-LockedRoom-v0",
        "MiniGrid-ObstructedMaze-1Dl-v0",
        "BabyAI-GoToRedBall-v0",
    ),
    "highway_env": ("highway-v0", "merge-v0", "roundabout-v0", "intersection-v0", "parking-v0", "racetrack-v0"),
}


def told(report: Any) -> list[dict[str, Any]]:
    """Errors and warnings of a report."""
    graver = [finding for finding in report.findings if finding.severity != "note"]
    return [{name: getattr(f, name) for name in ("code", "kind", "severity", "message")} for f in graver]


def corpus(folder: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    """Every environment of a labelled set."""
    sys.path.insert(0, str(folder.parent))
    importlib.import_module(folder.name).register_all()
    labels = json.loads((folder / "labels.json").read_text())
    said = folder / "peers.json"
    peers = json.loads(said.read_text()) if said.exists() else {}
    for env_id, label in labels.items():
        if names and not any(name in env_id for name in names):
            continue
        start = time.perf_counter()
        findings = told(srl.check_env(env_id, quick=PLAN == "quick"))
        kinds = {(finding["kind"], finding["severity"]) for finding in findings}
        allowed = {label["expect"], *label["also"]}
        found = (label["expect"], label["severity"]) in kinds
        false = sorted(kind for kind, _ in kinds if kind not in allowed)
        row: dict[str, Any] = {
            "env": env_id,
            "plan": PLAN,
            "sound": label["sound"],
            "expect": label["expect"],
            "right": not kinds if label["sound"] else found and not false,
            "found": found,
            "false": false,
            "findings": findings,
            "seconds": round(time.perf_counter() - start, 1),
        }
        for peer in ("gymnasium", "sb3") if env_id in peers else ():
            row[peer] = _peer(peers[env_id], peer, label["sound"])
        print(env_id, "right" if row["right"] else f"WRONG {findings}", flush=True)
        yield row


def _peer(row: dict[str, Any], peer: str, sound: bool) -> bool:
    if isinstance(row[peer], bool):  # only whether it said anything
        return bool(row[peer]) is not sound
    return row[peer] == "silent" if sound else bool(row[f"{peer}_hit"])


def score(rows: list[dict[str, Any]]) -> dict[str, Any]:
    faulty, sound = ([row for row in rows if row["sound"] is kind] for kind in (False, True))
    score: dict[str, Any] = {"faulty": len(faulty), "sound": len(sound)}
    for name, key in (("steadyrl", "right"), ("first", "first"), ("gymnasium", "gymnasium"), ("sb3", "sb3")):
        if not all(key in row for row in rows):  # of the unseen set, not all were checked again
            continue
        score[name] = {"found": sum(row[key] for row in faulty), "passed": sum(row[key] for row in sound)}
    return score


def registered(names: list[str]) -> Iterator[dict[str, Any]]:
    """Every environment of Gymnasium, newest versions, and those of other packages where they are installed."""
    newest: dict[tuple[str | None, str], Any] = {}
    for spec in gym.registry.values():
        held = newest.get((spec.namespace, spec.name))
        if spec.entry_point is not None and (held is None or (held.version or 0) < (spec.version or 0)):
            newest[spec.namespace, spec.name] = spec
    ids = [spec.id for spec in newest.values() if not str(spec.entry_point).startswith("shimmy")]
    for module, chosen in EXTRA.items():
        if importlib.util.find_spec(module) is not None:
            gym.register_envs(importlib.import_module(module))
            ids += chosen

    for env_id in ids:
        if names and not any(name in env_id for name in names):
            continue
        start = time.perf_counter()
        try:
            report = srl.check_env(env_id, quick=PLAN == "quick")
            row = {
                "env": env_id,
                "plan": report.plan,
                "findings": told(report),
                "notes": [f.kind for f in report.findings if f.severity == "note"],
            }
        except SteadyRLError as error:
            row = {"env": env_id, "refused": error.message}
        row["seconds"] = round(time.perf_counter() - start, 1)
        print(json.dumps(row), flush=True)
        yield row


CLASSIC = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1")


def times(repeats: int = 1) -> dict[str, Any]:
    """Seconds of a full and a quick check, in processes of their own as the command runs them."""
    found = {}
    for env_id in CLASSIC:
        found[env_id] = {plan: _taken(env_id, plan == "quick", repeats) for plan in ("full", "quick")}
        print(env_id, found[env_id], flush=True)
    return {"envs": found, "repeats": repeats, "load": os.getloadavg()[0]}


def _taken(env_id: str, quick: bool, repeats: int) -> dict[str, float]:
    taken = []
    for _ in range(repeats):
        start, cpu = time.perf_counter(), os.times()
        srl.check_env(env_id, quick=quick)
        now = os.times()
        used = now.user + now.system + now.children_user + now.children_system
        used -= cpu.user + cpu.system + cpu.children_user + cpu.children_system
        taken.append((time.perf_counter() - start, used))
    return {"wall_s": statistics.median(t[0] for t in taken), "cpu_s": statistics.median(t[1] for t in taken)}


def main(words: list[str]) -> None:
    part, *rest = words or ["times"]
    if part == "times":
        store(part, times())
        return
    rows = registered(rest) if part == "registered" else corpus(Path(rest[0]).resolve(), rest[1:])
    for row in rows:  # each is kept at once: all of them take long
        stored = json.loads(RESULT.read_text()).get(part, {}) if RESULT.exists() else {}
        known = {old["env"]: old for old in stored.get("rows", [])}
        if part == "unseen":
            row["first"] = known.get(row["env"], {}).get("first", row["right"])
        document: dict[str, Any] = {"rows": list((known | {row["env"]: row}).values())}
        store(part, document | ({} if part == "registered" else {"score": score(document["rows"])}))


def store(part: str, document: dict[str, Any]) -> None:
    """Put a part beside the others."""
    stored = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    stored[part] = document
    stored["machine"] = {"cores": os.cpu_count(), "platform": platform.system(), "python": platform.python_version()}
    stored["versions"] = {"gymnasium": gym.__version__, "steadyrl": srl.__version__}
    RESULT.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
