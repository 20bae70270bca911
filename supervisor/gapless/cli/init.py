"""The `init` command: install or upgrade the schema, make chunks, and the topic asked for."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from time import sleep
from typing import TYPE_CHECKING, Any

from gapless.cli.context import load, needs_owner, open_connection
from gapless.cli.parser import add_json, add_partitions
from gapless.cli.screen import note, say, tell
from gapless.cli.topics import ensure
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.text import count

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.db.migrate import Change
    from gapless.settings import Loaded

HELP = "install or upgrade the schema; repeat freely"
EXAMPLES = """\
It makes the topic of the configuration (topic, by default outbox) if the configuration file, a
values file or the environment says topic or totalPartitions, as light-portal's
db-event-consumer.yml does, or with --partitions. Else it makes none: gapless topics create NAME.

examples:
  gapless init
  gapless init --config db-event-consumer.yml
  gapless init --partitions 16
  gapless init --sql | psql
"""
_ASKS = ("topic", "totalPartitions")
_CHUNK_TRIES = 10
_CHUNK_PAUSE_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_partitions(parser, "make the topic of the configuration (outbox), with so many")
    add_json(parser)
    parser.add_argument(
        "--sql", action="store_true", help="print the SQL that would run, and run nothing"
    )


def main(args: argparse.Namespace) -> int:
    """Bring the database up to this program, and print what was done."""
    from psycopg.errors import InsufficientPrivilege  # noqa: PLC0415 - not for --help

    try:
        return _init(args)
    except InsufficientPrivilege as error:
        raise UsageError(needs_owner(error)) from error


def _init(args: argparse.Namespace) -> int:
    from gapless.db.migrate import migrate, script  # noqa: PLC0415 - not for --help

    loaded = load(args, {"total_partitions": args.partitions})
    with open_connection(args, "init", loaded.settings, needs_schema=False) as conn:
        conn.add_notice_handler(lambda notice: note(f"warning: {notice.message_primary}"))
        if args.sql:
            text = script(conn)
            say(text.rstrip() or "-- nothing to do: the gapless schema is up to date")
            return 0
        _refuse_mismatch(conn, loaded)
        changes = migrate(conn)
        done = _describe(changes, conn.info.dbname)
        done += _chunks(conn, loaded)
        there, is_new = "", False
        if _asks_topic(loaded):
            topic, is_new = ensure(conn, loaded.settings.topic, loaded)
            there = f"topic {topic.name} with {count(topic.partitions, 'partition')}"
            if is_new:
                done.append(f"created {there}")
        dbname = conn.info.dbname
    what = f'the gapless schema in database "{dbname}" is up to date'
    nothing = f"nothing to do: {what}" + (f", there is {there}" if there else "")
    migrations = [change.name for change in changes if change.kind == "migrations"]
    created = loaded.settings.topic if is_new else None
    tell(
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
    from psycopg.errors import InvalidSchemaName, UndefinedTable  # noqa: PLC0415 - not for --help

    from gapless.log.topics import find_topic  # noqa: PLC0415 - not for --help

    try:
        there = find_topic(conn, loaded.settings.topic) if _asks_topic(loaded) else None
    except (UndefinedTable, InvalidSchemaName):
        return
    if there is not None:
        ensure(conn, there.name, loaded)


def _describe(changes: Sequence[Change], dbname: str) -> list[str]:
    if not changes:
        return []
    kinds = Counter(change.kind for change in changes)
    parts = [
        count(kinds[kind], kind.removesuffix("s"))
        for kind in ("migrations", "functions", "views")
        if kinds[kind]
    ]
    return [f'installed in database "{dbname}", schema gapless: {", ".join([*parts, "roles"])}']


def _chunks(conn: Connection[Any], loaded: Loaded) -> list[str]:
    """Set the size of chunks if somebody said one, and make the first ones."""
    from gapless.log.sequence import configure_chunks  # noqa: PLC0415 - not for --help

    done = []
    chunk_events, chunks_ahead = conn.execute(query("cli", "chunk_config")).fetchone() or (0, 0)
    wanted = loaded.settings
    if loaded.sources["chunkEvents"] != "default":
        chunk_events = wanted.chunk_events
    if loaded.sources["chunksAhead"] != "default":
        chunks_ahead = wanted.chunks_ahead
    configure_chunks(conn, chunk_events=chunk_events, chunks_ahead=chunks_ahead)
    made = _make_chunks(conn)
    if made:
        done.append(f"made {count(made, 'chunk')} of {chunk_events:,} events")
    return done


def _make_chunks(conn: Connection[Any]) -> int:
    from psycopg.errors import LockNotAvailable  # noqa: PLC0415 - not for --help

    from gapless.log.sequence import create_chunks  # noqa: PLC0415 - not for --help

    for _ in range(_CHUNK_TRIES):
        try:
            return create_chunks(conn)
        except LockNotAvailable:
            sleep(_CHUNK_PAUSE_S)
    note("warning: no chunk was made, somebody reads the default chunk; the sequencer makes them")
    return 0
