"""The `init` command: install or upgrade the schema, make chunks, and the topic asked for."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from psycopg.errors import InsufficientPrivilege, InvalidSchemaName, UndefinedTable

from gapless.cli.context import load_all, needs_owner, open_connection
from gapless.cli.parser import add_json, add_partitions
from gapless.cli.plan import show_plan
from gapless.cli.screen import answer, remark, say
from gapless.db.migrate import script
from gapless.db.schema import schema, schema_words
from gapless.errors import UsageError
from gapless.log.schedules import Schedule
from gapless.log.topics import find_topic
from gapless.ops.install import Installed, install_schema
from gapless.ops.text import quantity
from gapless.ops.topics import ensure_as_configured
from gapless.worker.declared import apply_schedules

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.settings import Loaded

EXAMPLES = """\
It makes the topic of the configuration (topic, by default outbox) if the configuration file, a
values file or the environment says topic or totalPartitions, as light-portal's
db-event-consumer.yml does, or with --partitions. Else it makes none: gapless topics create NAME.

examples:
  gapless init
  gapless init --config db-event-consumer.yml
  gapless init --partitions 16
  gapless init --schema audit          another one, apart from the first, in the same database
  gapless init --plan                  what an upgrade would do: locks, rows, time
  gapless init --sql | psql
"""
_ASKS = ("topic", "totalPartitions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_partitions(parser, "make the topic of the configuration (outbox), with so many")
    add_json(parser)
    parser.add_argument(
        "--sql", action="store_true", help="print the SQL that would run, and run nothing"
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="say what it would do (locks, rows, time), and do nothing",
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
        if args.plan:
            return show_plan(conn, args)
        _refuse_mismatch(conn, loaded)
        installed = _install(conn, loaded)
        changes = installed.changes
        done = _in_words(installed, conn.info.dbname)
        there, is_new = "", False
        if _asks_topic(loaded):
            topic, is_new = ensure_as_configured(conn, loaded.settings.topic, loaded)
            there = f"topic {topic.name} with {quantity(topic.partitions, 'partition')}"
            if is_new:
                done.append(f"created {there}")
        schedules = [Schedule(**each.record()) for each in loaded.schedules]
        applied = apply_schedules(conn, schedules)
        done += [f"schedule {name} is as the configuration says" for name in applied]
        dbname = conn.info.dbname
    what = f'the {schema_words()} in database "{dbname}" is up to date'
    nothing = f"nothing to do: {what}" + (f", there is {there}" if there else "")
    migrations = [change.name for change in changes if change.kind == "migrations"]
    created = loaded.settings.topic if is_new else None
    answer(
        args,
        "\n".join(done) or nothing,
        database=dbname,
        changed=bool(done),
        migrations=migrations,
        created_topic=created,
    )
    return 0


def _asks_topic(loaded: Loaded) -> bool:
    """Tell whether somebody said which topic there is to be, or how many partitions it has."""
    return any(loaded.sources[key] != "default" for key in _ASKS)


def _refuse_mismatch(conn: Connection[Any], loaded: Loaded) -> None:
    """Refuse another number of partitions before anything is changed, where there is a topic."""
    try:
        there = find_topic(conn, loaded.settings.topic) if _asks_topic(loaded) else None
    except (UndefinedTable, InvalidSchemaName):
        return
    if there is not None:
        ensure_as_configured(conn, there.name, loaded)


def _install(conn: Connection[Any], loaded: Loaded) -> Installed:
    """Install, with the size of chunks that somebody said, if anybody did."""
    said = {
        name: getattr(loaded.settings, name)
        for name, key in (("chunk_events", "chunkEvents"), ("chunks_ahead", "chunksAhead"))
        if loaded.sources[key] != "default"
    }
    installed = install_schema(conn, **said)
    if installed.chunks_made is None:
        remark(
            "warning: no chunk was made, somebody reads the default chunk; the sequencer makes them"
        )
    return installed


def _in_words(installed: Installed, dbname: str) -> list[str]:
    done = []
    if installed.changes:
        kinds = Counter(change.kind for change in installed.changes)
        parts = [
            quantity(kinds[kind], kind.removesuffix("s"))
            for kind in ("migrations", "functions", "views")
            if kinds[kind]
        ]
        done.append(
            f'installed in database "{dbname}", schema {schema()}: {", ".join([*parts, "roles"])}'
        )
    if installed.chunks_made:
        made = quantity(installed.chunks_made, "chunk")
        done.append(f"made {made} of {installed.chunk_events:,} events")
    return done
