"""Queue groups over HTTP: taken once, answered for by a receipt, lost by nobody."""

import json
import threading
import time
from typing import Any

import pytest
from psycopg import Connection

from support.gateways import Client, problem

MAILS = "/v1/groups/letters"


@pytest.fixture
def mails(gateway: Client, conn: Connection) -> Client:
    """A gateway, and queue group letters of topic orders."""
    conn.execute("select gapless.create_group('letters', 'orders', mode => 'queue')")
    return gateway


def take(gateway: Client, wait_s: float = 0, **fields: Any) -> list[dict[str, Any]]:
    done = gateway.post(
        f"{MAILS}/take", json={"topic": "orders", **fields}, params={"wait": wait_s}
    )
    if done.status_code == 204:
        assert done.content == b""
        return []
    assert done.status_code == 200, done.text
    return list(done.json()["events"])


def answer(gateway: Client, verb: str, taken: dict[str, Any], **fields: Any) -> Any:
    held = {"topic": "orders", "receipt": taken["receipt"], "offset": taken["offset"]}
    return gateway.post(f"{MAILS}/{verb}", json={**held, **fields})


def test_each_event_is_taken_once_and_acknowledged(mails: Client, conn: Connection) -> None:
    assert take(mails) == []
    mails.publish(*range(20))
    seen: list[int] = []
    while taken := take(mails, max_events=3):
        for each in taken:
            assert each["attempt"] == 1
            seen.append(each["payload"])
            assert answer(mails, "acknowledge", each).json() == {"events": 1}
    assert sorted(seen) == list(range(20))
    (problem_one,) = [problem(answer(mails, "acknowledge", each), 409)]
    assert "receipt" in problem_one["detail"]


AS_WRITTEN = (
    "1.10",
    "1e400",
    "-0.0",
    "123456789012345678901234567890",
    "9" * 5000,  # more digits than Python reads
    '{"a": 1, "a": 2}',
    '{"price": 1.10,  "spaced" : [ ]}',
    r'"\u0000 \ud83d\ude00"',
)


def test_a_payload_is_given_as_it_was_written(mails: Client, conn: Connection) -> None:
    insert = "insert into gapless.outbox_message_t (topic_id, key, payload, headers) "
    insert += "select topic_id, 'k', %s::text::json, '{\"rate\": 1.10}' from gapless.topic "
    for text in AS_WRITTEN:
        conn.execute(insert + "where name = 'orders'", [text])
    found = mails.post(f"{MAILS}/take", json={"topic": "orders", "max_events": 100})
    assert found.status_code == 200, found.text
    for text in AS_WRITTEN:
        assert f'"payload": {text}, "headers": {{"rate": 1.10}}}}' in found.text
    assert found.text.count('"receipt"') == len(AS_WRITTEN)


@pytest.mark.long
def test_an_event_comes_back(mails: Client, conn: Connection) -> None:
    mails.publish("a")
    (first,) = take(mails)
    assert take(mails) == [], "it is in hand"
    assert answer(mails, "release", first).json() == {"events": 1}
    (again,) = take(mails, visibility_s=0.3)
    problem(answer(mails, "acknowledge", first), 409)
    time.sleep(0.4)
    (late,) = take(mails, wait_s=10)
    problem(answer(mails, "acknowledge", again), 409)
    assert "until" in answer(mails, "extend", late, visibility_s=30).json()
    assert answer(mails, "release", late, delay_s=0.2, reason="busy").status_code == 200
    (last,) = take(mails, wait_s=20)
    assert answer(mails, "reject", last, reason="bad address").json() == {"events": 1}
    row = conn.execute("select status, reason from gapless.dead_letter_queue").fetchone()
    assert row is not None
    assert (row[0], "bad address" in row[1]) == ("dead", True)


@pytest.mark.long
def test_a_take_waits_and_holds_no_session(mails: Client) -> None:
    """More wait than there are sessions, and yet a publish gets through and wakes one."""
    found: list[list[dict[str, Any]]] = []
    threads = [
        threading.Thread(target=lambda: found.append(take(mails, wait_s=25))) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    for n in range(12):
        mails.publish(n)
    for thread in threads:
        thread.join(60)
    assert sorted(each[0]["payload"] for each in found) == list(range(12))


def test_bodies_that_try_something(mails: Client) -> None:
    """Sentences of what is refused are in tests/refused/routes.txt."""
    for body in (
        {"topic": 5},
        {"topic": "orders", "max_events": 1.5},
        {"topic": "orders", "visibility_s": 1e300},
        {"topic": "a\0b"},
    ):
        problem(mails.post(f"{MAILS}/take", json=body), 400)
    for receipt in ("", "x", "R1:1:1:00000000-0000-0000-0000-000000000000" * 30, "\ud800"):
        done = mails.post(
            f"{MAILS}/acknowledge",
            content=json.dumps({"topic": "orders", "receipt": receipt}),
            headers={"Content-Type": "application/json"},
        )
        problem(done, 400)
    mails.publish(1)
    (taken,) = take(mails)
    stranger = {"topic": "orders", "receipt": taken["receipt"][:-1] + "0"}
    assert mails.post(f"{MAILS}/acknowledge", json=stranger).status_code in (200, 409)
    deep = "[" * 50_000
    json_type = {"Content-Type": "application/json"}
    problem(mails.post(f"{MAILS}/take", content=deep, headers=json_type), 400)
    problem(mails.post(f"{MAILS}/take", content=" " * 70_000, headers=json_type), 413)
