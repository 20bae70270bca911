"""The `doctor` command: check that the database is fit for gapless, and that everything runs."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING

from gapless.cli.context import load_all, server_dsn
from gapless.cli.declare import Args, Command
from gapless.cli.screen import print_table, say
from gapless.ops.doctor.rounds import diagnose
from gapless.ops.doctor.settings import list_settings
from gapless.ops.text import json_text, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless.ops.doctor.finding import Finding, Level

EXAMPLES = """\
Every line is ok, warning (it works, but a person should know) or FAIL (with the remedy).
The first line and the last count them. Exit code 1 when there is a FAIL. Below the checks stands
each setting, and where its value came from.
"""
_LEVELS: tuple[Level, ...] = ("FAIL", "warning", "ok")  # the worst first
_COLOURS: dict[Level, str] = {"FAIL": "bold red", "warning": "yellow", "ok": "green"}


command = Command("doctor")


@command.main(connects=False)
def _doctor(args: Args) -> int:
    """Look, report, and change nothing."""
    loaded = load_all(args)
    dsn = server_dsn(loaded.settings)
    found = list(diagnose(dsn, connect_timeout_s=loaded.settings.connect_timeout_s))
    settings = list_settings(loaded)
    if args.json:
        checks = [asdict(finding) for finding in found]
        rows = [asdict(each) for each in settings]
        say(json_text({"checks": checks, "settings": rows}, indent=2))
    else:
        _print_verdict(found)
        for finding in found:
            _print(finding)
        say()
        print_table(["SETTING", "VALUE", "FROM"], list(map(astuple, settings)))
        say()
        _print_verdict(found)
    return 1 if any(finding.level == "FAIL" for finding in found) else 0


def _print_verdict(found: Sequence[Finding]) -> None:
    """Print the worst level, and the number of findings of each level."""
    counts = Counter(finding.level for finding in found)
    worst = next(level for level in _LEVELS if counts[level])
    said = ", ".join(f"{counts[level]} {level}" for level in _LEVELS if counts[level])
    _print_line(worst, f"of {len(found)} findings {said}")


def _print(finding: Finding) -> None:
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    _print_line(finding.level, f"{finding.name:<15} {plain(finding.text + remedy)}")


def _print_line(level: Level, line: str) -> None:
    if not sys.stdout.isatty():
        say(f"{level:<8} {line}")
        return
    from rich.console import Console  # noqa: PLC0415 - only on a terminal
    from rich.text import Text  # noqa: PLC0415 - only on a terminal

    styled = Text(f"{level:<8} ", style=_COLOURS[level])
    Console().print(styled.append(line, style="default"), soft_wrap=True)
