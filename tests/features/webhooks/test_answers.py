"""What the answer of an endpoint does to a unit, to the webhook, and to nobody else."""

import ssl
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import trustme
from psycopg import Connection

from gapless.errors import ReceiverError
from gapless.features.webhooks.ops import add_webhook, list_webhooks, resume_webhook, try_webhook
from gapless.features.webhooks.settings import WebhookSettings
from gapless.log.publish import publish
from gapless.log.topics import Topic
from gapless.settings import Settings
from support.endpoint import SECRET, Reply, Server, serving
from support.shared_webhooks import LOCAL, Deliver, add_own, publish_each_alone


def _letters(conn: Connection, state: str) -> list[str]:
    rows = conn.execute(
        "select reason from gapless.dead_letter where state = %s order by 1", [state]
    )
    return [row[0] for row in rows]


@pytest.mark.long
def test_a_unit_arrives_once_signed_and_as_it_was_published(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_own(conn, server)
    with conn.transaction():
        publish(conn, "outbox", b'{"n":  1.50, "s": "\\u0000"}', key="k", event_type="order.made")
        publish(conn, "outbox", {"n": 2}, key="k", event_type="order.paid", headers={"a": "b"})
    deliver()
    deliver()
    (call,) = server.calls
    assert b'"data": {"n":  1.50, "s": "\\u0000"}}' in call.body
    assert call.data == [{"n": 1.5, "s": "\0"}, {"n": 2}]
    assert call.id == f"webhook-shop/outbox/{call.json['partition']}@1"
    assert call.json["type"] == "gapless.unit"
    first, second = call.json["events"]
    assert (first["offset"], first["type"], first["key"]) == (1, "order.made", "k")
    assert (second["offset"], second["headers"]) == (2, {"a": "b"})
    assert call.headers["content-type"] == "application/json"
    assert "cookie" not in call.headers


@pytest.mark.long
def test_a_new_one_begins_with_what_is_published_from_then_on(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    publish_each_alone(conn, "before")
    conn.execute("select gapless.sequence_events()")
    add_own(conn, server, "late")
    add_own(conn, server, "early", start="earliest")
    publish_each_alone(conn, "after")
    deliver()
    assert [call.data for call in server.of("/late")] == [["after"]]
    assert sorted(call.data[0] for call in server.of("/early")) == ["after", "before"]


def test_a_filter_is_that_of_its_group(conn: Connection, server: Server, deliver: Deliver) -> None:
    add_own(conn, server, event_types=["order.*"], where="$.n > $min", params={"min": 1})
    publish_each_alone(conn, {"n": 1}, {"n": 2}, event_type="order.made")
    publish_each_alone(conn, {"n": 3}, event_type="stock")
    deliver()
    assert [call.data for call in server.calls] == [[{"n": 2}]]


@pytest.mark.long
def test_what_fails_is_tried_again_with_the_same_id(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_own(conn, server, retry_delays_s=[0, 0])
    answers = chain([500, 302], repeat(200))
    server.answer = lambda _: Reply(next(answers), {"location": f"{server.url}/elsewhere"})
    publish_each_alone(conn, "x")
    until_s = monotonic() + 60.0
    while len(server.calls) < 3 and monotonic() < until_s:
        deliver()
    assert len(server.calls) == 3
    assert len({call.id for call in server.calls}) == 1
    assert {call.path for call in server.calls} == {"/shop"}, "a redirect is not followed"
    (found,) = list_webhooks(conn)
    assert (found.lag, found.waiting, found.dead) == (0, 0, 0)


@pytest.mark.long
def test_after_its_last_attempt_a_unit_is_dead(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_own(conn, server, retry_delays_s=[0])
    server.answer = lambda _: Reply(503)
    publish_each_alone(conn, "x")
    until_s = monotonic() + 60.0
    while not _letters(conn, "dead") and monotonic() < until_s:
        deliver()
    assert len(server.calls) == 2
    (reason,) = _letters(conn, "dead")
    assert reason.endswith("webhook shop: answered 503")
    assert SECRET not in str(conn.execute("select d from gapless.dead_letter d").fetchall())


@pytest.mark.long
def test_422_is_dead_now_and_others_continue(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_own(conn, server)
    server.answer = lambda call: Reply(422 if call.data == ["bad"] else 204)
    publish_each_alone(conn, "bad", "good")
    deliver()
    assert len(server.calls) == 2
    assert len(_letters(conn, "dead")) == 1


@pytest.mark.long
def test_410_pauses_that_webhook_alone_and_loses_nothing(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_own(conn, server, "a")
    add_own(conn, server, "b")
    server.answer = lambda call: Reply(410 if call.path == "/a" else 204)
    publish_each_alone(conn, "x")
    with pytest.raises(ReceiverError, match="webhook a: answered 410 Gone, and is paused"):
        deliver()
    a, b = list_webhooks(conn)
    assert (a.paused, b.paused) == (True, False)
    assert "410" in str(a.pause_reason)
    deliver()  # it is paused: nobody calls it
    assert len(server.of("/a")) == 1
    assert len(server.of("/b")) == 1
    server.answer = lambda _: Reply()
    assert resume_webhook(conn, "a")
    deliver()
    assert [call.data for call in server.of("/a")] == [["x"], ["x"]]
    assert len({call.id for call in server.of("/a")}) == 1
    assert _letters(conn, "dead") == _letters(conn, "waiting") == []


@pytest.mark.long
def test_retry_after_is_honoured_by_all(conn: Connection, server: Server, deliver: Deliver) -> None:
    add_own(conn, server, concurrency=1)
    server.answer = lambda _: Reply(429, {"retry-after": "3"})
    for key in ("a", "b", "c"):
        publish_each_alone(conn, key, key=key)
    with pytest.raises(ReceiverError, match="asked not to be called for"):
        deliver()
    with pytest.raises(ReceiverError):
        deliver()
    assert len(server.calls) == 1, "who asks for patience is not called by the next unit"
    (reason,) = _letters(conn, "waiting")
    assert reason.endswith("answered 429, Retry-After 3 s")
    (delay_s,) = conn.execute(
        "select extract(epoch from next_attempt_ts - last_failed_ts) from gapless.dead_letter"
    ).fetchone() or (0,)
    assert 2.5 < delay_s < 3.5


def test_who_asks_for_patience_was_not_tried(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    """However often: the first real failure is the first one."""
    add_own(conn, server, retry_delays_s=[600])
    server.answer = lambda _: Reply(429 if len(server.calls) <= 4 else 500, {"retry-after": "0"})
    publish_each_alone(conn, "x")
    for state, calls in (("waiting", 5), ("dead", 6)):
        conn.execute("update gapless.dead_letter set next_attempt_ts = now()")
        deliver()
        assert (len(_letters(conn, state)), len(server.calls)) == (1, calls)


@pytest.mark.long
def test_who_does_not_answer_has_failed(
    conn: Connection, server: Server, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.features.webhooks.post.ANSWER_S_MAX", 0.5)
    add_own(conn, server, retry_delays_s=[])
    server.answer = lambda _: Reply(wait_s=2.0)
    publish_each_alone(conn, "x")
    deliver()
    (reason,) = _letters(conn, "dead")
    assert "no answer within" in reason


@pytest.mark.long
def test_a_circuit_opens_and_one_probe_closes_it(
    conn: Connection, server: Server, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.features.webhooks.deliver.PROBE_EVERY_S", 1.0)
    add_own(conn, server, concurrency=1, retry_delays_s=[3600])
    server.answer = lambda _: Reply(500)
    publish_each_alone(conn, *range(30))
    with pytest.raises(ReceiverError, match="requests failed in a row: one is tried"):
        deliver()
    assert len(server.calls) <= 13, "4 partitions, one call each"
    called = len(server.calls)
    assert list_webhooks(conn)[0].circuit_open_since is not None
    assert len(_letters(conn, "waiting")) == called, "who waits has had no attempt"
    until_s = monotonic() + 3.0
    while monotonic() < until_s:
        with pytest.raises(ReceiverError):
            deliver()
    assert 1 <= len(server.calls) - called <= 4, "one probe a second, of all partitions together"
    server.answer = lambda _: Reply()
    conn.execute("update gapless.webhook_state set probe_ts = null")
    until_s = monotonic() + 30.0
    while list_webhooks(conn)[0].lag and monotonic() < until_s:
        try:
            deliver()
        except ReceiverError:
            continue
    found = list_webhooks(conn)[0]
    assert (found.lag, found.circuit_open_since, found.dead) == (0, None, 0)


def test_a_private_address_is_not_called(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_own(conn, server)
    publish_each_alone(conn, "x")
    with pytest.raises(ReceiverError, match=r"is at 127\.0\.0\.1, which is loopback"):
        deliver(Settings())
    assert server.calls == []
    assert try_webhook(conn, "shop", Settings()).error is not None
    assert _letters(conn, "dead") == _letters(conn, "waiting") == [], "it waits for an operator"


def test_a_name_that_changes_its_address_is_called_where_it_was_judged(
    conn: Connection, server: Server, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: the second look-up would say another address; there is none."""
    import socket

    real, asked = socket.getaddrinfo, []

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if host != "shop.example":
            return real(host, *args, **options)
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "127.0.0.9", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    add_own(conn, server, url=server.url.replace("127.0.0.1", "shop.example") + "/shop")
    publish_each_alone(conn, "x", "y")
    deliver()
    assert len(server.calls) == 2
    assert len(asked) == 1
    assert server.calls[0].headers["host"].startswith("shop.example:")


@pytest.mark.long
def test_a_proxy_of_the_environment_is_not_used(
    conn: Connection, server: Server, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    add_own(conn, server)
    publish_each_alone(conn, "x")
    deliver()
    assert len(server.calls) == 1


def test_a_secret_that_is_missing_makes_units_wait(
    conn: Connection, server: Server, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK")
    add_own(conn, server)
    publish_each_alone(conn, "x")
    with pytest.raises(ReceiverError, match="secret env:HOOK: the variable HOOK is not set"):
        deliver()
    assert server.calls == []
    monkeypatch.setenv("HOOK", SECRET)
    deliver()
    assert server.calls[0].data == ["x"]


@pytest.mark.long
def test_a_rate_is_kept(conn: Connection, server: Server, deliver: Deliver) -> None:
    add_own(conn, server, rate=10)
    publish_each_alone(conn, *range(8))
    deliver()
    assert len(server.calls) == 8
    assert server.calls[-1].at_s - server.calls[0].at_s >= 0.6


@pytest.mark.long
def test_order_by_key_waits_behind_what_failed(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_own(conn, server, "ordered", keeps_order=True, retry_delays_s=[3600])
    add_own(conn, server, "free", retry_delays_s=[3600])
    server.answer = lambda call: Reply(500 if call.data == [1] else 204)
    publish_each_alone(conn, 1, 2, 3, key="k")
    publish_each_alone(conn, 4, key="other")
    deliver()
    assert sorted(call.data[0] for call in server.of("/ordered")) == [1, 4]
    assert sorted(call.data[0] for call in server.of("/free")) == [1, 2, 3, 4]
    found = {each.name: each.waiting for each in list_webhooks(conn)}
    assert found == {"ordered": 3, "free": 1}


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """An HTTPS endpoint called shop.example, and the file of who signed its certificate."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("shop.example").configure_cert(context)
    with serving(context) as made:
        yield made, str(tmp_path / "ca.pem")


@pytest.mark.long
def test_https_is_for_the_name_and_only_for_it(
    conn: Connection,
    secure: tuple[Server, str],
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import socket

    server, ca_file = secure
    real = socket.getaddrinfo
    monkeypatch.setenv("HOOK", SECRET)
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *args, **options: real(
            "127.0.0.1" if str(host).endswith(".example") else host, *args, **options
        ),
    )
    trusting = Settings(
        sections=(WebhookSettings(webhook_allow=("127.0.0.0/8",), webhook_ca_file=ca_file),)
    )
    for name, host in (("right", "shop.example"), ("wrong", "other.example")):
        url = f"{server.url.replace('127.0.0.1', host)}/{name}"
        add_webhook(conn, name, "outbox", url, secrets=["env:HOOK"])
    found = try_webhook(conn, "right", trusting)
    assert (found.status, found.taken) == (204, True)
    assert server.calls[0].verified["type"] == "gapless.test"
    refused = try_webhook(conn, "wrong", trusting)
    assert not refused.taken
    assert "certificate" in str(refused.error).lower()
    assert "certificate" in str(try_webhook(conn, "right", LOCAL).error).lower()
    assert len(server.calls) == 1


def test_a_body_that_is_too_large_is_dead(
    conn: Connection, server: Server, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.features.webhooks.body.BODY_BYTES_MAX", 1 << 20)
    add_own(conn, server)
    publish_each_alone(conn, "x" * (1 << 20), "y")
    deliver()
    assert [call.data for call in server.calls] == [["y"]]
    assert _letters(conn, "dead")[0].endswith("its events take more than 1 MiB in one request")
