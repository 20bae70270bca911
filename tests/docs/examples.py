"""Examples, played as their README says, and what stands there that they print."""

import re
import subprocess
import sys
from pathlib import Path

from support.commands import environment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TIMEOUT_S = 170
# What is refused depends on how the calls take turns.
VARIES = {
    "mail": re.compile(
        r"^\d+(?= (?:times refused|mails arrived))|\d+(?= answers lost)", re.MULTILINE
    ),
    "notifications": re.compile(
        r"^\d+(?= (?:calls failed|answers never))|\d+(?= (?:were over|repetitions))", re.MULTILINE
    ),
}


def said(example: str) -> tuple[str, str]:
    """Return the command of a README, and the output that it shows."""
    text = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    words = re.search(r"^python examples/.*$", text, re.MULTILINE)
    printed = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert words is not None
    assert printed is not None
    return words[0], printed[1]


def play(example: str, dsn: str, timeout_s: float = TIMEOUT_S) -> str:
    """Run an example as its README says; return what it printed."""
    command, _ = said(example)
    done = subprocess.run(
        [sys.executable, *command.split()[1:]],
        cwd=ROOT,
        env=environment(GAPLESS_DSN=dsn),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
