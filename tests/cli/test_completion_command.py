import shutil
import subprocess

import pytest

from steadyrl.cli.completion_command import script

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    code = (
        f"{script('bash')}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}\n"
        f"_steadyrl steadyrl '{words[-1]}' '{words[-2]}'\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.split()


@needs_bash
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("steadyrl", "tr"), ["train"]),
        (("steadyrl", "repl"), ["replay"]),
        (("steadyrl", "train", "a"), ["a2c"]),
        (("steadyrl", "train", "ppo", "CartP"), ["CartPole-v1"]),
        (("steadyrl", "train", "ppo", "--gam"), ["--gamma"]),
        (("steadyrl", "train", "ppo", "--no-ortho"), ["--no-ortho-init"]),
        (("steadyrl", "train", "ppo", "--learning-rate-e"), ["--learning-rate-end"]),
        (("steadyrl", "eval", "late"), ["latest"]),
        (("steadyrl", "be"), ["bench"]),
        (("steadyrl", "ch"), ["check"]),
        (("steadyrl", "check", "CartP"), ["CartPole-v1"]),
        (("steadyrl", "check", "CartPole-v1", "--no-si"), ["--no-side-effects"]),
        (("steadyrl", "resume", "x", "--tot"), ["--total-timesteps"]),
        (("steadyrl", "reproduce", "x", "--stat"), ["--statistical"]),
        (("steadyrl", "verify-resume", "ppo", "--kills"), ["--kills"]),
        (("steadyrl", "bench", "CartP"), ["CartPole-v1"]),
        (("steadyrl", "bench", "CartPole-v1", "--num"), ["--num-envs", "--num-workers"]),
    ],
)
def test_bash_completes(words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_knows_commands_algorithms_and_flags(shell: str) -> None:
    text = script(shell)
    assert "train resume eval record verify-resume reproduce presets info" in text
    assert "ppo a2c" in text
    assert " --gamma " in text
    assert "{" not in text.replace("() {", "").replace("${", "") or shell != "fish"
