"""`manage.py gapless …`: the command `gapless`, with the database of Django."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from gapless.cli.main import main
from gapless.db.schema import schema
from gapless.django.database import dsn

_RUN = ("run", "gapless.django:handlers")


class ManageCommand(BaseCommand):
    """Pass all words to gapless; `run` without words runs the handlers of all apps."""

    help = "the command gapless, with the database of Django; `gapless --help` lists what it does"
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command from a terminal; its options are gapless's own."""
        sys.exit(_run(argv[2:]))

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the words of call_command("gapless", "status")."""
        parser.add_argument("words", nargs="*")

    def handle(self, *_: Any, words: list[str], **__: Any) -> None:
        """Run the command from a program. Raises CommandError if it fails; see stderr."""
        code = _run(words)
        if code:
            raise CommandError(f"gapless {' '.join(words)}: exit code {code}", returncode=code)


Command = ManageCommand  # the name that Django looks for


def _run(words: list[str]) -> int:
    if words[:1] == ["run"] and not any(not word.startswith("-") for word in words[1:2]):
        words = [*_RUN, *words[1:]]
    own = {"GAPLESS_DSN": dsn(), "GAPLESS_SCHEMA": schema()}
    before = {name: os.environ.get(name) for name in own}
    os.environ |= own
    connections.close_all()  # `run` forks, and no child may have a session of Django's
    try:
        return main(words)
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
