"""POST events: what is stored, what is answered, and that a repeated request is one request."""

import json
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from psycopg import Connection

from gapless import ops
from gapless.errors import GaplessError
from gapless.log.publish import publish
from gapless.log.topics import Topic
from support.gateways import EVENTS, Client, Open, Serve, problem

LINES = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}


def stored(conn: Connection) -> list[tuple[Any, ...]]:
    return conn.execute(
        "select payload::text, key, event_type, headers from gapless.outbox_message_t order by id"
    ).fetchall()


def units(conn: Connection) -> int:
    row = conn.execute("select count(distinct xid) from gapless.outbox_message_t").fetchone()
    assert row is not None
    return int(row[0])


def test_one_event(gateway: Client, conn: Connection) -> None:
    done = gateway.post(
        EVENTS,
        json={
            "payload": {"total": 5},
            "key": "AA",
            "event_type": "order.created",
            "headers": {"a": 1},
        },
    )
    assert done.status_code == 202
    said = done.json()
    assert (said["events"], said["duplicate"], said["scheduled_ids"]) == (1, False, [])
    assert stored(conn) == [('{"total":5}', "AA", "order.created", {"a": 1})]
    row = conn.execute(
        "select gapless.transaction_uuid(xid, gapless.timeline())::text from gapless.outbox_message_t"
    ).fetchone()
    assert row == (said["transaction_id"],)


@pytest.mark.parametrize("number", [2, 150, 450])
def test_a_request_is_one_unit_whatever_its_size(
    gateway: Client, conn: Connection, number: int
) -> None:
    array = gateway.post(EVENTS, json=[{"payload": n} for n in range(number)])
    assert array.status_code == 202, array.text
    assert units(conn) == 1
    lines = "\n".join(json.dumps({"payload": n}) for n in range(number)) + "\n\n"
    assert gateway.post(EVENTS, content=lines, headers=LINES).json()["events"] == number
    assert units(conn) == 2
    assert [row[0] for row in stored(conn)] == [*map(str, range(number))] * 2


def test_a_payload_is_stored_as_it_was_written(gateway: Client, conn: Connection) -> None:
    texts = ['{"a":1.10, "a": 2}', "12345678901234567890.123456789", '"\\u00e9"', "null"]
    body = ", ".join('{"payload": ' + text + "}" for text in texts)
    assert gateway.post(EVENTS, content=f"[{body}]", headers=JSON).status_code == 202
    assert [row[0] for row in stored(conn)] == texts


def test_offsets_are_waited_for(gateway: Client) -> None:
    done = gateway.post(EVENTS, json=[{"payload": 1}, {"payload": 2}], params={"wait": "offset"})
    assert done.status_code == 200
    (place,) = done.json()["places"]
    assert (place["first_offset"], place["last_offset"], place["events"]) == (1, 2, 2)


@pytest.mark.long
def test_a_group_is_waited_for(gateway: Client, conn: Connection) -> None:
    conn.execute("select gapless.create_group('billing', 'orders')")
    pending = gateway.publish(1, wait="group:billing", timeout="0.2")
    assert pending["state"] == "pending"
    conn.execute("update gapless.consumer_offsets set next_offset = 2 where group_id = 'billing'")
    answer: list[dict[str, Any]] = []
    thread = threading.Thread(
        target=lambda: answer.append(gateway.publish(2, wait="group:billing", timeout="20"))
    )
    thread.start()
    while thread.is_alive():
        conn.execute(
            "update gapless.consumer_offsets set next_offset = 3 where group_id = 'billing'"
        )
        thread.join(0.05)
    assert answer[0]["state"] == "handled"
    before = len(stored(conn))
    problem(gateway.post(EVENTS, json={"payload": 1}, params={"wait": "group:nobody"}), 404)
    assert len(stored(conn)) == before, "it is refused before it is published"


def test_a_request_with_a_key_is_one_request(gateway: Client, conn: Connection) -> None:
    body = [{"payload": n, "key": "k"} for n in range(3)]
    first = gateway.post(EVENTS, json=body, headers={"Idempotency-Key": '"a-1"'})
    again = gateway.post(EVENTS, json=body, headers={"Idempotency-Key": "a-1"})
    assert (first.status_code, again.status_code) == (202, 202)
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == {**first.json(), "duplicate": True, "duplicates": 3}
    assert [row[0] for row in stored(conn)] == ["0", "1", "2"]
    assert units(conn) == 1
    placed = gateway.post(
        EVENTS, json=body, headers={"Idempotency-Key": "a-1"}, params={"wait": "offset"}
    )
    assert placed.json()["places"][0]["events"] == 3


def test_a_key_of_another_body_is_refused(gateway: Client, conn: Connection) -> None:
    headers = {"Idempotency-Key": "a-1"}
    assert gateway.post(EVENTS, json={"payload": 1}, headers=headers).status_code == 202
    said = problem(gateway.post(EVENTS, json={"payload": 2}, headers=headers), 422)
    assert '"a-1"' in said["detail"]
    assert len(stored(conn)) == 1


def test_a_key_goes_with_its_topic_and_its_window(gateway: Client, conn: Connection) -> None:
    conn.execute("select gapless.create_topic('other', 1)")
    headers = {"Idempotency-Key": "a-1"}
    for path in (EVENTS, "/v1/topics/other/events"):
        assert not gateway.post(path, json={"payload": 1}, headers=headers).json()["duplicate"]
    conn.execute("update gapless.dedupe set published_ts = published_ts - interval '8 days'")
    done = gateway.post(EVENTS, json={"payload": 2}, headers=headers)
    assert done.json()["duplicate"] is False, "the window is over: another body may have the key"
    problem(gateway.post(EVENTS, json={"payload": 1}, headers=headers), 422)


@pytest.mark.long
def test_two_at_once_with_one_key_are_one(gateway: Client, conn: Connection) -> None:
    said: list[dict[str, Any]] = []

    def publish() -> None:
        done = gateway.post(
            EVENTS, json=[{"payload": 1}, {"payload": 2}], headers={"Idempotency-Key": "k"}
        )
        said.append(done.json())

    threads = [threading.Thread(target=publish) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each["duplicate"] for each in said) == [False, *[True] * 7]
    assert len({each["transaction_id"] for each in said}) == 1
    assert len(stored(conn)) == 2


@pytest.mark.long
def test_a_key_in_progress_for_long_is_a_conflict(gateway: Client, conn: Connection) -> None:
    with conn.transaction():
        conn.execute("select gapless.publish_once('orders', '1', 'k')")
        done = gateway.post(EVENTS, json={"payload": 1}, headers={"Idempotency-Key": "k"})
    problem(done, 409)


def test_a_key_of_a_request_is_no_key_of_an_event(gateway: Client, conn: Connection) -> None:
    """Neither is taken for the other, which would be lost: the second one is refused, whole."""
    event = {"payload": 1, "dedupe_key": "event"}
    assert gateway.post(EVENTS, json=event).status_code == 202
    for body in (
        {"payload": 1},
        [{"payload": 2}, {"payload": 3}],
        {"payload": 4, "deliver_in": 60},
    ):
        problem(gateway.post(EVENTS, json=body, headers={"Idempotency-Key": "event"}), 422)
    ours = {"Idempotency-Key": "ours"}
    assert gateway.post(EVENTS, json={"payload": 5}, headers=ours).status_code == 202
    for more in ({}, {"deliver_in": 60}):
        body = [{"payload": 6}, {"payload": 7, "dedupe_key": "ours", **more}]
        assert '"ours"' in problem(gateway.post(EVENTS, json=body), 422)["detail"]
    with pytest.raises(GaplessError):
        publish(conn, "orders", 8, dedupe_key="ours")
    assert gateway.post(EVENTS, json=event).json()["duplicate"]
    assert gateway.post(EVENTS, json={"payload": 5}, headers=ours).json()["duplicate"]
    assert [row[0] for row in stored(conn)] == ["1", "5"]


@pytest.mark.long
def test_dedupe_keys_and_later(gateway: Client, conn: Connection) -> None:
    body = [
        {"payload": 1, "dedupe_key": "d"},
        {"payload": 2, "dedupe_key": "d"},
        {"payload": 3, "deliver_in": 3600},
    ]
    said = gateway.post(EVENTS, json=body).json()
    assert (said["events"], said["duplicates"], len(said["scheduled_ids"])) == (3, 1, 1)
    assert said["duplicate"] is False
    problem(gateway.post(EVENTS, json=body, headers={"Idempotency-Key": "k"}), 400)
    later = gateway.post(
        EVENTS,
        json=[{"payload": n, "deliver_in": 60} for n in range(2)],
        headers={"Idempotency-Key": "l"},
    )
    assert len(later.json()["scheduled_ids"]) == 2


def test_the_trace_of_the_request_goes_with_its_events(gateway: Client, conn: Connection) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    own = {"traceparent": "00-11111111111111111111111111111111-b7ad6b7169203331-01"}
    gateway.post(
        EVENTS,
        json=[{"payload": 1}, {"payload": 2, "headers": own}],
        headers={"traceparent": trace},
    )
    assert [row[3] for row in stored(conn)] == [{"traceparent": trace}, own]


BAD = [
    ('{"payload": 1', JSON, 400, "line 1 column"),
    ('[{"payload": 1},\n {"payload": oops}]', JSON, 400, "line 2 column 14"),
    ('{"payload": 1}\n{"payload": ]}', LINES, 400, "line 2 column 13"),
    ('{"payload": 1}\n{"pay": 1}', LINES, 400, "line 2: unknown field 'pay'"),
    ('[{"payload": 1}, 5]', JSON, 400, "event 2: not an object"),
    ("", LINES, 400, "no event"),
    ('{"payload": 1, "key": "\\u0000"}', JSON, 422, "NUL"),
    ('{"payload": 1, "key": "\\ud800"}', JSON, 400, "surrogate"),
    ('{"payload": 1, "headers": {"a": "\\u0000"}}', JSON, 422, ""),
    ('{"payload": 1, "transaction_id": "6b1b36cb-3b7b-4f3b-8f3b-6b1b36cb3b7b"}', JSON, 400, "of its own"),
    ("[" * 100_000, JSON, 400, "nested too deeply"),
    ('{"payload": ' + "[" * 100_000 + "]" * 100_000 + "}", JSON, 400, "nested too deeply"),
    (b'{"payload": "\xff"}', JSON, 400, "not UTF-8 at line 1 column 14"),
    ('{"payload": 1}', {}, 415, "application/json"),
    ('{"payload": 1}', {"Content-Type": "application/json; charset=latin1"}, 415, "UTF-8"),
    ('{"payload": 1}', {**JSON, "Idempotency-Key": ""}, 400, "Idempotency-Key"),
    ('{"payload": 1}', {**JSON, "Idempotency-Key": "k" * 501}, 400, "Idempotency-Key"),
]  # fmt: skip


def test_what_is_wrong_is_said_and_nothing_is_stored(gateway: Client, conn: Connection) -> None:
    for body, headers, status, words in BAD:
        said = problem(gateway.post(EVENTS, content=body, headers=headers), status)
        assert words in said["detail"], (body[:60], said)
    assert stored(conn) == []
    bad_line = gateway.post(EVENTS, content='{"payload": 1}\n{"payload": ]}', headers=LINES).json()
    assert (bad_line["line"], bad_line["column"]) == (2, 13)


def test_what_is_not_there(gateway: Client) -> None:
    keyed = gateway.post(
        "/v1/topics/nowhere/events", json={"payload": 1}, headers={"Idempotency-Key": "k"}
    )
    problem(keyed, 404)
    for path in ("/v1/status/", "/v1/status%0A", "/v1/topics//events", "/V1/status"):
        problem(gateway.get(path), 404)
    assert gateway.client.head("/readyz").status_code == 200
    for path, allowed in (("/v1/status", "GET, HEAD"), (EVENTS, "POST, GET, HEAD")):
        refused = gateway.client.put(path)
        problem(refused, 405)
        assert refused.headers["allow"] == allowed
    for params in ({"wait": "group:"}, {"wait": "offset", "timeout": "1e9"}):
        problem(gateway.post(EVENTS, json={"payload": 1}, params=params), 400)


def test_sizes_are_bounded_while_reading(
    open_gateway: Open, orders: Topic, conn: Connection
) -> None:
    gateway = open_gateway(2048, 8192)
    assert gateway.publish("a" * 1900)["events"] == 1
    one = gateway.post(EVENTS, json=[{"payload": 1}, {"payload": "a" * 2100}])
    assert problem(one, 413)["event"] == 2
    problem(gateway.post(EVENTS, json=[{"payload": "a" * 1900}] * 5), 413)
    head = f"POST {EVENTS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    lying = gateway.raw(f"{head}Content-Length: 1000000000\r\n\r\n".encode(), b"[")
    assert lying.startswith(b"HTTP/1.1 413"), "it is refused before the body comes"
    chunk = b"2000\r\n" + b"a" * 0x2000 + b"\r\n"
    endless = gateway.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), chunk, chunk)
    assert endless.startswith(b"HTTP/1.1 413"), "it is refused before the body ends"
    assert len(stored(conn)) == 1


def test_a_payload_that_does_not_fit_its_schema_is_a_400_with_pointers(
    gateway: Client, conn: Connection
) -> None:
    text = '{"type": "object", "properties": {"total": {"type": "integer"}}}'
    ops.add_schema(conn, "orders", text, event_type="order")
    good = {"payload": {"total": 5}, "event_type": "order"}
    assert gateway.post(EVENTS, json=good).status_code == 202
    bad = {"payload": {"total": "x"}, "event_type": "order"}
    for headers in ({}, {"Idempotency-Key": "k1"}):
        refused = gateway.post(EVENTS, json=[good, bad], headers=headers)
        assert refused.status_code == 400
        said = refused.json()
        assert (said["pointer"], said["event"]) == ("/total", 1)
        assert said["keyword"] == "/properties/total/type"
        assert said["schema"] == "schema 1 of orders/order"
    assert len(stored(conn)) == 1


def test_what_cannot_be_checked_is_the_gateways_fault(gateway: Client, conn: Connection) -> None:
    """A schema that nobody can read; a library that is missing is the same error. Others continue."""
    conn.execute(
        """select gapless.set_schema('orders', '{"type": "objekt"}', event_type => 'odd')"""
    )
    for headers in ({}, {"Idempotency-Key": "k1"}):
        refused = gateway.post(EVENTS, json={"payload": 1, "event_type": "odd"}, headers=headers)
        assert refused.status_code == 500
        assert refused.json()["detail"].startswith("schema 1 of orders/odd cannot be checked: ")
    assert stored(conn) == []
    good = {"payload": 1, "event_type": "order"}
    assert gateway.post(EVENTS, json=good).status_code == 202


@pytest.mark.long
def test_to_one_subscription_of_a_group(gateway: Client, conn: Connection) -> None:
    conn.execute("select gapless.create_group('mails', 'orders')")
    conn.execute(
        "select gapless.subscribe('mails', 'orders', 'ann', '{\"a\": \"key\"}', '{\"a\": 1}')"
    )
    conn.execute("select gapless.set_direct('orders')")
    body = {"payload": 1, "to_group": "mails", "to_subscription": "ann"}
    keyed = {"Idempotency-Key": "k"}
    assert gateway.post(EVENTS, json=body).status_code == 202
    assert gateway.post(EVENTS, json=[body, body], headers=keyed).status_code == 202
    to = {"gapless-to-group": "mails", "gapless-to-subscription": "ann"}
    assert [headers for *_, headers in stored(conn)] == [to] * 3
    for wrong, status, says in (
        ({"to_group": None}, 422, "say to_group, too"),
        ({"to_subscription": "cid"}, 404, 'no subscription "cid"'),
        ({"to_subscription": 7}, 400, "to_subscription must be text"),
    ):
        for key in ({}, {"Idempotency-Key": "other"}):
            answer = gateway.post(EVENTS, json={**body, **wrong}, headers=key)
            assert says in problem(answer, status)["detail"]
    assert len(stored(conn)) == 3


@pytest.mark.long
def test_what_is_stored_takes_twice_the_memory_of_its_body(serve: Serve, orders: Topic) -> None:
    """The body and its events; what a statement is made of is of some of them."""
    gateway = serve()
    gateway.publish(1)
    process = Path(f"/proc/{gateway.process.pid}")
    text = "x" * ((1 << 20) - 200)
    plain = json.dumps({"payload": text})
    clouds = (
        json.dumps({"id": f"{n}", "source": "/a", "type": "t", "specversion": "1.0", "data": text})
        for n in range(16)
    )
    for kind, body, more in (
        ("application/json", f"[{','.join([plain] * 16)}]", {"Idempotency-Key": "k1"}),
        ("application/cloudevents-batch+json", f"[{','.join(clouds)}]", {}),
        ("application/x-ndjson", "\n".join([plain] * 16), {}),
    ):
        (process / "clear_refs").write_text("5")  # the peak begins anew
        before_kb = kb_of(process, "VmRSS")
        done = gateway.post(EVENTS, content=body, headers={"Content-Type": kind, **more})
        assert done.status_code == 202, done.text
        times = (kb_of(process, "VmHWM") - before_kb) * 1024 / len(body)
        assert times < 2.6, kind  # half a body is for what it is made of, and what is left over


def kb_of(process: Path, name: str) -> int:
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def test_a_gateway_that_gives_the_offsets_rests_longer_than_it_works(
    gateway: Client, conn: Connection
) -> None:
    """Each run is made to take 0.03 s; whatever is published, 0.1 s are between two looks of one run or two."""
    conn.execute(
        "create function wait() returns trigger language plpgsql as"
        " $$begin perform pg_sleep(0.03); return null; end$$"
    )
    conn.execute(
        "create trigger wait after insert on gapless.log_segment for each statement"
        " execute function wait()"
    )
    gateway.publish(1, wait="offset")
    began_s, runs = monotonic(), 1
    while runs < 16:
        gateway.publish(1)
        (runs,) = conn.execute("select count(distinct run) from gapless.log_segment").fetchone()  # type: ignore[misc]
    assert monotonic() - began_s >= 0.8
