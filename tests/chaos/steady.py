"""An even load for the figures: `python -m chaos.steady DSN PARTITIONS`; survives restarts.

Every EVERY_S one transaction with one event for each partition, so that whatever stands still is
seen at once. Ends by SIGTERM, as any program does.
"""

import sys
import time
from contextlib import suppress

import psycopg
from psycopg import Connection

EVERY_S = 0.02
RETRY_S = 0.01
_PUBLISH = "select gapless.publish('orders', '{}'::json, k) from unnest(%s::text[]) k"


def main(dsn: str, partitions: int) -> None:
    keys: list[str] = []
    while True:
        with suppress(psycopg.Error), connect(dsn) as conn:
            keys = keys or _keys(conn, partitions)
            while True:
                conn.execute(_PUBLISH, [keys])
                time.sleep(EVERY_S)
        time.sleep(RETRY_S)


def connect(dsn: str) -> Connection:
    return psycopg.connect(dsn, autocommit=True, application_name="chaos/steady", connect_timeout=2)


def _keys(conn: Connection, partitions: int) -> list[str]:
    """Return a key for each partition."""
    rows = conn.execute(
        "select min('k' || n) from generate_series(1, 100 * %(p)s) n"
        " group by gapless.partition_of('k' || n, %(p)s)",
        {"p": partitions},
    ).fetchall()
    assert len(rows) == partitions
    return [row[0] for row in rows]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
