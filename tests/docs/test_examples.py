"""The examples run as their README says, and print what stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stage.cli.conftest import environment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TIMEOUT_S = 170
EXPENSIVE = ("shop", "mail", "notifications", "fastapi", "flask")  # run with --long
# What is refused depends on how the calls take turns.
VARIES = {
    "mail": re.compile(
        r"^\d+(?= (?:times refused|mails arrived))|\d+(?= answers lost)", re.MULTILINE
    ),
    "notifications": re.compile(
        r"^\d+(?= (?:calls failed|answers never))|\d+(?= (?:were over|repetitions))", re.MULTILINE
    ),
}


def said(example: str) -> tuple[list[str], str]:
    """The command of a README, and what it says that comes of it."""
    text = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    words = re.search(r"^python (examples/.*)$", text, re.MULTILINE)
    printed = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert words is not None
    assert printed is not None
    return [sys.executable, *words[1].split()], printed[1]


def play(example: str, dsn: str, timeout_s: float = TIMEOUT_S) -> str:
    """Run an example as its README says; return what it printed."""
    command, _ = said(example)
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(GAPLESS_DSN=dsn),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    [
        "django",
        *(pytest.param(name, marks=pytest.mark.long) for name in EXPENSIVE),
    ],
)
def test_it_runs_as_its_readme_says(example: str, dsn: str) -> None:
    _, expected = said(example)
    printed = play(example, dsn)
    if example in VARIES:
        printed, expected = (VARIES[example].sub("N", text) for text in (printed, expected))
    assert printed == expected


def test_every_example_is_run() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/README.md")}
    assert folders == {
        *("flights", "shop", "mail", "notifications", "fastapi", "flask", "django", "spark"),
    }
