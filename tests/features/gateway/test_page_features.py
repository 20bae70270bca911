"""Pages of features in a real browser: real data with hostile names, and the deeds of each page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.features.gateway import examine
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.browser import IN_BROWSER, go, shows, yes
from support.gateways import Client

pytestmark = IN_BROWSER
HOSTILE = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>"
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
WIDER = '{"type": "object", "properties": {"n": {"type": "number"}}}'


@pytest.fixture
def filled(conn: Connection, orders: Topic) -> None:
    """Data for each page, with names and reasons of people that are hostile."""
    conn.execute("select gapless.create_group('billing', 'orders')")
    ops.pause(conn, ops.GroupPlace(group="billing"), reason=HOSTILE)
    ops.create_key(conn, HOSTILE, ["read:orders"])
    ops.add_schema(conn, "orders", SCHEMA, event_type=HOSTILE)
    ops.add_schema(conn, "orders", WIDER, event_type=HOSTILE)
    ops.add_schedule(conn, ops.Schedule(name="nightly", topic="orders", cron="0 3 * * *"))
    ops.add_webhook(conn, "shop", "orders", "https://shop.example/", secrets=["env:SHOP"])
    for group in ("some", "many"):
        conn.execute("select gapless.create_group(%s, 'orders')", [group])
    ops.set_filter(conn, ops.GroupPlace(group="some"), where="$.n > 1")
    ops.subscribe(conn, ops.GroupPlace(group="many"), HOSTILE, where="$.n > 2")
    for key in (HOSTILE, "second"):
        gapless.publish(conn, "orders", {"n": 2}, key=key, deliver_in=3600)


def test_each_page_shows_its_data(page: Any, filled: None) -> None:
    for where, *wanted in (
        ("#/doctor", "No examination yet", "gapless doctor"),
        ("#/audit", "pause", "create-key", "billing/orders", HOSTILE),
        ("#/audit?action=pause&who=nobody", "No change of this kind"),
        ("#/keys", HOSTILE, "read:orders", "valid", "never"),
        ("#/members", "start gapless run"),
        ("#/later", "nightly", "0 3 * * * UTC", HOSTILE, "second"),
        ("#/schemas", "orders", HOSTILE, "backward"),
        ("#/webhooks", "shop", "no supervisor delivers: gapless run --webhooks"),
        ("#/webhooks/shop", "gapless webhooks test shop", "none was given up"),
        ("#/subscriptions", "some", '"n" > 1', "the events of 1 subscription", "all events"),
        ("#/subscriptions/many/orders", HOSTILE, '"n" > 2', "matches"),
        ("#/topics/orders?view=settings", "schemas" + HOSTILE, "the log is held by"),
        ("#/retention", "in use", "held by", "remedy"),
    ):
        go(page, where, *wanted)


def test_the_doctor_examines_on_demand(
    page: Any, operated: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "FRESH_S", 600.0)  # on a busy machine as well
    go(page, "#/doctor", "No examination yet")
    page.click("button:text-is('Examine now')")
    shows(page, "start one: gapless run")
    shows(page, "ago, in")
    newest = operated.get("/v1/doctor").json()
    again = operated.post("/v1/doctor", json={}).json()  # one of the last seconds counts
    assert again["age_s"] > 0
    assert again["took_s"] == newest["took_s"]


def test_keys_are_shown_once_and_revoked(page: Any, operated: Client, conn: Connection) -> None:
    go(page, "#/keys", "No key yet")
    yes(page, "New key", name=HOSTILE, scopes="read:orders, publish:*", requests_s="5")
    shows(page, "shown this once", "dialog")
    key = page.inner_text("#secret")
    assert re.fullmatch("gk_[0-9a-f]{16}_.{43}", key)
    page.click("dialog button[value=yes]")
    shows(page, HOSTILE)
    assert key not in page.content()
    (made,) = ops.list_keys(conn)
    assert (made.scopes, made.requests_s) == (["read:orders", "publish:*"], 5.0)
    yes(page, "Revoke")
    shows(page, "revoked", "main td")
    go(page, "#/audit?action=revoke-key", made.key_id)
    assert [each.action for each in ops.list_audit(conn)] == ["revoke-key", "create-key"]


def test_a_schedule_is_added_and_events_are_cancelled(
    page: Any, filled: None, conn: Connection
) -> None:
    go(page, "#/later", "nightly")
    page.click("summary")
    page.fill("main form input[name=name] >> nth=0", "hourly")
    page.fill("details input[name=topic]", "orders")
    page.fill("details input[name=cron]", "no cron")
    shows(page, "cron", "#times .bad")
    page.fill("details input[name=cron]", "30 * * * *")
    page.fill("details input[name=zone]", "UTC")
    page.fill("details input[name=payload]", '{"n": 1}')
    shows(page, "next:", "#times")
    assert page.locator("#times time").count() >= 1
    assert [each.name for each in ops.list_schedules(conn)] == ["nightly"], "a look adds nothing"
    yes(page, "Add")
    shows(page, "30 * * * *")
    assert {each.name for each in ops.list_schedules(conn)} == {"nightly", "hourly"}
    page.click("tr:has(td:text-is('second')) button:text-is('Cancel')")
    page.click("dialog button[value=yes]")
    page.wait_for_selector("td:text-is('second')", state="detached")
    page.check("input[type=checkbox]")
    page.click("main button:text-is('Cancel these')")
    shows(page, "Cancel 1 event?", "dialog")
    page.click("dialog button[value=yes]")
    shows(page, "Nothing waits")
    assert ops.list_later(conn) == []


def test_a_payload_is_checked(page: Any, filled: None) -> None:
    go(page, "#/schemas", HOSTILE)
    page.click("main a")
    shows(page, "Differences")
    assert '-       "type": "integer"' in page.inner_text("main")
    assert '+       "type": "number"' in page.inner_text("main")
    for payload, version, answer in (
        ('{"n": 1.5}', "", "It fits version 2"),
        ('{"n": 1.5}', "1", "It does not fit version 1: /n"),
        ('{"n": "x"}', "", "a publisher is refused: /n"),
        ("{", "", "a publisher is refused: the payload"),
    ):
        page.fill("textarea", payload)
        page.fill("input[name=version]", version)
        page.click("button:text-is('Check')")
        shows(page, answer)


def test_a_filter_is_tried_on_an_event(page: Any, filled: None, conn: Connection) -> None:
    for n in (1, 2, 3):
        gapless.publish(conn, "orders", {"n": n}, key="k")
    sequence(conn)
    (partition,) = conn.execute("select gapless.partition_of('k', 2)").fetchone() or ()
    for group, offset, answer in (
        ("some", 1, "It is passed: nothing of the group matches"),
        ("some", 2, "It is taken: the filter matches"),
        ("many", 3, f"It is taken: subscriptions match: {HOSTILE}"),
        ("billing", 1, "It is taken: the group takes all events"),
        ("billing", 9, "has no event at"),
    ):
        go(page, f"#/subscriptions/{group}/orders", "Try an event")
        page.fill("input[name=partition]", str(partition))
        page.fill("input[name=offset]", str(offset))
        page.click("button:text-is('Try')")
        shows(page, answer)


def test_subscriptions_are_added_changed_and_removed(
    page: Any, filled: None, conn: Connection
) -> None:
    place = ops.GroupPlace(group="many")
    go(page, "#/subscriptions/many/orders", HOSTILE)
    yes(page, "Add a subscription …", name="ann", where="$.n > $min", params='{"min": 1}')
    shows(page, "subscription ann is set", "#toast")
    row = "tr:has(td:text-is('ann'))"
    page.click(f"{row} button:text-is('Change …')")
    assert page.input_value("dialog [name=where]") == '($."n" > $"min")'
    page.fill("dialog [name=params]", "{")
    page.click("dialog button[value=yes]")
    page.wait_for_selector("#toast.bad")
    page.click(f"{row} button:text-is('Change …')")
    page.fill("dialog [name=params]", '{"min": 9007199254740993}')
    page.fill("dialog [name=expires_after_s]", "30d")
    page.click("dialog button[value=yes]")
    page.click(f"{row} button:text-is('Renew')")
    page.click("dialog button[value=yes]")
    shows(page, "renewed", "#toast")
    page.click(f"{row} button:text-is('Change …')")
    page.fill("dialog [name=where]", "$.n >= $min")  # the rest stays, to the last digit
    page.click("dialog button[value=yes]")
    shows(page, '($."n" >= $"min")')
    (ann,) = [each for each in ops.list_subscriptions(conn, place) if each.name == "ann"]
    assert (ann.where, ann.params, ann.expires_after_s) == (
        '($."n" >= $"min")',
        {"min": 9007199254740993},
        30 * 86_400,
    )
    page.click(f"{row} button:text-is('Remove')")
    page.click("dialog button[value=yes]")
    page.wait_for_selector(row, state="detached")
    assert [each.name for each in ops.list_subscriptions(conn, place)] == [HOSTILE]


ATTEMPTS = """
select gapless.record_attempts(1000, array_agg('shop'::text), array_agg(extract(epoch from now())::float8),
  array_agg(2.5::float8), array_agg(0), array_agg(n::bigint), array_agg(%(hostile)s::text), array_agg(n),
  array_agg(case when n <> 60 then 204 end), array_agg(case when n = 60 then %(hostile)s::text end))
from generate_series(1, 150) n
"""


def test_requests_of_a_webhook_come_in_pages(page: Any, conn: Connection, filled: None) -> None:
    """As endpoints do; those that failed, alone; a row leads to its event."""
    go(page, "#/webhooks/nope", "There is no such webhook.")
    assert page.locator("main button:visible").count() == 0
    for n in range(150):
        url = "https://shop.example/"
        ops.add_webhook(conn, f"z{n:03}", "orders", url, secrets=["env:S"], shared=True)
    conn.execute(ATTEMPTS, {"hostile": HOSTILE})
    rows = page.locator("main section:has-text('Requests, the newest first') tbody tr")
    go(page, "#/webhooks", "z098")
    assert page.locator("main tbody tr").count() == 100
    page.click("main button:text-is('More endpoints')")
    shows(page, "z149")
    go(page, "#/webhooks/z149", "No such request in the last 24 hours")
    go(page, "#/webhooks/shop", "orders/0@150", "2.5")
    shows(page, HOSTILE, "main td.text .bad")
    assert rows.count() == 100
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.dblclick("main button:text-is('Older requests')")  # the page comes once
    rows.nth(149).wait_for()
    assert rows.count() == 150
    page.click("main button:text-is('Failed only')")
    rows.nth(1).wait_for(state="detached")
    assert sum("/v1/webhooks/shop/attempts" in url for url in asked) == 2
    assert rows.first.locator("a").get_attribute("href") == "#/topics/orders/0/60"
    assert page.evaluate("location.hash") == "#/webhooks/shop?failed=1"
    page.reload()
    shows(page, "orders/0@60")
    assert rows.count() == 1
