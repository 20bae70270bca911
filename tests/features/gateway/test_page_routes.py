"""The routes of the pages of features: rows of what is asked and answered, and of what is refused."""

from typing import Any

from psycopg import Connection

import gapless
from gapless import ops
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.gateways import Client, Open, problem

SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}}'


def test_a_schedule_is_looked_at_added_and_removed(operated: Client, conn: Connection) -> None:
    path = "/v1/schedules/nightly"
    body: dict[str, Any] = {"topic": "orders", "cron": "0 3 * * *", "zone": "Europe/Berlin"}
    seen = operated.post(path, json={**body, "dry_run": True}).json()
    assert [each[10:16] for each in seen["next_times"]] == ["T02:00"] * 3 or seen["next_times"]
    assert len(set(seen["next_times"])) == 3
    assert ops.list_schedules(conn) == []
    added = operated.post(path, json={**body, "payload": '{"n": "' + "x" * 5000 + '"}'}).json()
    assert added == {"name": "nightly", "topic": "orders", "next_due": seen["next_times"][0]}
    (made,) = ops.list_schedules(conn)
    assert (made.zone, made.missed) == ("Europe/Berlin", "once"), "defaults are the command's"
    for wrong in (
        {"cron": "no cron"},
        {"every": "1h"},
        {"zone": "Nowhere"},
        {"payload": "{"},
        {"missed": "perhaps"},
    ):
        problem(operated.post(path, json={**body, **wrong}), 400)
    problem(operated.post(path, json={**body, "topic": "no"}), 404)
    for changed in (True, False):
        assert operated.post(f"{path}/remove", json={}).json()["changed"] is changed


def test_events_for_later_are_found_and_cancelled(operated: Client, conn: Connection) -> None:
    for key, seconds in (("a", 600), ("b", 7200), ("c", 90_000)):
        gapless.publish(conn, "orders", {}, key=key, deliver_in=seconds)
    (at,) = conn.execute("select now() + interval '1 hour'").fetchone() or ()

    def found(**params: str) -> list[str]:
        return [each["key"] for each in operated.get("/v1/later", params=params).json()]

    assert found() == ["a", "b", "c"]
    assert found(key="b") == ["b"]
    assert found(until=at.isoformat()) == ["a"]
    assert found(since=at.isoformat(), topic="orders") == ["b", "c"]
    ids = [each.scheduled_id for each in ops.list_later(conn)][:2]
    done = operated.post("/v1/later/cancel", json={"scheduled_ids": [*ids, 99]}).json()
    assert [each["cancelled"] for each in done] == [True, True, False]
    noted = [(each.action, each.topic, each.detail["key"]) for each in ops.list_audit(conn)]
    assert noted == [("cancel", "orders", "b"), ("cancel", "orders", "a")]
    own = gapless.publish(conn, "orders", {}, deliver_in=600).scheduled_ids[0]
    assert ops.cancel_later(conn, [own])[0].cancelled
    assert len(ops.list_audit(conn)) == len(noted), "its own event is no operator's change"
    assert found() == ["c"]
    for wrong in (None, [None], "1", ["1"], [0], list(range(1, 1002))):
        problem(operated.post("/v1/later/cancel", json={"scheduled_ids": wrong}), 400)


def test_schemas_and_a_payload(operated: Client, conn: Connection) -> None:
    ops.add_schema(conn, "orders", SCHEMA, event_type="placed")
    (listed,) = operated.get("/v1/schemas", params={"brief": "true"}).json()
    assert (listed["topic"], listed["version"], listed["schema"]) == ("orders", 1, "")
    (whole,) = operated.get("/v1/schemas", params={"brief": "false"}).json()
    assert whole["schema"] == SCHEMA
    problem(operated.get("/v1/schemas", params={"brief": "perhaps"}), 400)
    shown = operated.get("/v1/topics/orders/schema", params={"event_type": "placed"}).json()
    assert shown["schema"] == SCHEMA
    path, long = "/v1/topics/orders/schema/test", '{"n": 1, "text": "' + "x" * 30_000 + '"}'
    for payload, more, fits, reason in (
        (long, {"event_type": "placed"}, True, None),
        ('{"n": "x"}', {"event_type": "placed", "version": 1}, False, "integer"),
        ("{", {"event_type": "placed"}, False, "Expecting"),
    ):
        answer = operated.post(path, json={"payload": payload, **more}).json()
        assert answer["fits"] is fits
        assert reason is None or reason in answer["reason"]
    problem(operated.post(path, json={"event_type": "placed"}), 400)


def test_subscriptions_are_changed(operated: Client, conn: Connection) -> None:
    """As by the commands: the same answers, and the same place in the audit, with the caller."""
    ops.create_group(conn, "mails", "orders")
    path = "/v1/groups/mails/subscriptions"
    ann = {"topic": "orders", "name": "ann/1", "match": '{"id": "$.id"}', "params": '{"id": 17}'}
    assert operated.post(path, json={**ann, "expires_after_s": "30d"}).json()["changed"] is True
    (made,) = operated.get(path).json()
    assert (made["name"], made["match"], made["params"]) == ("ann/1", {"id": "$.id"}, {"id": 17})
    assert made["expires_after_s"] == 30 * 86_400
    assert operated.post(f"{path}/renew", json={"name": "ann/1"}).json()["renewed"] is True
    operated.post(path, json={"name": "ann/1", "where": "$.n > 2"})
    (made,) = ops.list_subscriptions(conn, ops.GroupPlace(group="mails"))
    assert (made.match, made.where, made.expires_after_s) == ({}, '($."n" > 2)', None), "replaced"
    assert operated.post(f"{path}/resume", json={"name": "ann/1"}).json()["resumed"] is False
    for changed in (True, False):
        assert operated.post(f"{path}/remove", json={"name": "ann/1"}).json()["changed"] is changed
    for wrong, status in (
        ({"name": "x"}, 400),
        ({"name": "x", "match": "{"}, 400),
        ({"name": "x", "where": "$.("}, 400),
        ({"name": "x", "where": "$.n > 2", "topic": "no"}, 404),
    ):
        problem(operated.post(path, json=wrong), status)
    problem(operated.post(f"{path}/renew", json={"name": "nobody"}), 404)
    problem(operated.post(f"{path}/forget", json={"name": "ann/1"}), 404)


def test_a_group_takes_an_event_or_passes_it(operated: Client, conn: Connection) -> None:
    for group in ("all", "some", "many"):
        conn.execute("select gapless.create_group(%s, 'orders')", [group])
    ops.set_filter(conn, ops.GroupPlace(group="some"), where="$.n > $min", params={"min": 1})
    for name, most in (("low", 2), ("lower", 1)):
        place = ops.GroupPlace(group="many")
        ops.subscribe(conn, place, name, where="$.n <= $most", params={"most": most})
    for n in (1, 2, 3):
        gapless.publish(conn, "orders", {"n": n}, key="k")
    sequence(conn)
    (partition,) = conn.execute("select gapless.partition_of('k', 2)").fetchone() or ()

    def asked(group: str, event: str) -> Any:
        return operated.get(f"/v1/groups/{group}/takes", params={"event": event})

    for group, taken in (("all", "111"), ("some", "011"), ("many", "110")):
        answers = [asked(group, f"{partition}@{n}").json() for n in (1, 2, 3)]
        assert [str(int(each["takes"])) for each in answers] == list(taken), group
    assert asked("many", f"{partition}@1").json()["subscriptions"] == ["low", "lower"]
    assert asked("many", f"{partition}@2").json()["subscriptions"] == ["low"]
    names = [each["name"] for each in operated.get("/v1/groups/many/subscriptions").json()]
    assert names == ["low", "lower"]
    problem(asked("all", f"{partition}@4"), 404)
    for wrong in ("", "1", "@1", "1@", "0@0", "x@1"):
        problem(asked("all", wrong), 404 if wrong == "0@0" else 400)


def test_programs_and_the_doctor(operated: Client) -> None:
    kinds = {each["kind"] for each in operated.get("/v1/programs").json()}
    assert "gateway" in kinds
    assert operated.get("/v1/doctor").json() == {"age_s": None, "took_s": None, "findings": []}
    made = operated.post("/v1/doctor", json={}).json()
    assert {"members", "chunks"} <= {each["name"] for each in made["findings"]}
    again = operated.get("/v1/doctor").json()
    assert again["findings"] == made["findings"]
    assert again["age_s"] >= made["age_s"]


def test_a_caller_gives_scopes_that_it_has(
    open_gateway: Open, orders: Topic, conn: Connection
) -> None:
    gateway = open_gateway(operates=True, asks_keys=True)
    made = ops.create_key(conn, "ops", ["operate", "publish:orders*"], expires_in_s=86_400)
    reader = ops.create_key(conn, "reader", ["read:*"])

    def post(path: str, key: str = made.key, **body: Any) -> Any:
        return gateway.post(path, json=body, headers={"Authorization": f"Bearer {key}"})

    for scopes, status in (
        ("publish:orders", 200),
        ("read:*, operate, publish:orders*", 200),
        ("publish:*", 403),
        ("consume:letters", 403),
        ("read:orders, publish:mails", 403),
        (" , ", 400),
    ):
        done = post("/v1/keys", name="shop", scopes=scopes, expires="90d")
        assert done.status_code == status, (scopes, done.text)
    problem(post("/v1/keys", name="shop", scopes="read:*", expires="soon"), 400)
    problem(post("/v1/keys", reader.key, name="shop", scopes="read:*"), 403)
    listed = gateway.get("/v1/keys", headers={"Authorization": f"Bearer {made.key}"})
    new = [each for each in listed.json() if each["name"] == "shop"]
    assert [each["scopes"] for each in new] == [
        ["read:*", "operate", "publish:orders*"],
        ["publish:orders"],
    ]
    own, *others = [each.expires for each in reversed(ops.list_keys(conn)) if each.expires]
    assert others == [own, own], "not beyond its maker"
    sooner = post("/v1/keys", name="soon", scopes="read:*", expires="1h").json()
    assert sooner["expires"] < new[0]["expires"]
    assert "gk_" not in listed.text
    for revoked in (True, False):
        done = post(f"/v1/keys/{new[0]['key_id']}/revoke").json()
        assert done == {"key_id": new[0]["key_id"], "revoked": revoked}
    ops.add_schema(conn, "orders", SCHEMA)
    tried = post("/v1/topics/orders/schema/test", reader.key, payload='{"n": 1}')
    assert tried.json()["fits"], "it reads, and needs no more"
    problem(post("/v1/schedules/nightly", reader.key, topic="orders", every="1h"), 403)
    audit = gateway.get(
        "/v1/audit",
        params={"who": "(ops)", "limit": 10},
        headers={"Authorization": f"Bearer {reader.key}"},
    )
    assert [each["action"] for each in audit.json()] == ["revoke-key"] + 3 * ["create-key"]
    assert audit.json()[0]["detail"]["key"] == new[0]["key_id"]


def test_keys_come_in_pages(operated: Client, conn: Connection) -> None:
    """The newest first; the last one of a page leads to the next."""
    for name in "abc":
        ops.create_key(conn, name, ["read:*"])
    seen, before = [], None
    while page := operated.get("/v1/keys", params={"limit": 2, "before": before}).json():
        seen += [each["name"] for each in page]
        before = page[-1]["key_id"]
    assert seen == ["c", "b", "a"]
    assert operated.get("/v1/keys", params={"before": "0" * 16}).json() == []
