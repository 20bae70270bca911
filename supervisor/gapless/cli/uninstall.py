"""The `uninstall` command: drop the schema with everything in it, after asking."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.cli.context import needs_owner, open_connection
from gapless.cli.parser import add_json
from gapless.cli.screen import note, tell
from gapless.db.queries import query
from gapless.errors import GaplessError, UsageError
from gapless.ops.rows import rows
from gapless.ops.text import count

if TYPE_CHECKING:
    from psycopg import Connection

HELP = "drop the schema with all events, groups and dead letters in it"
_LOCK_TIMEOUT = "10s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What would be lost."""

    topics: int
    events: int
    groups: int
    dead_letters: int
    members: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Drop the schema once the person has typed the name of the database."""
    with open_connection(args, "uninstall", needs_schema=False) as conn:
        dbname = conn.info.dbname
        installed = conn.execute(query("cli", "is_installed")).fetchone()
        if installed is None or not installed[0]:
            text = f'nothing to do: database "{dbname}" has no gapless schema'
            tell(args, text, database=dbname, removed=False)
            return 0
        note(f'database "{dbname}" would lose {_describe(conn)}')
        if not args.yes:
            _ask(dbname)
        _drop(conn)
    text = f'removed schema gapless from database "{dbname}"; the roles gapless_* stay'
    tell(args, text, database=dbname, removed=True)
    return 0


def _describe(conn: Connection[Any]) -> str:
    import psycopg  # noqa: PLC0415 - not for --help

    try:
        lost = rows(conn, Losses, query("cli", "losses"))[0]
    except (
        psycopg.Error
    ):  # another version's schema, or half of one: it can be dropped all the same
        return "schema gapless; how much is in it cannot be seen"
    are = "is" if lost.members == 1 else "are"
    running = f"; {count(lost.members, 'supervisor')} {are} running on it" if lost.members else ""
    return (
        f"{count(lost.topics, 'topic')} with {count(lost.events, 'event')}, "
        f"{count(lost.groups, 'group')}, {count(lost.dead_letters, 'dead letter')}{running}"
    )


def _ask(dbname: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "uninstall asks for the name of the database; without a terminal say --yes"
        )
    sys.stderr.write("type the name of the database to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().rstrip("\n") != dbname:
        raise UsageError(f'that is not "{dbname}": nothing was removed')


def _drop(conn: Connection[Any]) -> None:
    from psycopg.errors import InsufficientPrivilege, LockNotAvailable  # noqa: PLC0415 - not for --help

    from gapless.db.migrate import uninstall  # noqa: PLC0415 - not for --help

    conn.execute(query("connect", "lock_timeout"), {"timeout": _LOCK_TIMEOUT})
    try:
        uninstall(conn)
    except InsufficientPrivilege as error:
        raise UsageError(needs_owner(error)) from error
    except LockNotAvailable as error:
        raise GaplessError(
            f"somebody has been using the tables for {_LOCK_TIMEOUT}: nothing was removed; "
            "stop supervisors and publishers first"
        ) from error
