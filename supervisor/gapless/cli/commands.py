"""The table of all commands with their summaries, and the parser of one command, or of all.

It is a table, so that `gapless --help` imports no command, and a broken one breaks no other.
The module of a command has `command`, which declares it. It may have EXAMPLES, and
TAKES_THE_REST: then gapless does not read the words behind `--`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gapless.cli.parser import HOW, Parser
from gapless.feature import Listed
from gapless.features import FEATURES


def _beside(summaries: dict[str, str]) -> dict[str, Listed]:
    """Return commands, each with the module of the same name beside this one."""
    return {name: Listed(summary, f"gapless.cli.{name}") for name, summary in summaries.items()}


GROUPS = {
    "every day": _beside(
        {
            "init": "install or upgrade the schema; repeat freely",
            "run": "run the handlers of an application; start as many as you like",
            "publish": "publish one event, or JSON lines from a file or a pipe",
            "tail": "look at the events of a topic, also as they come",
            "topics": (
                "list, create, adopt and show topics, change their number of partitions and "
                "their retention"
            ),
            "groups": "list, create and show consumer groups and their lag",
            "status": "lag, dead letters, groups, partitions, members: now, or live with --watch",
            "doctor": "check server, privileges, pooler, settings, clock, wake-up, horizon, log",
            "dlq": "units set aside, with reasons: list, show, redrive, discard, export, import",
            "demo": "run a week of real flights through the log and check the result",
        }
    ),
    "mend": _beside(
        {
            "pause": "let a group or a partition rest: its workers finish their batch and go",
            "resume": "let a paused group or partition continue where it was",
            "seek": "move a group to another place in the log: handle again, or skip",
            "skip": "let a group pass a hole: events missing from the log at its offset",
            "audit": "changes by people and programs: their author, their time, their object",
        }
    ),
    "features": {name: each for one in FEATURES for name, each in one.commands.items()},
    "the schema and the shell": _beside(
        {
            "uninstall": "drop the schema with all events, groups and dead letters in it",
            "completion": "print what bash, zsh or fish need to complete commands and options",
        }
    ),
}
"""Commands below the titles of the help."""
COMMANDS = {name: each for group in GROUPS.values() for name, each in group.items()}
_DESCRIPTION = "An ordered, partitioned, transactional event log inside PostgreSQL."
_DATABASE_HELP = """\
The database is the first of these that is said: --dsn, GAPLESS_DSN, dsn: in the configuration,
libpq's own environment (PGHOST, PGSERVICE, ...). Without any, gapless starts a server of its own:
gapless server tells where its data are (GAPLESS_HOME chooses the folder, GAPLESS_PG_BINDIR the bin
folder of the PostgreSQL). Exit codes: docs/reference/exit-codes.md.
"""
_PROGRAM: Any = {"prog": "gapless", "description": _DESCRIPTION, "epilog": _DATABASE_HELP, **HOW}


def help_parser() -> Parser:
    """Return a parser that knows the names of all commands, and imports none of them."""
    parser = Parser(**_PROGRAM, usage="gapless COMMAND [VERB] ...")
    for title, commands in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, each in commands.items():
            group.add_argument(name, nargs="?", help=each.summary)
    return parser


def parser_of(*names: str) -> Parser:
    """Return a parser that knows these commands with all their verbs, and imports their modules."""
    parser = Parser(**_PROGRAM)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for name in names:
        summary, module = COMMANDS[name].summary, import_module(COMMANDS[name].module)
        about = f"{summary[0].upper()}{summary[1:]}."
        more = getattr(module, "EXAMPLES", None)
        own = commands.add_parser(name, help=summary, description=about, epilog=more, **HOW)
        module.command.add_arguments(own)
    return parser
