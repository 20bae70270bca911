"""The `uninstall` command: drop the schema with everything in it, after asking."""

from __future__ import annotations

import argparse
import sys

from psycopg.errors import InsufficientPrivilege

from gapless.cli.context import needs_owner, open_connection
from gapless.cli.parser import add_json
from gapless.cli.screen import answer, remark
from gapless.db.schema import schema, schema_words
from gapless.errors import UsageError
from gapless.ops.install import Losses, drop_schema, find_losses, is_installed
from gapless.ops.text import quantity


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Drop the schema once the person has typed the name of the database."""
    with open_connection(args, "uninstall", needs_schema=False) as conn:
        dbname = conn.info.dbname
        if not is_installed(conn):
            text = f'nothing to do: database "{dbname}" has no {schema_words()}'
            answer(args, text, database=dbname, removed=False)
            return 0
        remark(f'database "{dbname}" would lose {_in_words(find_losses(conn))}')
        if not args.yes:
            _ask(dbname)
        try:
            left = drop_schema(conn)
        except InsufficientPrivilege as error:
            raise UsageError(needs_owner(error)) from error
    text = f'removed schema {schema()} from database "{dbname}"'
    if left:
        text += f"; roles that others use stay: {', '.join(left)}"
    answer(args, text, database=dbname, removed=True, roles_left=left)
    return 0


def _in_words(lost: Losses | None) -> str:
    if lost is None:  # it can be dropped all the same
        return f"schema {schema()}; how much is in it cannot be seen"
    are = "is" if lost.members == 1 else "are"
    running = (
        f"; {quantity(lost.members, 'supervisor')} {are} running on it" if lost.members else ""
    )
    return (
        f"{quantity(lost.topics, 'topic')} with {quantity(lost.events, 'event')}, "
        f"{quantity(lost.groups, 'group')}, {quantity(lost.dead_letters, 'dead letter')}{running}"
    )


def _ask(dbname: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "uninstall asks for the name of the database; without a terminal say --yes"
        )
    sys.stderr.write("type the name of the database to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().rstrip("\n") != dbname:
        raise UsageError(f'that is not "{dbname}": nothing was removed')
