"""fetch(): rows in the order of the ids asked for, from wherever they are kept, and no fewer.

Events 1 to 9 of a topic; what is dropped of them is in latest, or nowhere. All is taken back.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.wire import fetch_all
from gapless.errors import HoleError
from gapless.log.event import COLUMNS, Event, NewEvent
from gapless.log.publish import publish
from gapless.log.read import ROWS, fetch
from gapless.log.topics import ensure_topic

KEEP = (
    "insert into gapless.latest (topic_id, key_digest, partition_id, c_offset, timeline, id, xid,"
    " key, event_type, payload, headers, created_ts)"
    " select topic_id, sha256(key::bytea), 0, id, 1, id, xid,"
    " key, event_type, payload, headers, created_ts"
    " from gapless.outbox_message_t where id = any (%s)"
)
DROP = "delete from gapless.outbox_message_t where id = any (%s)"
HEADERS: Any = b'{"h":[1,{"a":null}],"e":"\xc3\xa9"}'
STORED = b'{"e": "\xc3\xa9", "h": [1, {"a": null}]}'  # as jsonb writes it


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="test") as conn:
        ensure_topic(conn, "orders", partitions=1)
        for n in range(1, 10):
            event = NewEvent(payload=b'{ "n":%d}' % n, key=f"k{n}", event_type=f"t{n}")
            event.headers = HEADERS
            publish(conn, "orders", event)
        yield conn


@pytest.fixture
def log(shared: Connection[Any]) -> Iterator[Connection[Any]]:
    with shared.transaction(force_rollback=True):
        yield shared


@pytest.fixture
def ids(shared: Connection[Any]) -> list[int]:
    found = shared.execute("select id from gapless.outbox_message_t order by 1").fetchall()
    return [row[0] for row in found]


def numbers(rows: Sequence[Any]) -> list[bytes]:
    return [row[3] for row in rows]


ORDERS = [(0, 1, 2), (2, 0, 1), (8, 0), (4,), (3, 3), tuple(range(9))]


@pytest.mark.parametrize("wanted", ORDERS)
@pytest.mark.parametrize("latest", [(), (0,), (2, 4), tuple(range(9))])
def test_they_are_in_the_order_asked_for(
    log: Connection[Any], ids: list[int], wanted: tuple[int, ...], latest: tuple[int, ...]
) -> None:
    """Whether the log has them, or only latest."""
    kept = [ids[n] for n in latest]
    log.execute(KEEP, [kept])
    log.execute(DROP, [kept])
    found = fetch(log, [ids[n] for n in wanted])
    assert [row[0] for row in found] == [ids[n] for n in wanted]
    assert numbers(found) == [b'{ "n":%d}' % (n + 1) for n in wanted]


def test_a_row_has_its_columns_as_they_came(log: Connection[Any], ids: list[int]) -> None:
    """JSON as its text, and a moment as a number; so it is of those that latest has."""
    (row,) = fetch(log, ids[3:4])
    said = (
        "select xid::text::bigint, created_ts, gapless.transaction_uuid(xid)"
        " from gapless.outbox_message_t where id = %s"
    )
    ((xid, created_ts, transaction_id),) = log.execute(said, ids[3:4]).fetchall()
    assert row[:5] == (ids[3], "k4", "t4", b'{ "n":4}', STORED)
    assert dict(zip(COLUMNS, row, strict=True))["xid"] == xid
    event = Event[Any]("orders", 0, 4, row)
    assert (event.created_ts, event.transaction_id) == (created_ts, transaction_id)
    assert (event.payload, event.headers) == ({"n": 4}, {"h": [1, {"a": None}], "e": "é"})
    log.execute(KEEP, [ids[3:4]])
    log.execute(DROP, [ids[3:4]])
    assert fetch(log, ids[3:4]) == [row]


@pytest.mark.parametrize("gone", [(0,), (3, 5), tuple(range(9))])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_hole_is_refused(
    log: Connection[Any], ids: list[int], gone: tuple[int, ...], backwards: bool
) -> None:
    """With how many are missing, of how many, and the first of them in the order asked for."""
    log.execute(DROP, [[ids[n] for n in gone]])
    wanted = ids[::-1] if backwards else ids
    first = next(each for each in wanted if each in {ids[n] for n in gone})
    with pytest.raises(HoleError) as caught:
        fetch(log, wanted)
    assert str(caught.value) == (
        f"{len(gone)} of 9 events are missing from outbox_message_t, the first has id {first}:"
        " restore them, then the partition continues"
    )
    assert caught.value.missing_id == first
    there = [each for n, each in enumerate(ids) if n not in gone]
    if there:
        assert [row[0] for row in fetch(log, there)] == there


def test_what_was_replaced_is_to_be_tried_again(log: Connection[Any], ids: list[int]) -> None:
    """Retention has dropped it, and latest has a newer event of its key."""
    log.execute(DROP, [ids[2:3]])
    log.execute("update gapless.retention_state set dropped_upto = %s", [ids[2] + 1])
    with pytest.raises(psycopg.errors.SerializationFailure), log.transaction():
        fetch(log, ids)
    assert [row[0] for row in fetch(log, ids[3:])] == ids[3:]


def test_what_nobody_has_named_is_not_read(log: Connection[Any], ids: list[int]) -> None:
    params = {"low": ids[2], "high": ids[4], "ids": f"{{{ids[1]},{ids[2]},{ids[4]},{ids[5]}}}"}
    found = fetch_all(log, "log", "fetch", params, form=ROWS)
    assert sorted(row[0] for row in found) == [ids[2], ids[4]]
