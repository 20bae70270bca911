"""Requests and their replies: what is asked of whom and until when, and which reply is the one, among others."""

import time
from collections.abc import Iterator
from hashlib import md5
from threading import Thread
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from features.messages.twins.direct import BAD, GOOD, params
from gapless.db.connect import connect
from support.stored import call, own_id
from support.twins import Twins

REQUEST_ID = "12345678-1234-5678-1234-567812345678"
OTHER_ID = "12345678-1234-5678-1234-567812345679"
REQUEST = (
    "select gapless.request(%(topic)s, '7', %(timeout)s, to_group => %(group)s, key => 'K', event_type => 'T',"
    " headers => %(headers)s, host_id => 'H', user_id => 'U', to_subscription => %(subscription)s)::text"
)
# As an interval; in seconds, none: it is refused.
TIMEOUTS: list[tuple[str | None, float | None]] = [
    ("5 s", 5), ("1 us", 0.000001), ("1 day", 86400), ("86400 s", 86400), ("0", None), ("-1 s", None), (None, None),
    ("1 day 1 us", None), ("86401 s", None), ("1 month", None),
]  # fmt: skip


@pytest.mark.parametrize(("timeout", "seconds"), TIMEOUTS)
def test_how_long_a_request_is_waited_for(
    direct: Twins, timeout: str | None, seconds: float | None
) -> None:
    asked = params("orders", None, None, None) | {"timeout": timeout}
    if seconds is None:
        said = "null" if timeout is None else direct.value("select %s::interval::text", timeout)
        why = f"the timeout of a request is above 0 s, at most 1 day, not {said}"
        assert direct.refused(REQUEST, asked) == ("GL400", why)
        return
    began = direct.value("select clock_timestamp()")
    stored = call(direct, REQUEST, asked)
    ended = direct.value("select clock_timestamp()")
    headers = stored.events[0][4]
    deadline = direct.value("select %s::timestamptz", headers["gapless-deadline"])
    assert (
        began.timestamp() + seconds - 0.01
        <= deadline.timestamp()
        <= ended.timestamp() + seconds + 0.01
    )


@pytest.mark.parametrize(("headers", "group", "subscription", "expected"), [(None, None, None, {}), ('{"a": 1}', None, None, {"a": 1}), *GOOD])  # fmt: skip
def test_a_request_is_an_event_with_an_id(
    direct: Twins, headers: str | None, group: str | None, subscription: str | None, expected: Any
) -> None:
    asked = params("orders", headers, group, subscription) | {"timeout": "9 s"}
    stored = [call(direct, REQUEST, asked) for _ in range(2)]
    assert stored[0].returned != stored[1].returned
    for each in stored:
        ((request_id,),) = each.returned
        (row,) = each.events
        assert row[4].pop("gapless-request") == request_id
        assert row[4].pop("gapless-deadline")
        assert row == ("orders", "K", "T", "7", expected, "H", "U", request_id, None, None)
        assert UUID(request_id).version == 4


@pytest.mark.parametrize("bad", BAD)
def test_a_request_that_nobody_would_get_is_refused(direct: Twins, bad: Any) -> None:
    topic, headers, group, subscription, state, why = bad
    asked = params(topic, headers, group, subscription) | {"timeout": "9 s"}
    if topic == "other":
        state, why = "GL409", (
            'topic "other" takes no direct messages, and a reply is one: gapless topics alter other --direct'
        )  # fmt: skip
    if headers and topic == "orders":  # merged with those of a request
        assert direct.refused(REQUEST, asked)[0] == state
        return
    assert direct.refused(REQUEST, asked) == (state, why)
    assert (
        direct.refused(REQUEST, params("other", None, None, None) | {"timeout": "9 s"})[0]
        == "GL409"
    )


def reply_id(request_id: str) -> str:
    return str(UUID(md5(f"gapless reply to {request_id}".encode()).hexdigest()))


NO_REQUEST = ("GL400", "this event is no request: no program waits for a reply")
SOON = "(clock_timestamp() + interval '100 s')::text"
GONE = "(clock_timestamp() - interval '1 s')::text"
# Headers of what is replied to, as SQL; whether it is published, none: it is refused.
REPLIES: dict[str, tuple[str, bool | None]] = {
    "in time": (f"jsonb_build_object('gapless-request', '{REQUEST_ID}', 'gapless-deadline', {SOON})", True),
    "in upper case": (f"jsonb_build_object('gapless-request', '{REQUEST_ID.upper()}', 'gapless-deadline', {SOON})", True),
    "too late": (f"jsonb_build_object('gapless-request', '{REQUEST_ID}', 'gapless-deadline', {GONE})", False),
    "no deadline": (f"jsonb_build_object('gapless-request', '{REQUEST_ID}')", True),
    "no such time": (f"jsonb_build_object('gapless-request', '{REQUEST_ID}', 'gapless-deadline', 'soon')", None),
    "no such id": (f"jsonb_build_object('gapless-request', 'x', 'gapless-deadline', {SOON})", None),
    "no id": (f"jsonb_build_object('gapless-deadline', {SOON})", None),
    "other headers": ("'{\"a\": 1}'", None), "no object": ("'[]'", None), "no headers": ("null", None),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_an_event_for_nobody(direct: Twins, name: str) -> None:
    headers, is_published = REPLIES[name]
    statement = f"select gapless.reply('orders', {headers}, '8')"
    if is_published is None:
        assert direct.refused(statement) == NO_REQUEST
        return
    stored = call(direct, statement)
    assert stored.returned == [(is_published,)]
    to_nobody = {"gapless-to-group": "", "gapless-reply-to": REQUEST_ID}
    row = ("orders", REQUEST_ID, None, "8", to_nobody, None, None, reply_id(REQUEST_ID), None, None)
    assert stored.events == [row] * is_published
    assert direct.value("select gapless.reply_uuid(%s)::text", REQUEST_ID) == reply_id(REQUEST_ID)


WAIT = "select payload::text, headers, created_ts from gapless.wait_reply('orders', %s, %s)"
PUT = (
    "insert into gapless.outbox_message_t (topic_id, payload, headers, transaction_id)"
    " values (gapless.topic_id(%s), %s, '{\"h\": 1}', %s)"
)


@pytest.mark.parametrize("timeout", ["0", "50 ms"])
def test_the_first_reply_is_the_one(direct: Twins, timeout: str) -> None:
    """Not one to another request, nor what another topic has of that name, nor the request itself."""
    for topic, payload, of in (
        ("other", "1", reply_id(REQUEST_ID)), ("orders", "2", reply_id(OTHER_ID)), ("orders", "3", REQUEST_ID),
        ("orders", "4", None),
    ):  # fmt: skip
        direct.conn.execute(PUT, [topic, payload, of])
    began_s = time.monotonic()
    assert direct.conn.execute(WAIT, [REQUEST_ID, timeout]).fetchall() == []
    waited_s = time.monotonic() - began_s
    assert (waited_s >= 0.05) or timeout == "0"
    for payload in ("5", "6"):
        direct.conn.execute(PUT, ["orders", payload, reply_id(REQUEST_ID)])
    rows = direct.conn.execute(WAIT, [REQUEST_ID, timeout]).fetchall()
    created = direct.value(
        "select created_ts from gapless.outbox_message_t where payload::text = '5'"
    )
    assert rows == [("5", {"h": 1}, created)]


@pytest.mark.parametrize("timeout", ["-1 s", None, "367 days"])
def test_nobody_waits_for_a_reply_without_an_end(direct: Twins, timeout: str | None) -> None:
    assert direct.refused(WAIT, [REQUEST_ID, timeout])[0] == "GL400"


@pytest.fixture(scope="module")
def waiter(module_dsn: str, shared: Twins) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="waiter") as conn:
        conn.execute("set statement_timeout = '6s'")
        yield conn


def test_a_reply_is_seen_soon_after_it_is_committed(shared: Twins, waiter: Connection[Any]) -> None:
    """Long before the time is over."""
    got: list[Any] = []
    took_s: list[float] = []

    def wait() -> None:
        got.extend(waiter.execute(WAIT, [REQUEST_ID, "4 s"]).fetchall())
        took_s.append(time.monotonic() - committed_s)

    committed_s = time.monotonic()
    thread = Thread(target=wait)
    thread.start()
    waits = "select count(*) = 1 from pg_stat_activity where pid = %s and wait_event = 'PgSleep'"
    try:
        while not shared.value(waits, waiter.info.backend_pid):
            assert thread.is_alive()
        committed_s = time.monotonic()
        shared.conn.execute(PUT, ["orders", "5", reply_id(REQUEST_ID)])
    finally:
        thread.join()
        shared.conn.execute(
            "delete from gapless.outbox_message_t where transaction_id = %s", [reply_id(REQUEST_ID)]
        )
    assert [row[0] for row in got] == ["5"]
    assert took_s[0] < 2


def test_nobody_waits_for_a_reply_in_a_snapshot(waiter: Connection[Any]) -> None:
    with pytest.raises(psycopg.Error, match=r"wait_reply\(\) needs READ COMMITTED"):
        with waiter.transaction(force_rollback=True):
            waiter.execute("set transaction isolation level repeatable read")
            waiter.execute(WAIT, [REQUEST_ID, "0"])


@pytest.mark.parametrize("headers", ["[1]", "7", "null"])
def test_a_request_s_headers_are_an_object(direct: Twins, headers: str) -> None:
    """Into others its id cannot be written: nobody could reply."""
    statement = f"select gapless.request('orders', '1', headers => '{headers}')"
    said = f"headers are a JSON object, not {headers}"
    assert direct.refused(statement) == ("22023", said)


def test_what_a_request_is_by_itself(direct: Twins) -> None:
    """Half a minute for whoever handles it; the reply to it is found from its id alone."""
    stored = call(direct, "select gapless.request('orders', '7')::text")
    ((request_id,),) = stored.returned
    assert stored.events[0][7] == request_id != own_id(direct)
    left = direct.value("select extract(epoch from %s::timestamptz - clock_timestamp())::float8",
                        stored.events[0][4]["gapless-deadline"])  # fmt: skip
    assert 25 < left <= 30
