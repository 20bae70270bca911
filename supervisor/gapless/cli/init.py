"""The `init` command: install or upgrade the schema, make chunks, and the topic asked for."""

from __future__ import annotations

import argparse

from psycopg.errors import InsufficientPrivilege

from gapless.cli.context import load_all, needs_owner, open_connection
from gapless.cli.parser import add_json, add_partitions
from gapless.cli.screen import answer, remark, say
from gapless.db.migrate import script
from gapless.errors import UsageError
from gapless.ops.configured import install_as_configured

EXAMPLES = """\
It makes the topic of the configuration (topic, by default outbox) if the configuration file, a
values file or the environment says topic or totalPartitions, as light-portal's
db-event-consumer.yml does, or with --partitions. Else it makes none: gapless topics create NAME.

examples:
  gapless init
  gapless init --config db-event-consumer.yml
  gapless init --partitions 16
  gapless init --schema audit          another one, apart from the first, in the same database
  gapless init --sql | psql
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_partitions(parser, "make the topic of the configuration (outbox), with so many")
    add_json(parser)
    parser.add_argument(
        "--sql", action="store_true", help="print the SQL that would run, and run nothing"
    )


def main(args: argparse.Namespace) -> int:
    """Bring the database up to this program, and print what was done."""
    try:
        return _init(args)
    except InsufficientPrivilege as error:
        raise UsageError(needs_owner(error)) from error


def _init(args: argparse.Namespace) -> int:
    loaded = load_all(args, {"total_partitions": args.partitions})
    with open_connection(args, "init", loaded.settings, needs_schema=False) as conn:
        conn.add_notice_handler(lambda notice: remark(f"warning: {notice.message_primary}"))
        if args.sql:
            text = script(conn)
            say(text.rstrip() or "-- nothing to do: the gapless schema is up to date")
            return 0
        done = install_as_configured(conn, loaded)
    if done.installed.chunks_made is None:
        remark(
            "warning: no chunk was made, somebody reads the default chunk; the sequencer makes them"
        )
    return answer(args, str(done), done.record())
