"""completion: bash completes with what it prints; zsh and fish are told the same words."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gapless.cli.commands import COMMANDS
from support.long import long_but


def completed(script: str, folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    asked = " ".join(f"'{word}'" for word in words)
    program = (
        f"{script}\nCOMP_WORDS=({asked}); COMP_CWORD={len(words) - 1}\n"
        "_shtab_gapless; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    shell = shutil.which("bash")
    assert shell is not None
    done = subprocess.run(
        [shell], input=program, capture_output=True, text=True, cwd=folder, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.long
def test_bash(bare, tmp_path: Path) -> None:
    script = bare("completion", "bash").out
    (tmp_path / "gapless.yml").touch()

    def offered(*words: str) -> list[str]:
        return completed(script, tmp_path, "gapless", *words)

    assert set(offered("")) >= set(COMMANDS)
    assert offered("top") == ["topics"]
    assert offered("topics", "cr") == ["create"]
    assert offered("topics", "create", "--ret") == ["--retention"]
    assert offered("dlq", "list", "--state", "d") == ["dead", "discarded"]
    assert offered("topics", "--config", "gap") == ["gapless.yml"]


@pytest.mark.long
@pytest.mark.parametrize("shell", long_but(["bash", "zsh", "fish"], "zsh"))
def test_every_command_is_there(bare, shell: str) -> None:
    done = bare("completion", shell)
    assert (done.code, done.err) == (0, "")
    for word in (*COMMANDS, "unrouted", "retention"):
        assert word in done.out


def test_another_shell(bare) -> None:
    assert "invalid choice: 'tcsh'" in bare("completion", "tcsh").complaint()
