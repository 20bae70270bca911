"""The `doctor` command: whether the database is fit for gapless, and everything runs."""

from __future__ import annotations

import sys
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING

from gapless.cli.context import load_all, server_dsn
from gapless.cli.declare import Args, Command
from gapless.cli.screen import print_table, say
from gapless.ops.doctor.rounds import diagnose
from gapless.ops.doctor.settings import list_settings
from gapless.ops.text import json_text, plain

if TYPE_CHECKING:
    from gapless.ops.doctor.finding import Finding

EXAMPLES = """\
Every line is ok, warning (it works, but somebody should know) or FAIL (with what to do).
Exit code 1 when there is a FAIL. Below stands each setting, and where its value came from.
"""
_COLOURS = {"ok": "green", "warning": "yellow", "FAIL": "bold red"}


command = Command("doctor")


@command.main(connects=False)
def _doctor(args: Args) -> int:
    """Look, report, and change nothing."""
    loaded = load_all(args)
    dsn = server_dsn(args, loaded.settings)
    found = []
    for finding in diagnose(dsn, connect_timeout_s=loaded.settings.connect_timeout_s):
        found.append(finding)
        if not args.json:
            _print(finding)  # at once: a check may take its time
    settings = list_settings(loaded)
    if args.json:
        checks = [asdict(finding) for finding in found]
        rows = [asdict(each) for each in settings]
        say(json_text({"checks": checks, "settings": rows}, indent=2))
    else:
        say()
        print_table(["SETTING", "VALUE", "FROM"], list(map(astuple, settings)))
    return 1 if any(finding.level == "FAIL" for finding in found) else 0


def _print(finding: Finding) -> None:
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    line = f"{finding.name:<15} {plain(finding.text + remedy)}"
    if not sys.stdout.isatty():
        say(f"{finding.level:<8} {line}")
        return
    from rich.console import Console  # noqa: PLC0415 - only on a terminal
    from rich.text import Text  # noqa: PLC0415 - only on a terminal

    level = Text(f"{finding.level:<8} ", style=_COLOURS[finding.level])
    Console().print(level.append(line, style="default"), soft_wrap=True)
