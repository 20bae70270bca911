"""A topic over HTTP: its newest events page by page, one event, its chain, create and alter."""

from typing import Any

from psycopg import Connection

import gapless
from gapless import ops
from gapless.errors import ConfigError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from gapless.settings import Loaded
from gapless.testing import drain
from support.gateways import Client, Open, problem

SEARCH = "/v1/topics/orders/search"


def test_older_events_follow_the_newest(operated: Client) -> None:
    for number in range(4):
        events = [{"payload": number * 10 + n, "key": str(n)} for n in range(10)]
        operated.post("/v1/topics/orders/events", json=events, params={"wait": "offset"})
    seen: list[Any] = []
    older: str | None = ""
    for _ in range(6):
        found = operated.get(SEARCH, params={"limit": 7, "before": older}).json()
        assert found["is_complete"] is (found["older"] is None)
        seen += [event["payload"] for event in found["events"]]
        older = found["older"]
    assert older is None
    assert sorted(seen) == list(range(40))
    before = operated.get(SEARCH, params={"before": "1@3"}).json()["events"]
    assert [(event["partition"], event["offset"]) for event in before] == [(1, 2), (1, 1)]
    for wrong in ("1", "1@", "x@1", "1@2,"):
        problem(operated.get(SEARCH, params={"before": wrong}), 400)


def test_a_long_payload_is_cut(operated: Client) -> None:
    operated.publish("x" * 100, 12.50, wait="offset")
    short, long = operated.get(SEARCH, params={"payload_chars": 10}).json()["events"]
    if short["payload"] is None:
        short, long = long, short
    assert (short["payload"], "payload_begins" in short) == (12.5, False)
    assert (long["payload"], long["payload_begins"]) == (None, '"' + "x" * 9)


def test_an_event_has_its_neighbours_and_its_state_in_each_group(
    operated: Client, conn: Connection[Any], dsn: str
) -> None:
    for number in range(6):  # each is a unit
        publish(conn, "orders", NewEvent(payload={"n": number}, key="ab"[number % 2]))
    sequence(conn)
    conn.execute("select gapless.create_group('behind', 'orders')")
    conn.execute("select gapless.create_group('queue', 'orders', mode => 'queue')")
    for group in ("later", "skips", "returns", "lost"):
        ops.create_group(conn, group, "orders", start=ops.Point.parse("latest"))
    for group, to in ("skips", "earliest"), ("skips", "latest"), ("returns", "earliest"):
        ops.seek(conn, ops.GroupPlace(group=group), ops.Point.parse(to))
    conn.execute("delete from gapless.consumer_offsets where group_id = 'lost'")

    @gapless.handler(topic="orders", group="billing")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        if {"n": 2} in [event.payload for event in unit]:
            raise ValueError("no")

    drain(dsn, refuse)
    (dead,) = ops.list_units(conn, ops.DlqFilter(group="billing"))
    events = operated.get(SEARCH, params={"key": "a"}).json()["events"]
    offsets = [event["offset"] for event in events]
    partition = events[0]["partition"]
    at = f"/v1/topics/orders/events/{partition}"
    found = operated.get(f"{at}/{offsets[1]}").json()
    assert found["event"] == events[1]
    assert (found["previous_of_key"], found["next_of_key"]) == (offsets[2], offsets[0])
    assert (found["first_offset"], found["last_offset"]) == (offsets[1], offsets[1])
    groups = {each.pop("group"): each for each in found["groups"]}
    assert groups["billing"]["state"] == "dead"
    assert groups["billing"]["unit"] == dead.offset == offsets[1]
    assert groups["behind"]["state"] == groups["queue"]["state"] == "pending"
    assert groups["behind"]["behind"] == offsets[1]
    assert [groups[each]["state"] for each in ("later", "skips")] == ["before", "skipped"]
    assert "sought from 1 to " in groups["skips"]["reason"]
    assert (groups["returns"]["state"], groups["returns"]["reason"]) == ("pending", None)
    assert (groups["lost"]["state"], groups["lost"]["behind"]) == ("unplaced", None)
    oldest = operated.get(f"{at}/1").json()
    newest = operated.get(f"{at}/{max(offsets)}").json()
    assert (oldest["previous"], oldest["previous_of_key"]) == (None, None)
    assert newest["next_of_key"] is None
    states = {each["group"]: each["state"] for each in newest["groups"]}
    assert states["billing"] == "handled"
    problem(operated.get(f"{at}/1000"), 404)
    problem(operated.get("/v1/topics/orders/events/7/1"), 404)


def test_a_unit_is_in_one_state(operated: Client, conn: Connection[Any]) -> None:
    """An ordered group has it as a whole, a queue each of its events."""
    publish(conn, "orders", [NewEvent(payload=n, key="a") for n in range(3)])
    sequence(conn)
    conn.execute("select gapless.create_group('queue', 'orders', mode => 'queue')")
    (taken,) = ops.take(conn, "queue", "orders")
    ops.acknowledge(conn, taken.held)
    at = f"/v1/topics/orders/events/{taken.partition}"
    found = [operated.get(f"{at}/{offset}").json() for offset in (1, 2)]
    assert [(each["first_offset"], each["last_offset"]) for each in found] == [(1, 3), (1, 3)]
    assert [each["groups"][0]["state"] for each in found] == ["handled", "pending"]


def test_the_chain_of_a_transaction(operated: Client, conn: Connection[Any]) -> None:
    done = operated.publish({"n": 1}, wait="offset")
    found = operated.get(f"/v1/trace/{done['transaction_id']}").json()
    (unit,) = found["units"]
    assert (unit["topic"], unit["asked_for"], unit["state"]) == ("orders", True, "sequenced")
    problem(operated.get(f"/v1/trace/{'0' * 8}-0000-8000-8000-000000000000"), 404)


def test_create_and_alter(operated: Client, conn: Connection[Any]) -> None:
    made = operated.post("/v1/topics", json={"name": "bills", "total_partitions": 3}).json()
    assert made == {"topic": "bills", "partitions": 3, "created": True}
    again = operated.post("/v1/topics", json={"name": "bills", "total_partitions": 3}).json()
    assert again["created"] is False
    assert operated.post("/v1/topics", json={"name": "mails"}).json()["partitions"] == 8
    alter = "/v1/topics/bills/alter"
    body = {"retention": "2d", "dedupe_window": "1h", "compact": True}
    assert operated.post(alter, json=body).json()["retention_s"] == 2 * 86_400
    assert operated.post(alter, json={"partitions": 5}).json()["partitions"] == 5
    (bills,) = [each for each in operated.get("/v1/topics").json() if each["topic"] == "bills"]
    assert (bills["partitions"], bills["retention_s"], bills["compacted"]) == (5, 172_800, True)
    who = conn.execute("select who from gapless.audit where action = 'compact'").fetchone()
    assert who is not None
    assert "gateway: without a key" in who[0]
    for wrong in ({"partitions": 0}, {"retention": "soon"}):
        problem(operated.post(alter, json=wrong), 400)
    both = problem(operated.post(alter, json={"partitions": 6, "retention": "3d"}), 400)
    assert "change it alone" in both["detail"]
    problem(operated.post("/v1/topics", json={}), 400)
    problem(operated.post("/v1/topics", json={"name": "no/topic"}), 400)
    problem(operated.post("/v1/topics", json={"name": "bills", "total_partitions": 4}), 409)


def test_a_broken_configuration_stops_only_what_needs_it(open_gateway: Open, orders: Topic) -> None:
    def load(**_: object) -> Loaded:
        raise ConfigError("line 3: no YAML")

    gateway = open_gateway(operates=True, load=load)
    for path in ("/v1/groups", "/v1/topics/orders", "/v1/audit"):
        assert gateway.get(path).status_code == 200, path
    problem(gateway.post("/v1/groups/nobody/pause", json={"reason": "test"}), 404)
    problem(gateway.post("/v1/topics", json={"name": "bills"}), 400)


def test_only_an_operator_creates_or_alters(open_gateway: Open, orders: Topic) -> None:
    gateway = open_gateway()
    problem(gateway.post("/v1/topics", json={"name": "bills"}), 403)
    problem(gateway.post("/v1/topics/orders/alter", json={"partitions": 3}), 403)
