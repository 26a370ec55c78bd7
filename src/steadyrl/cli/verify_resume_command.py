"""`steadyrl verify-resume ALGO ENV`: kills a run at random moments, resumes it, compares it with an untouched one."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from steadyrl.cli.flags import flags_of, take_apart, values
from steadyrl.cli.parser import build, check, wants_help
from steadyrl.cli.session import Session
from steadyrl.cli.train_command import parse as parse_train
from steadyrl.configs.validate import at_least_one, not_negative_whole
from steadyrl.errors import UserError


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """What `steadyrl verify-resume` takes besides the flags of `steadyrl train`."""

    kills: int = 3
    """How often the second run is killed."""
    kill_seed: int = 0
    """Seed of the moments at which it is killed."""
    keep: Path | None = None
    """A folder to keep both runs in; left out, they are removed."""
    json: bool = False
    """One JSON document on stdout."""

    def __post_init__(self) -> None:
        at_least_one(self, "kills")
        not_negative_whole(self, "kill_seed")


def run(args: list[str], session: Session) -> int:
    """Runs both and says whether they are the same; exit status 1 where they are not."""
    flags = flags_of(VerifyOptions, "flags")
    if wants_help(args):
        parser = build(
            "steadyrl verify-resume",
            usage="steadyrl verify-resume ALGO ENV [flags] [flags of steadyrl train]",
            description="Trains twice, killing and resuming the second run, and compares the two bit for bit.",
            example="  steadyrl verify-resume ppo CartPole-v1 --total-timesteps 20000 --kills 5",
            positionals={"ALGO": "as for `steadyrl train`", "ENV": "as for `steadyrl train`"},
            flags=flags,
        )
        print(parser.format_help().rstrip())
        return 0
    own, training = apart(args)
    parser = build("steadyrl verify-resume", usage="", description="", example="", positionals={}, flags=flags)
    words = take_apart(own, flags, {})
    check(parser, words)
    options = VerifyOptions(**values(words, flags))
    if "run_dir" in parse_train(training)[2]:  # what is wrong with them is said before anything runs
        raise UserError(
            "`steadyrl verify-resume` makes the folders of its two runs, so --run-dir cannot name one.",
            remedy="Leave it out, or keep both runs with --keep some/folder.",
            code="usage",
        )

    from steadyrl.training.verifying import verify_resume

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if options.keep is None else options.keep
        folder.mkdir(parents=True, exist_ok=True)
        verdict = verify_resume(training, folder, kills=options.kills, seed=options.kill_seed, say=session.say)
    if session.json:
        session.emit(verdict.to_json())
    counts = ", ".join(f"{count} {name}" for name, count in verdict.compared.items())
    if not verdict.kills:
        session.say(
            "Nothing was shown: the run ended before it could be killed. More steps, or --checkpoint-freq, help."
        )
        return 1
    if verdict.difference is None:
        kills = len(verdict.kills)
        early = f" The run ended before the rest of {options.kills} kills." * (kills < options.kills)
        session.say(f"Identical after {kills} kill{'s' * (kills != 1)} ({counts}).{early}")
        return 0
    session.say(f"They differ first at {verdict.difference}.")
    if verdict.inexact:
        session.say(f"Checkpoints of this training do not bring back {'; '.join(verdict.inexact)}.")
    return 1


def apart(args: list[str]) -> tuple[list[str], list[str]]:
    """This command's own words, and those that go to `steadyrl train`."""
    own = {f"--{flag.name}" for flag in flags_of(VerifyOptions, "flags")} | {"--no-json"}
    mine: list[str] = []
    theirs: list[str] = []
    rest = iter(args)
    for word in rest:
        name = word.partition("=")[0].replace("_", "-")
        if name not in own:
            theirs.append(word)
            continue
        mine.append(word)
        if "=" not in word and name not in ("--json", "--no-json"):
            mine += [following for following in [next(rest, None)] if following is not None]
    return mine, theirs
