"""The `uninstall` command: drop the schema with everything in it, after asking."""

from __future__ import annotations

import sys

from psycopg.errors import InsufficientPrivilege

from gapless.cli.context import load_all, needs_owner, open_connection
from gapless.cli.declare import Args, Command, flag
from gapless.cli.screen import answer, remark
from gapless.db.schema import schema, schema_words
from gapless.errors import UsageError
from gapless.ops.install import drop_schema, find_losses, is_installed

command = Command("uninstall")


@command.main(flag("--yes", "do not ask"), connects=False)
def _uninstall(args: Args) -> int:
    """Drop the schema once the person has typed the name of the database."""
    with open_connection(load_all(args).settings, "uninstall", needs_schema=False) as conn:
        dbname = conn.info.dbname
        if not is_installed(conn):
            text = f'nothing to do: database "{dbname}" has no {schema_words()}'
            return answer(args, text, database=dbname, removed=False)
        lost = find_losses(conn) or f"schema {schema()}; how much is in it cannot be seen"
        remark(f'database "{dbname}" would lose {lost}')
        if not args.yes:
            _ask(dbname)
        try:
            left = drop_schema(conn)
        except InsufficientPrivilege as error:
            raise UsageError(needs_owner(error)) from error
    text = f'removed schema {schema()} from database "{dbname}"'
    if left:
        text += f"; roles stay that others use, or that you may not drop: {', '.join(left)}"
    return answer(args, text, database=dbname, removed=True, roles_left=left)


def _ask(dbname: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "uninstall asks for the name of the database; without a terminal say --yes"
        )
    sys.stderr.write("type the name of the database to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().rstrip("\n") != dbname:
        raise UsageError(f'that is not "{dbname}": nothing was removed')
