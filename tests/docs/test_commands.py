"""README's table of commands leaves none out, and names none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from gapless.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]


def test_every_command_is_in_the_table() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("\n## Commands\n")[2].partition("\n\nWhat a command does")[0]
    named = set(re.findall(r"`gapless (\w+)", table))
    assert named == set(COMMANDS)
