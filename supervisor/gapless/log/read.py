"""Read events by their ids, in offset order, and prove that none is missing (I3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection, Cursor
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from gapless.db.prepared import fetch_all
from gapless.db.queries import query
from gapless.errors import HoleError
from gapless.log.event import Row

_XID8_OID = 5069  # pg_type.dat; psycopg does not know its name


class _JsonbText(Loader):
    """The binary form of jsonb is a version byte, then the text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data[1:])


def read_undecoded(cursor: Cursor[Any]) -> None:
    """Let a binary cursor return a Row as log.event describes it: json and jsonb as their text.

    A handler that looks at one field should not pay for all; and these loaders are written in C.
    """
    cursor.adapters.register_loader("json", ByteaBinaryLoader)
    cursor.adapters.register_loader("jsonb", _JsonbText)
    cursor.adapters.register_loader("timestamptz", Int8BinaryLoader)
    cursor.adapters.register_loader(_XID8_OID, Int8BinaryLoader)


def fetch(conn: Connection, ids: Sequence[int]) -> list[Row]:
    """Return the rows of `ids`, in that order.

    Raises HoleError when one is missing: the log says it exists, so somebody deleted it.
    Bound: all rows are in memory at once; the caller slices.
    """
    # Not conn.cursor(): a handler may have given its connection another row or cursor factory.
    with Cursor(conn, row_factory=tuple_row) as cursor:
        cursor.format = Format.BINARY
        read_undecoded(cursor)
        params = {"low": min(ids), "high": max(ids), "ids": _as_array(ids)}
        found: list[Row] = fetch_all(cursor, query("log", "fetch"), params)
    if [row[0] for row in found] == ids:
        return found  # nearly always: an index look-up yields ascending ids, and so does a run
    rows = {row[0]: row for row in found}
    try:
        return [rows[message_id] for message_id in ids]
    except KeyError as missing:
        raise HoleError(
            f"{len(ids) - len(rows)} of {len(ids)} events are missing from outbox_message_t, "
            f"the first has id {missing}: restore them, then the partition goes on"
        ) from None


def _as_array(ids: Sequence[int]) -> str:
    """Return an array as the server reads it; psycopg takes five times as long for each id."""
    return f"{{{','.join(map(str, ids))}}}"
