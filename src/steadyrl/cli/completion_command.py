"""`steadyrl completion SHELL`: a static script that completes commands, algorithms, environments, flags."""

from __future__ import annotations

from collections.abc import Iterable

from steadyrl.cli.flags import Flag, flags_of
from steadyrl.cli.parser import wants_help
from steadyrl.cli.session import Session
from steadyrl.config import presets
from steadyrl.configs import CONFIGS
from steadyrl.configs.run import RunSettings
from steadyrl.errors import UserError

_USAGE = """usage: steadyrl completion {bash,zsh,fish}

Prints a completion script.

example:
  eval "$(steadyrl completion bash)"       # in ~/.bashrc
  eval "$(steadyrl completion zsh)"        # in ~/.zshrc, after compinit
  steadyrl completion fish | source        # in config.fish"""

_BASH = """_steadyrl() {{
  local words
  if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"
  elif [ "${{COMP_WORDS[1]}}" = bench ]; then words="{envs} {bench}"
  elif [ "${{COMP_WORDS[1]}}" = check ]; then words="{envs} {check}"; COMPREPLY=($(compgen -f -- "$2"))
  elif [ "${{COMP_WORDS[1]}}" = resume ]; then words="latest {resume}"; COMPREPLY=($(compgen -f -- "$2"))
  elif [ "${{COMP_WORDS[1]}}" = reproduce ]; then words="latest {reproduce}"; COMPREPLY=($(compgen -f -- "$2"))
  elif [ "${{COMP_WORDS[1]}}" = verify-resume ]; then words="{algos} {envs} {verify} {flags}"
  elif [ "${{COMP_WORDS[1]}}" != train ]; then words="{common}"; COMPREPLY=($(compgen -f -- "$2"))
  elif [[ "$2" == -* ]]; then words="{flags}"
  elif [ "$COMP_CWORD" -eq 2 ]; then words="{algos}"
  else words="{envs}"; fi
  COMPREPLY+=($(compgen -W "$words" -- "$2"))
}}
complete -o default -F _steadyrl steadyrl"""

_FISH = """complete -c steadyrl -n __fish_use_subcommand -xa "{commands}"
complete -c steadyrl -n "__fish_seen_subcommand_from train" -xa "{algos} {envs} {flags}"
complete -c steadyrl -n "__fish_seen_subcommand_from bench" -xa "{envs} {bench}"
complete -c steadyrl -n "__fish_seen_subcommand_from check" -a "{envs} {check}"
complete -c steadyrl -n "__fish_seen_subcommand_from resume" -a "latest {resume}"
complete -c steadyrl -n "__fish_seen_subcommand_from reproduce" -a "latest {reproduce}"
complete -c steadyrl -n "__fish_seen_subcommand_from verify-resume" -xa "{algos} {envs} {verify} {flags}"
set -l steadyrl_own train bench check resume reproduce verify-resume
complete -c steadyrl -n "not __fish_seen_subcommand_from $steadyrl_own" -a "{common}\""""


def run(args: list[str], session: Session) -> int:
    """Prints the script for one shell."""
    if wants_help(args):
        print(_USAGE)
        return 0
    if len(args) != 1 or args[0] not in ("bash", "zsh", "fish"):
        raise UserError(
            f"`steadyrl completion` needs the name of a shell, not {' '.join(args) or 'nothing'}.",
            remedy="For example: steadyrl completion bash. Known: bash, zsh, fish.",
            code="usage",
        )
    print(script(args[0]))
    return 0


def script(shell: str) -> str:
    """The script for `bash`, `zsh` or `fish`."""
    from steadyrl.cli.bench_command import BenchOptions
    from steadyrl.cli.check_command import CheckOptions
    from steadyrl.cli.main import COMMANDS
    from steadyrl.cli.reproduce_command import ReproduceOptions
    from steadyrl.cli.resume_command import ResumeOptions
    from steadyrl.cli.train_command import TrainOptions
    from steadyrl.cli.verify_resume_command import VerifyOptions

    shared = flags_of(TrainOptions, "") + flags_of(RunSettings, "")
    hyper = [flag for config in CONFIGS.values() for flag in flags_of(config, "")]
    text = (_FISH if shell == "fish" else _BASH).format(
        commands=" ".join(COMMANDS),
        algos=" ".join(CONFIGS),
        envs=" ".join(sorted({name for algo in CONFIGS for name in presets(algo)})),
        flags=" ".join(_spellings([*shared, *hyper])),
        bench=" ".join(_spellings(flags_of(BenchOptions, ""))),
        check=" ".join(_spellings(flags_of(CheckOptions, ""))),
        resume=" ".join(_spellings(flags_of(ResumeOptions, ""))),
        reproduce=" ".join(_spellings(flags_of(ReproduceOptions, ""))),
        verify=" ".join(_spellings(flags_of(VerifyOptions, ""))),
        common="latest --json --help",
    )
    return f"autoload -U +X bashcompinit && bashcompinit\n{text}" if shell == "zsh" else text


def _spellings(flags: Iterable[Flag]) -> list[str]:
    names = {f"--{flag.name}" for flag in flags} | {f"--no-{flag.name}" for flag in flags if flag.is_switch}
    return sorted(names)
