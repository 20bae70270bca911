"""Read events by their ids, in offset order, and prove that none is missing (I3)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format, TransactionStatus
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from gapless.db.wire import ADAPTERS, Form, fetch_all
from gapless.errors import HoleError
from gapless.log.event import Row

_ID = itemgetter(0)
_XID8_OID = 5069  # pg_type.dat; psycopg does not know its name


class _JsonbText(Loader):
    """The binary form of jsonb is a version byte, then the text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data[1:])


def _undecoded() -> Form:
    """Return the form in which a Row is read in binary (log.event): json and jsonb as their text.

    A handler that reads one field should not pay for all; and these loaders are written in C.
    """
    adapters = AdaptersMap(ADAPTERS)
    adapters.register_loader("json", ByteaBinaryLoader)
    adapters.register_loader("jsonb", _JsonbText)
    adapters.register_loader("timestamptz", Int8BinaryLoader)
    adapters.register_loader(_XID8_OID, Int8BinaryLoader)
    return Form(adapters, Format.BINARY)


ROWS = _undecoded()
"""The form of answers whose columns are, or end with, those of a Row."""


def fetch(conn: Connection, ids: Sequence[int]) -> list[Row]:
    """Return the rows of `ids`, in that order.

    Events that retention dropped are read from beside the log, if a group still has to get them.
    Raises HoleError when one is missing: the log says it exists, so it was deleted;
    SerializationFailure when it was replaced there in between: try again.
    Bound: all rows are in memory at once; the caller slices.
    """
    low, high = min(ids), max(ids)
    params = {"low": low, "high": high, "ids": as_array(ids)}
    name = "fetch"
    if conn.info.transaction_status == TransactionStatus.INTRANS:  # a long transaction, perhaps
        bounds = {"ids": as_array((low, high))}  # the answer holds for all ids between them
        ((is_in_default,),) = fetch_all(conn, "log", "is_in_default", bounds)
        name = "fetch_apart" if is_in_default else name
    found = fetch_all(conn, "log", name, params, form=ROWS)
    if len(found) < len(ids):
        known = set(map(_ID, found))
        gone = [each for each in ids if each not in known]
        found += fetch_all(conn, "log", "fetch_beside", {"ids": as_array(gone)}, form=ROWS)
    return in_order(found, ids)


def in_order(found: list[Row], ids: Sequence[int]) -> list[Row]:
    """Return the found rows in the order of `ids`. Raises HoleError if one is missing."""
    if list(map(_ID, found)) == ids:
        return found  # nearly always: an index look-up yields ascending ids, and so does a run
    rows = {row[0]: row for row in found}
    try:
        return [rows[message_id] for message_id in ids]
    except KeyError as missing:
        raise HoleError(
            f"{len(ids) - len(rows)} of {len(ids)} events are missing from outbox_message_t, "
            f"the first has id {missing}: restore them, then the partition continues",
            missing_id=missing.args[0],
        ) from None


def as_array(ids: Sequence[int]) -> str:
    """Return an array as the server reads it; psycopg takes five times as long for each id."""
    return f"{{{repr(list(ids))[1:-1]}}}"
