"""Every command: where it is, and what the help says of it; the parser of one, or of all.

A table, so that `gapless --help` imports none of them, and one that is broken breaks nothing else.
The module of a command has `command`, which declares it. Perhaps it has EXAMPLES, and
TAKES_THE_REST: what stands behind `--` is not for gapless to read.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType

from gapless.cli.parser import Parser

COMMANDS = {
    "init": "install or upgrade the schema; repeat freely",
    "run": "run the handlers of an application; start as many as you like",
    "gateway": "serve the log over HTTP: publish, read, follow; start as many as you like",
    "keys": "keys of the gateway, and what they may do: list, create, revoke",
    "publish": "publish one event, or JSON lines from a file or a pipe",
    "later": "list the events that wait for their time, cancel them",
    "schedule": "publish again and again: add, list, pause, resume, remove, run schedules",
    "capture": "tables whose changes are published: add, list, mend, remove",
    "subscriptions": "many subscriptions in one group, whose events it takes: list, add, remove",
    "schemas": "what payloads have to be, by topic and type: add, check, list, show, remove",
    "attach": "outboxes that exist, as topics: add, group, switch, back, list, mend, remove",
    "classic": (
        "what programs that watch the classic tables still see: show, hide, notify, silence, list"
    ),
    "webhooks": "endpoints that are called with events: add, list, test, pause, resume, remove",
    "tail": "look at the events of a topic, also as they come",
    "trace": (
        "show what came of a transaction: a tree of events, and of what each group did with them"
    ),
    "topics": (
        "list, create, adopt and show topics, change their number of partitions and their retention"
    ),
    "groups": "list, create and show consumer groups and their lag",
    "queue": "take events of a queue group by hand, and say what became of them",
    "status": "members, partitions, lag, dead letters: now, or live with --watch",
    "pause": "let a group or a partition rest: its workers finish their batch and go",
    "resume": "let a paused group or partition continue where it was",
    "seek": "move a group to another place in the log: handle again, or skip",
    "skip": "let a group pass a hole: what is missing from the log where it stands",
    "replay": "run a handler over a range of a topic, beside all groups",
    "dlq": "what was set aside, and why: list, show, redrive, discard, export, import",
    "retention": "show what of the log may be dropped, and why the rest stays; drop it",
    "pipeline": (
        "run pipelines on Spark: topics into Parquet, Delta, a table or a topic, exactly once"
    ),
    "doctor": "check server, privileges, pooler, settings, clock, wake-up, horizon, log",
    "server": (
        "the PostgreSQL that gapless runs where no DSN is configured: look at it, start, stop"
    ),
    "demo": "run a week of real flights through the log and check the result",
    "uninstall": "drop the schema with all events, groups and dead letters in it",
    "completion": "print what bash, zsh or fish need to complete commands and options",
}
_IN_FEATURES = {
    "attach": "attach.commands",
    "capture": "capture.commands",
    "classic": "classic.commands",
    "gateway": "gateway.commands",
    "keys": "gateway.key_commands",
    "later": "scheduled.commands",
    "pipeline": "spark.commands",
    "queue": "queue.commands",
    "replay": "replay.commands",
    "retention": "retention.commands",
    "schedule": "scheduled.schedule_commands",
    "schemas": "schemas.commands",
    "server": "server.commands",
    "subscriptions": "filters.commands",
    "trace": "chains.commands",
    "webhooks": "webhooks.commands",
}
"""Where the commands of features are; the others are beside this module, by their names."""
_DESCRIPTION = "An ordered, partitioned, transactional event log inside PostgreSQL."
_DATABASE_HELP = """\
The database is the first of these that is said: --dsn, GAPLESS_DSN, dsn: in the configuration,
libpq's own environment (PGHOST, PGSERVICE, ...). Without any, gapless starts a server of its own:
gapless server tells where its data are (GAPLESS_HOME chooses the folder, GAPLESS_PG_BINDIR the bin
folder of the PostgreSQL). Exit codes: docs/exit-codes.md.
"""
_Commands = argparse._SubParsersAction  # noqa: SLF001 - what add_subparsers() returns has no other name


def help_parser() -> Parser:
    """Return a parser that knows what commands there are, and imports none of them."""
    parser, commands = _new_parser()
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    return parser


def command_parser(name: str) -> tuple[Parser, ModuleType]:
    """Return a parser that knows one command, and the module of that command."""
    parser, commands = _new_parser()
    return parser, _add(commands, name)


def whole_parser() -> Parser:
    """Return a parser that knows every command with all its verbs and options; imports them all."""
    parser, commands = _new_parser()
    for name in COMMANDS:
        _add(commands, name)
    return parser


def _new_parser() -> tuple[Parser, _Commands[Parser]]:
    parser = Parser(prog="gapless", description=_DESCRIPTION, epilog=_DATABASE_HELP)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    return parser, commands


def _add(commands: _Commands[Parser], name: str) -> ModuleType:
    summary = COMMANDS[name]
    feature = _IN_FEATURES.get(name)
    module = import_module(f"gapless.features.{feature}" if feature else f"gapless.cli.{name}")
    own = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=getattr(module, "EXAMPLES", None),
    )
    module.command.add_arguments(own)
    return module
