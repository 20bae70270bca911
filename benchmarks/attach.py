"""Attached outboxes: how fast existing rows are copied, and the cost of writing new ones."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

from psycopg import Connection

from benchmarks.capture import SIZES, insert_us
from benchmarks.cost import Meter
from benchmarks.drain import Drained, drained_figures
from benchmarks.figure import Figure, alternate
from benchmarks.fill import make_topic, sequence_all
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from gapless.db.connect import connect
from gapless.features.attach.ops import AttachRequest, attach_table, detach_table
from gapless.log.sequence import create_chunks

TABLE = "public.attached"
WISH = AttachRequest(table=TABLE, topic="outbox", map={"key": "customer", "payload": "body"})
AT_ONCE = "one INSERT … SELECT"
NOTHING = "no trigger"
INSERTS = {NOTHING: "attach_insert_plain", "ours": "attach_insert_attached"}


def run(setup: Setup) -> list[Figure]:
    """Attach a table with rows in it, over and over; then insert more, in three sizes."""
    rows = setup.pick(2_000, 30_000, 30_000)
    with setup.database("attach") as dsn, connect(dsn, role="bench") as conn:
        make_topic(dsn, "outbox", partitions=8)
        create_chunks(conn)
        conn.execute(baseline("attach"))
        conn.execute(query("attach_fill"), {"rows": rows})
        conn.execute(query("vacuum"))
        results = alternate(
            setup.pick(1, 2, 2),
            {
                AT_ONCE: partial(_at_once, dsn, conn, rows),
                "ours": partial(_attach, dsn, conn, rows),
            },
        )
        figures = drained_figures(
            "rows that are there, copied and given offsets",
            results["ours"],
            results[AT_ONCE],
            AT_ONCE,
        )
        _clear(conn)
        attach_table(conn, WISH)
        for size in SIZES:
            statements = max(min(rows // size, setup.pick(20, 300, 600)), 1)
            took = alternate(
                setup.pick(1, 2, 2),
                {
                    name: partial(insert_us, conn, insert, size, statements)
                    for name, insert in INSERTS.items()
                },
            )
            figures.append(
                Figure(
                    what=f"insert of {size} row{'s' if size > 1 else ''}, a transaction each",
                    unit="µs/row",
                    ours=took["ours"],
                    baseline=took[NOTHING],
                    against=NOTHING,
                )
            )
    return figures


def _attach(dsn: str, conn: Connection[Any], rows: int) -> Drained:
    """Attach the table: copy its rows in steps, and make the trigger."""
    _clear(conn)
    began_s, meter = perf_counter(), Meter(dsn)
    done = attach_table(conn, WISH)
    took_s = perf_counter() - began_s
    assert done.copied == rows
    return Drained(rows / took_s, meter.of(rows))


def _at_once(dsn: str, conn: Connection[Any], rows: int) -> Drained:
    """Copy all rows in one transaction, as a migration by hand does without writers."""
    _clear(conn)
    began_s, meter = perf_counter(), Meter(dsn)
    conn.execute(query("attach_at_once"))
    sequence_all(dsn)
    return Drained(rows / (perf_counter() - began_s), meter.of(rows))


def _clear(conn: Connection[Any]) -> None:
    detach_table(conn, TABLE)
    conn.execute(query("capture_clear"))
    create_chunks(conn)
