"""request() and reply() of Python: what is stored, what is refused, and the outcome of each answer of the database."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, Connection

from gapless import ops
from gapless.db.connect import connect
from gapless.errors import InvalidPayloadError, PublishError, ReplyError, UsageError
from gapless.features.messages.request import reply, request, request_error
from gapless.log import known
from gapless.log.event import Event
from gapless.log.script import Trouble
from gapless.log.wait import require_covered

ID = UUID("12345678-1234-5678-1234-567812345678")
FIELDS = {
    "key": "k", "event_type": "t", "headers": {"h": 1}, "host_id": "H", "user_id": "u", "to_group": "mail",
}  # fmt: skip
LOGGED = "select payload, key, event_type, headers, host_id, user_id, transaction_id from gapless.outbox_message_t order by id"


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="test") as conn:
        for name in ("orders", "other"):
            conn.execute(
                "select gapless.create_topic(%s, 1), gapless.create_group('mail', %s)", [name, name]
            )
        conn.execute("select gapless.create_group('solo', 'other'), gapless.set_direct('orders')")
        yield conn


@pytest.fixture
def conn(shared: Connection[Any]) -> Iterator[Connection[Any]]:
    yield shared
    shared.execute("delete from gapless.outbox_message_t")


def value(conn: Connection[Any], statement: str, *params: object) -> Any:
    row = conn.execute(statement.encode(), params).fetchone()
    return None if row is None else row[0]


@pytest.mark.parametrize("timeout_s", [0, -1, 86_400.001, float("nan"), float("inf"), True, False])
def test_a_time_that_is_none(conn: Connection[Any], timeout_s: float) -> None:
    with pytest.raises(
        UsageError, match=f"^timeout_s={timeout_s!r}: above 0, at most 86400 seconds$"
    ):
        request(conn, "orders", 1, timeout_s)


def test_what_it_does_not_know(conn: Connection[Any]) -> None:
    with pytest.raises(PublishError) as caught:
        request(conn, "orders", 1, key="k", zone="z", dedupe_key="d", transaction_id=ID)
    assert str(caught.value) == (
        "request() does not know dedupe_key, transaction_id, zone; it takes key, event_type, headers, host_id, user_id,"
        " to_group, to_subscription"
    )
    for more in ({"to_group": ""}, {"to_subscription": "s"}, {"key": 5}):
        with pytest.raises(PublishError, match=r"to_group|to_subscription|key"):
            request(conn, "orders", 1, **more)
    assert conn.execute(LOGGED).fetchall() == []


def test_it_needs_a_connection_that_commits(conn: Connection[Any], module_dsn: str) -> None:
    in_transaction = "^request.. needs a connection in autocommit, outside a transaction: no handler gets an uncommitted event$"
    with pytest.raises(UsageError, match=r"^request\(\) needs a connection of psycopg, not str$"):
        request("dsn", "orders", 1)  # type: ignore[call-overload]
    with conn.transaction(force_rollback=True), pytest.raises(UsageError, match=in_transaction):
        request(conn, "orders", 1)
    with psycopg.connect(module_dsn) as other, pytest.raises(UsageError, match=in_transaction):
        request(other, "orders", 1)


def test_what_it_stores(conn: Connection[Any]) -> None:
    """All that was said, and who waits until when; that is found by the id alone."""
    with pytest.raises(ReplyError) as caught:
        request(conn, "orders", {"n": 1}, 0.001, **FIELDS)
    (row,) = conn.execute(LOGGED).fetchall()
    assert str(row[-1]) in str(caught.value)
    headers = row[3]
    assert headers.pop("gapless-request") == str(row[-1])
    assert conn.execute(
        "select %s::timestamptz <= clock_timestamp()", [headers.pop("gapless-deadline")]
    ).fetchone() == (True,)
    assert row[:-1] == ({"n": 1}, "k", "t", {"h": 1, "gapless-to-group": "mail"}, "H", "u")


def event(headers: object, topic: str = "orders") -> Event[Any]:
    text = None if headers is None else json.dumps(headers).encode()
    return Event(topic, 0, 1, (1, None, None, b"1", text, None, None, None, 7, 0, None, None))


@pytest.mark.parametrize(("delay_s", "is_published"), [(60, True), (-1, False), (None, True)])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_reply_is_published_in_time(
    conn: Connection[Any],
    module_dsn: str,
    delay_s: float | None,
    is_published: bool,
    is_async: bool,
) -> None:
    headers = {"gapless-request": str(ID)}
    if delay_s is not None:
        headers["gapless-deadline"] = value(
            conn, "select (clock_timestamp() + make_interval(secs => %s))::text", delay_s
        )

    async def run() -> bool:
        async with await AsyncConnection.connect(module_dsn, autocommit=True) as own:
            return await reply(own, event(headers), {"a": 2})

    assert (
        asyncio.run(run()) if is_async else reply(conn, event(headers), {"a": 2})
    ) is is_published
    rows = conn.execute(LOGGED).fetchall()
    assert [row[:4] for row in rows] == [
        ({"a": 2}, str(ID), None, {"gapless-to-group": "", "gapless-reply-to": str(ID)})
    ] * is_published
    found = conn.execute(
        "select payload from gapless.wait_reply('orders', %s, '0')", [ID]
    ).fetchall()
    assert found == [({"a": 2},)] * is_published
    assert (
        conn.execute("select payload from gapless.wait_reply('other', %s, '0')", [ID]).fetchall()
        == []
    )


@pytest.mark.parametrize(
    "headers", [None, {}, {"gapless-request": "x"}, {"gapless-reply-to": str(ID)}]
)
def test_what_is_no_request_has_no_reply(conn: Connection[Any], headers: object) -> None:
    with pytest.raises(
        PublishError, match=r"^this event is no request: no program waits for a reply$"
    ):
        reply(conn, event(headers), 1)
    with pytest.raises(PublishError, match=r"^payload is not JSON: "):
        reply(conn, event({"gapless-request": str(ID)}), object())
    with pytest.raises(PublishError, match=r'^topic "order" does not exist'):
        reply(conn, event({"gapless-request": str(ID)}, "order"), 1)
    assert conn.execute(LOGGED).fetchall() == []


@pytest.mark.parametrize(
    ("state", "is_ours"),
    [("GL400", True), ("GL404", True), ("GL409", True), ("22023", True), ("22P02", True), ("GL422", False),
     ("40001", False), ("57014", False), ("23505", False), ("", False)],
)  # fmt: skip
def test_what_the_database_says_of_it(state: str, is_ours: bool) -> None:
    error = psycopg.OperationalError("the driver's")
    found = request_error(Trouble(error, state, "said", "more"))
    if is_ours:
        assert (type(found), str(found)) == (PublishError, "said")
    else:
        assert found is error


def test_a_payload_that_does_not_fit_is_not_asked(
    conn: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "LOOK_S", 0.0)
    ops.add_schema(conn, "orders", '{"type": "integer"}', event_type="t")
    try:
        with pytest.raises(InvalidPayloadError):
            request(conn, "orders", "x", event_type="t")
        assert conn.execute(LOGGED).fetchall() == []
        with pytest.raises(ReplyError):
            request(conn, "orders", "x", 0.001, event_type="other")
        assert len(conn.execute(LOGGED).fetchall()) == 1
    finally:
        conn.execute(
            "delete from gapless.topic_schema; update gapless.topic set schemas_no = schemas_no + 1"
        )


@pytest.mark.parametrize(
    ("group", "topic", "why"),
    [
        ("mail", "orders", None), ("mail", "other", None), ("solo", "other", None),
        ("solo", "orders", "group solo does not handle topic orders: nothing to wait for"),
        ("nobody", "orders", 'there is no group "nobody": gapless groups lists them'),
    ],
)  # fmt: skip
def test_who_can_be_waited_for(
    conn: Connection[Any], group: str, topic: str, why: str | None
) -> None:
    if why is None:
        require_covered(conn, group, topic)
    else:
        with pytest.raises(UsageError) as caught:
            require_covered(conn, group, topic)
        assert str(caught.value) == why
