"""publish_request() of Python: the events of a request are stored once, and all of them."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from gapless import NewEvent, Published, PublishError, ops
from gapless.db.connect import connect
from gapless.errors import InvalidPayloadError, RefusedError
from gapless.log import known
from gapless.log.publish_request import publish_request

LOGGED = (
    "select payload::text, key, event_type, headers, host_id, user_id"
    " from gapless.outbox_message_t order by id"
)
OWN = "select distinct gapless.transaction_uuid(xid) from gapless.outbox_message_t"
DIGEST = b"\x00what was asked"
ID = UUID(int=5)


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="test") as conn:
        for name in ("orders", "other"):
            conn.execute("select gapless.create_topic(%s, 1)", [name])
        yield conn


@pytest.fixture
def conn(shared: Connection[Any]) -> Iterator[Connection[Any]]:
    """Nothing is published yet; rows of the caller's are of another kind."""
    with shared.transaction(force_rollback=True):
        yield shared


def events(count: int, **last: Any) -> list[NewEvent]:
    made = [
        NewEvent(
            payload={"n": n}, key=f"k{n}", event_type=f"t{n}", headers={"h": n}, host_id=f"h{n}",
            user_id=f"u{n}",
        )
        for n in range(count - 1)
    ]  # fmt: skip
    return [*made, NewEvent(payload={"n": count - 1}, **last)]


def rows(conn: Connection[Any]) -> list[Any]:
    return conn.execute(LOGGED).fetchall()


@pytest.mark.parametrize("count", [1, 5, 450])
def test_a_request_is_stored_once(conn: Connection[Any], count: int) -> None:
    """Who repeats it is told so, and the transaction of the first time."""
    first = publish_request(conn, "orders", events(count), key="a", digest=DIGEST)
    stored = [
        (f'{{"n":{n}}}', f"k{n}", f"t{n}", {"h": n}, f"h{n}", f"u{n}") for n in range(count - 1)
    ] + [(f'{{"n":{count - 1}}}', None, None, None, None, None)]
    assert rows(conn) == stored
    ((own,),) = conn.execute(OWN).fetchall()
    assert type(first) is Published
    assert (str(first), first.duplicate, first.duplicates) == (str(own), False, 0)
    assert first.scheduled_ids == ()
    again = publish_request(conn, "orders", events(count), key="a", digest=DIGEST)
    assert (again, again.duplicate, again.duplicates) == (first, True, count)
    assert again.scheduled_ids == ()
    assert rows(conn) == stored
    for topic, key in (("orders", "b"), ("other", "a")):
        new = publish_request(conn, topic, events(count), key=key, digest=b"")
        assert (new.duplicate, new.duplicates) == (False, 0)
    assert rows(conn) == stored * 3


def test_another_request_with_its_key_is_refused(conn: Connection[Any]) -> None:
    publish_request(conn, "orders", events(1), key="a", digest=DIGEST)
    with pytest.raises(RefusedError) as caught, conn.transaction():
        publish_request(conn, "orders", events(1), key="a", digest=b"other")
    assert caught.value.sqlstate == "GL422"
    assert len(rows(conn)) == 1


NOT_THEIR_OWN = "a request has one key, and its events no dedupe_key or transaction_id"


@pytest.mark.parametrize("count", [1, 450])
@pytest.mark.parametrize(
    ("last", "key", "why"),
    [
        ({"dedupe_key": "d"}, "a", f"^{NOT_THEIR_OWN}$"),
        ({"transaction_id": ID}, "a", f"^{NOT_THEIR_OWN}$"),
        ({"dedupe_key": "d", "transaction_id": ID}, "a", f"^{NOT_THEIR_OWN}$"),
        ({}, None, f"^{NOT_THEIR_OWN}$"),
        ({}, "", "^dedupe_key must have 1 to 500 characters, not 0$"),
        ({"key": 5}, "a", "^key must be text, not int$"),
        ({"key": "\ud800"}, "a", "^text that is not valid Unicode cannot be stored: "),
        ({"to_subscription": "s"}, "a", "^to_subscription 's' is of no group"),
        ({"headers": b"[1"}, "a", r"^headers are a JSON object, not \[1$"),
    ],
)
def test_what_cannot_be_stored_is_said(
    conn: Connection[Any], count: int, last: dict[str, Any], key: Any, why: str
) -> None:
    """And none of the request is."""
    with pytest.raises(PublishError, match=why), conn.transaction():
        publish_request(conn, "orders", events(count, **last), key=key, digest=DIGEST)
    assert rows(conn) == []
    assert conn.execute("select count(*) from gapless.dedupe").fetchone() == (0,)


def test_a_payload_that_does_not_fit(
    conn: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said which of them; the others are not stored."""
    monkeypatch.setattr(known, "LOOK_S", 0.0)
    ops.add_schema(conn, "orders", '{"type": "object"}', event_type="t")
    wrong = [NewEvent(payload={}, event_type="t"), NewEvent(payload=7, event_type="t")]
    with pytest.raises(InvalidPayloadError, match=r"^event 2 of many: "):
        publish_request(conn, "orders", wrong, key="a", digest=DIGEST)
    assert rows(conn) == []
    told = publish_request(conn, "orders", wrong[:1], key="a", digest=DIGEST)
    assert (told.duplicate, [row[0] for row in rows(conn)]) == (False, ["{}"])
