"""Captured tables: the cost of writing them, beside no trigger and a trigger for each row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from psycopg import Connection

from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import make_topic
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from gapless.db.connect import connect
from gapless.features.capture.ops import capture_table
from gapless.log.sequence import create_chunks

NOTHING = "no trigger"
ROWWISE = "a trigger for each row"
INSERTS = {
    NOTHING: "capture_insert_untriggered",
    ROWWISE: "capture_insert_rowwise",
    "ours": "capture_insert_captured",
}
SIZES = (1, 100, 10_000)


def run(setup: Setup) -> list[Figure]:
    """Insert rows in statements of three sizes, each statement a transaction."""
    rows = setup.pick(1_000, 20_000, 20_000)
    figures = []
    with setup.database("capture") as dsn, connect(dsn, role="bench") as conn:
        make_topic(dsn, "outbox", partitions=8)
        create_chunks(conn)
        conn.execute(baseline("capture"))
        capture_table(conn, "public.captured", "outbox")
        for size in SIZES:
            statements = max(min(rows // size, setup.pick(20, 300, 600)), 1)
            runs: dict[str, Callable[[], float]] = {
                name: partial(insert_us, conn, insert, size, statements)
                for name, insert in INSERTS.items()
            }
            took = alternate(setup.pick(1, 2, 2), runs)
            what = f"insert of {size} row{'s' if size > 1 else ''}, a transaction each"
            figures += [
                Figure(what=what, unit="µs/row", ours=took["ours"], baseline=took[rival],
                       against=rival, target=target)
                for rival, target in (
                    (NOTHING, None),
                    (ROWWISE, Target("ratio", at_most=1) if size > 1 else None),
                )
            ]  # fmt: skip
    return figures


def insert_us(conn: Connection[Any], name: str, size: int, statements: int) -> float:
    """Return the time for one row, from the statement to the end of its COMMIT."""
    insert = query(name)
    conn.execute(query("capture_clear"))
    conn.execute(insert, {"rows": size})  # now the statement is prepared and cached
    began_s = perf_counter()
    for _ in range(statements):
        conn.execute(insert, {"rows": size})
    return (perf_counter() - began_s) * 1e6 / (size * statements)
