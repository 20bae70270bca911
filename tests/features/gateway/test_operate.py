"""An operator's routes do what gapless.ops does, and the log says who asked."""

import pytest
from psycopg import Connection

from gapless import ops
from gapless.features.scheduled.schedules import Schedule, add_schedule
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.gateways import Client, Open, problem


@pytest.fixture
def operated(open_gateway: Open, orders: Topic, conn: Connection) -> Client:
    """A gateway that operates, topic orders, ordered group billing and queue group letters."""
    conn.execute("select gapless.create_group('billing', 'orders')")
    conn.execute("select gapless.create_group('letters', 'orders', mode => 'queue')")
    return open_gateway(operates=True)


def test_lists(operated: Client) -> None:
    assert operated.get("/v1/topics").json()[0]["topic"] == "orders"
    assert [each["partition"] for each in operated.get("/v1/topics/orders").json()] == [0, 1]
    found = {each["group"]: each["mode"] for each in operated.get("/v1/groups").json()}
    assert found == {"billing": "ordered", "letters": "queue"}
    assert len(operated.get("/v1/groups/billing").json()) == 2
    assert operated.get("/v1/dlq").json() == operated.get("/v1/schedules").json() == []


def test_pause_and_resume(operated: Client, conn: Connection) -> None:
    done = operated.post("/v1/groups/billing/pause", json={"topic": "orders", "reason": "deploy"})
    assert done.json()["new_pauses"] == 1
    row = conn.execute("select reason from gapless.group_pause").fetchone()
    assert row == ("deploy",)
    assert operated.post("/v1/groups/billing/resume", json={}).json()["ended_pauses"] == 1


@pytest.mark.long
def test_seek(operated: Client, conn: Connection) -> None:
    operated.publish(*range(10), wait="offset")
    place = "select sum(next_offset) from gapless.consumer_offsets where group_id = 'billing'"
    (plan, *_) = operated.post("/v1/groups/billing/seek", json={"to": "latest"}).json()
    assert plan["current_offset"] == 1
    assert conn.execute(place).fetchone() == (2,), "a look changes nothing"
    operated.post("/v1/groups/billing/seek", json={"to": "latest", "apply": True})
    assert conn.execute(place).fetchone() == (12,)


def test_dead_letters(operated: Client, conn: Connection) -> None:
    operated.publish("a", "b", wait="offset")
    for _ in range(2):
        (taken,) = ops.take(conn, "letters", "orders")
        ops.reject(conn, taken.held, "bad address")
    first, second = operated.get("/v1/dlq", params={"group": "letters"}).json()
    places = [f"letters/orders/{each['partition']}@{each['offset']}" for each in (first, second)]
    shown = operated.get("/v1/dlq/unit", params={"place": places[0]}).json()
    assert shown["unit"]["reason"] == "bad address"
    assert len(shown["events"]) == 1
    done = operated.post("/v1/dlq/redrive", json={"place": places[0]})
    assert done.json()["outcome"] == "asked"
    done = operated.post("/v1/dlq/discard", json={"place": places[1], "reason": "no use"})
    assert done.json()["outcome"] == "discarded"
    who = conn.execute("select discarded_by from gapless.dead_letter where state = 'discarded'")
    assert who.fetchone() == ("gateway: without a key",)
    problem(operated.post("/v1/dlq/redrive", json={"place": places[1]}), 409)


def test_schedules(operated: Client, conn: Connection) -> None:
    add_schedule(conn, Schedule(name="nightly", topic="orders", cron="0 3 * * *"))
    assert operated.get("/v1/schedules").json()[0]["name"] == "nightly"
    path = "/v1/schedules/nightly"
    assert operated.post(f"{path}/pause", json={}).json() == {"name": "nightly", "changed": True}
    assert operated.post(f"{path}/resume", json={}).json()["changed"] is True
    assert operated.post(f"{path}/run", json={}).json()["transaction_id"]


def test_a_webhook_is_sent_again_what_it_got(operated: Client, conn: Connection) -> None:
    url, secrets = "https://shop.example/", ["env:HOOK"]
    ops.add_webhook(conn, "shared", "orders", url, secrets=secrets, shared=True)
    publish(conn, "orders", {"n": 1}, key="k")
    sequence(conn)
    path = "/v1/webhooks/shared/replay"
    # Its group has not come to it, so it gets it anyway.
    assert operated.post(path, json={"since": "2h"}).json() == {"name": "shared", "units": 0}
    ops.seek(conn, ops.GroupPlace(group="webhooks-orders"), ops.Point.parse("latest"))
    waiting = "select count(*) from gapless.dead_letter where state = 'waiting'"
    asked = operated.post(path, json={"since": "2h", "dry_run": True})
    assert asked.json() == {"name": "shared", "units": 1, "dry_run": True}
    assert conn.execute(waiting).fetchone() == (0,)
    assert operated.post(path, json={"since": "2h"}).json() == {"name": "shared", "units": 1}
    since = "2000-01-01T00:00Z"
    assert operated.post(path, json={"since": since}).json() == {"name": "shared", "units": 1}
    assert conn.execute(waiting).fetchone() == (1,)


def test_the_audit_says_whose_key_it_was(
    open_gateway: Open, orders: Topic, conn: Connection
) -> None:
    """Every row that a request writes has the key behind the gateway's role; another's has none."""
    conn.execute("select gapless.create_group('letters', 'orders', mode => 'queue')")
    url, secrets = "https://shop.example/", ["env:HOOK"]
    ops.add_webhook(conn, "shared", "orders", url, secrets=secrets, shared=True)
    add_schedule(conn, Schedule(name="nightly", topic="orders", cron="0 3 * * *"))
    publish(conn, "orders", {"n": 1}, key="k")
    sequence(conn)
    ops.reject(conn, ops.take(conn, "letters", "orders")[0].held, "bad address")
    (unit,) = ops.list_units(conn, ops.DlqFilter(group="letters"))
    gateway = open_gateway(operates=True, asks_keys=True, sessions=1)
    made = ops.create_key(conn, "ops", ["operate"])
    newest = "select coalesce(max(audit_id), 0) from gapless.audit"
    before = conn.execute(newest).fetchone()
    for path, body in (
        ("/v1/dlq/edit", {"place": str(unit.place), "payloads": {str(unit.offset): "2"}}),
        ("/v1/groups/letters/pause", {}),
        ("/v1/groups/letters/seek", {"to": "earliest", "apply": True}),
        ("/v1/groups/letters/resume", {}),
        ("/v1/schedules/nightly/pause", {}),
        ("/v1/schedules/nightly/resume", {}),
        ("/v1/webhooks/shared/pause", {}),
        ("/v1/webhooks/shared/resume", {}),
        ("/v1/webhooks/shared/replay", {"since": "2h"}),
    ):
        headers = {"Authorization": f"Bearer {made.key}"}
        done = gateway.post(path, json=body, headers=headers)
        assert done.status_code == 200, (path, done.text)
    rows = conn.execute(
        "select action, who from gapless.audit where audit_id > %s", before
    ).fetchall()
    assert {"pause", "seek", "resume", "mend"} <= {action for action, _ in rows}
    assert len(rows) >= 9
    assert [who for _, who in rows if f"gateway: key {made.key_id} (ops)" not in who] == []
    ops.pause(conn, ops.GroupPlace(group="letters"))
    (role,) = conn.execute("select session_user::text").fetchone() or ()
    last = conn.execute("select who from gapless.audit order by audit_id desc limit 1").fetchone()
    assert last == (role,)


def test_the_log_says_who(operated: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gapless.gateway")
    operated.post("/v1/groups/billing/pause", json={"reason": "x\ny"})
    (line,) = [each.getMessage() for each in caplog.records if "operate" in each.getMessage()]
    assert "POST /v1/groups/billing/pause by gateway: without a key" in line
    assert "\n" not in line
