"""Attempts: each request is kept with its answer and its time; the newest of a webhook, for a day."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless import ops
from gapless.db.connect import connect
from gapless.errors import RefusedError, UsageError
from gapless.features.webhooks.fleet import Webhooks
from gapless.features.webhooks.ops import list_attempts, list_webhooks, remove_webhook, try_webhook
from gapless.features.webhooks.settings import WebhookSettings
from gapless.log.topics import Topic
from gapless.settings import Settings
from gapless.testing import drain
from support.endpoint import SECRET, Call, Reply, Server
from support.gateways import Open
from support.patience import patience
from support.shared_webhooks import LOCAL, add_shared, make_due, publish_each_alone

Work = Callable[..., None]
HOSTILE = b"\x1b[31mno\0\r\n<b>\xff" + b"x" * 5000
RECORD = """
select gapless.record_attempts(
  %s, array_agg(name), array_agg(extract(epoch from now() - age)::float8), array_agg(1.5::float8), array_agg(0),
  array_agg(n::bigint), array_agg('t'::text), array_agg(1), array_agg(case n %% 2 when 0 then 204 else 500 end),
  array_agg(repeat('x', 300)))
from (select u.name, n, %s::interval as age from unnest(%s::text[]) u (name), generate_series(1, %s) n) u
"""


@pytest.fixture
def work(dsn: str, conn: Connection, topic: Topic) -> Work:
    """Deliver as a supervisor's worker that ends when nothing is due."""

    def run(kept: int = 1000) -> None:
        own = WebhookSettings(webhook_allow=("127.0.0.0/8",), webhook_attempts=kept)
        settings = Settings(sections=(own,))
        for handler in Webhooks(settings, dsn).handlers(conn):
            drain(dsn, handler, settings=settings)

    return run


@pytest.fixture
def two(conn: Connection, server: Server, topic: Topic) -> Connection:
    """Two webhooks without events."""
    for name in ("a", "b"):
        add_shared(conn, server, name, shared=False)
    return conn


def record(conn: Connection, *names: str, number: int = 1, kept: int = 9, age: str = "0 s") -> None:
    conn.execute(RECORD, [kept, age, list(names), number])


def ids(conn: Connection, name: str = "a", **wanted: Any) -> list[int]:
    return [each.id for each in list_attempts(conn, name, **wanted)]


@pytest.mark.parametrize("shared", [False, True])
def test_each_request_is_kept_with_its_answer(
    conn: Connection, server: Server, work: Work, *, shared: bool
) -> None:
    """Refused with a hostile text, without a status, redirected, taken; nothing that was sent."""
    add_shared(conn, server, "a", shared=shared)
    answers = iter([Reply(500, sends=lambda: iter([HOSTILE])), Reply(99), Reply(302), Reply(204)])
    server.answer = lambda _: next(answers)
    publish_each_alone(
        conn, {"n": "my payload"}, key="my key", event_type="order.made", headers={"my": "header"}
    )
    for _ in range(4):
        work()
        make_due(conn)
    found = list_attempts(conn, "a")
    told = [(each.id, each.attempt, each.status) for each in found]
    assert told == [(4, 4, 204), (3, 3, 302), (2, 2, None), (1, 1, 500)]
    place = server.calls[0].json["partition"], 1, "order.made"
    assert {(each.partition, each.offset, each.event_type) for each in found} == {place}
    assert all(0 < each.took_ms < patience(10_000.0) for each in found)
    (now,) = conn.execute("select now()").fetchone() or ()
    assert timedelta() <= now - found[-1].at < timedelta(seconds=patience(60.0))
    assert found[0].at > found[-1].at
    taken, redirected, lost, refused = (each.answer for each in found)
    assert (taken, redirected) == (None, None)
    assert lost is not None
    assert "Invalid status code" in lost
    assert refused is not None
    assert refused.startswith(r"\x1b[31mno\x00 <b>�xxx")
    assert len(refused) == 200
    said = str(conn.execute("select a from gapless.webhook_attempt a").fetchall())
    assert not [word for word in ("my payload", "my key", "my", SECRET, "v1,") if word in said]
    assert [each.status for each in list_attempts(conn, "a", failed=True)] == [302, None, 500]


def test_a_probe_is_kept_and_a_test_is_not(conn: Connection, server: Server, work: Work) -> None:
    """A probe has no event."""
    add_shared(conn, server, "a")
    conn.execute("select gapless.stop_webhook('a', 'it failed', true)")
    conn.execute("update gapless.webhook_state set probe_ts = null")
    assert try_webhook(conn, "a", LOCAL).taken
    work()
    (found,) = list_attempts(conn, "a")
    assert (found.event_type, found.offset, found.attempt) == ("gapless.test", None, None)
    assert [call.json["type"] for call in server.calls] == ["gapless.test"] * 2
    assert list_webhooks(conn)[0].last_at is None, "it is not counted"


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("kept", "left"), [(0, []), (3, [6, 5, 4])])
def test_the_setting_bounds_them(
    conn: Connection, server: Server, work: Work, kept: int, left: list[int], *, shared: bool
) -> None:
    """Of each webhook; more than that are not even sent to the database."""
    for name in ("a", "b"):
        add_shared(conn, server, name, shared=shared)
    for _ in range(2):
        publish_each_alone(conn, *({"n": n} for n in range(4)))
        work(kept)
    assert len(server.calls) == 16
    assert [ids(conn, name) for name in ("a", "b")] == [left, left]


def test_those_of_one_are_bounded_beside_another(two: Connection) -> None:
    record(two, "b", number=9)
    record(two, "a", "b", number=4, kept=6)
    record(two, "a", number=3, kept=6)
    assert ids(two) == [7, 6, 5, 4, 3, 2]
    assert ids(two, "b") == [13, 12, 11, 10, 9, 8]
    assert ids(two, before=5, limit=2) == [4, 3]
    assert ids(two, failed=True) == [7, 5, 3]
    assert {len(str(each.answer)) for each in list_attempts(two, "a")} == {200}
    record(two, "a", number=30, kept=30)
    record(two, "a", number=3, kept=3)
    assert ids(two) == [40, 39, 38]
    assert ids(two, "b") == [13, 12, 11, 10, 9, 8]


def test_they_are_kept_for_a_day(dsn: str, two: Connection) -> None:
    """Older ones are not shown; the look of any supervisor deletes them."""
    record(two, "a", age="24 h 1 s")
    record(two, "a", age="23 h 59 min")
    record(two, "b", age="25 h")
    assert (ids(two), ids(two, "b")) == ([2], [])
    Webhooks(LOCAL, dsn).handlers(two)
    rows = two.execute("select name, attempt_no from gapless.webhook_attempt").fetchall()
    assert rows == [("a", 2)]


def test_those_of_a_removed_one_go(two: Connection) -> None:
    """A worker that has not noticed records no more; a new one of that name begins anew."""
    record(two, "a", "b")
    assert remove_webhook(two, "a")
    record(two, "a", "b")
    rows = two.execute("select name, attempt_no from gapless.webhook_attempt order by 1, 2")
    assert rows.fetchall() == [("b", 1), ("b", 2)]
    with pytest.raises(RefusedError, match='there is no webhook "a"'):
        ids(two)


def test_one_is_removed_beside_a_worker_that_notes(dsn: str, two: Connection) -> None:
    """The deletion waits for no row that the worker has, which shares the webhook later."""
    two.execute("set lock_timeout = '2s'")
    with connect(dsn, role="test") as worker, worker.transaction():
        worker.execute("select gapless.note_webhook('a', 1, 0, null, false)")
        assert remove_webhook(two, "a", wait_s=0)
        record(worker, "a")
    assert [each.name for each in list_webhooks(two)] == ["b"]
    assert two.execute("select gapless.purge_webhooks()").fetchone() == (0,)


def test_what_cannot_be_recorded_now_is_recorded_later(
    dsn: str, conn: Connection, server: Server, topic: Topic
) -> None:
    """Sessions of both kinds are lost during a request, which is nobody's fault."""
    for name in ("a", "b"):
        add_shared(conn, server, name, shared=name == "b")
    ended: list[int] = []

    def answer(_: Call) -> Reply:
        with psycopg.connect(dsn, autocommit=True) as other:
            rows = other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'gapless/webhook%'"
            )
            ended.append(len(rows.fetchall()))
        return Reply()

    server.answer = answer
    handlers = Webhooks(LOCAL, dsn).handlers(conn)
    for number, recorded in enumerate([0, 2]):
        publish_each_alone(conn, {"n": number})
        for handler in handlers:
            drain(dsn, handler, settings=LOCAL)
        assert [len(ids(conn, name)) for name in ("a", "b")] == [recorded] * 2
        assert [each.delivered for each in list_webhooks(conn)] == [recorded] * 2
        server.answer = lambda _: Reply()
    assert ended == [1, 1]
    assert conn.execute("select count(*) from gapless.dead_letter").fetchone() == (0,)


def test_programs_that_consume_may_record_and_read_them(
    two: Connection, role: Callable[..., str]
) -> None:
    with connect(role("gapless_consumer"), role="test") as consumer:
        record(consumer, "a")
        assert ids(consumer) == [1]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            consumer.execute("delete from gapless.webhook_attempt")
    with connect(role("gapless_producer"), role="test") as producer:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ids(producer)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            record(producer, "a")


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_list_has_a_limit(two: Connection, limit: int) -> None:
    with pytest.raises(UsageError, match=f"limit: {limit} must be from 1 to 1000"):
        ids(two, limit=limit)


def test_lists_over_http_come_in_pages(two: Connection, dsn: str, open_gateway: Open) -> None:
    """For a key that may read all topics."""
    record(two, "a", number=5)
    keys = {scope: ops.create_key(two, scope, [scope]).key for scope in ("read:*", "read:outbox")}
    gateway = open_gateway(dsn=dsn, asks_keys=True)

    def get(path: str, scope: str = "read:*", **query: Any) -> Any:
        said = {"authorization": f"Bearer {keys[scope]}"}
        answer = gateway.get(f"/v1/webhooks{path}", params=query, headers=said)
        return answer.json() if answer.status_code == 200 else answer.status_code

    assert [each["id"] for each in get("/a/attempts", limit=2)] == [5, 4]
    assert [each["id"] for each in get("/a/attempts", failed=True, before=5)] == [3, 1]
    assert [each["name"] for each in get("", limit=1)] == ["a"]
    assert [each["name"] for each in get("", after="a")] == ["b"]
    assert get("/a/attempts", "read:outbox") == 403
    assert [each["name"] for each in get("", name="b")] == ["b"]
    assert get("/nobody/attempts") == 404
    assert [get("", limit=limit) for limit in (0, 1001)] == [400, 400]
