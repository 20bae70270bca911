"""Pages of features in a real browser: real data with hostile names, and the deeds of each page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.browser import chromium
from support.gateways import Client, Open

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # a browser, on a busy machine
HOSTILE = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>"
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
WIDER = '{"type": "object", "properties": {"n": {"type": "number"}}}'


@pytest.fixture
def gateway(open_gateway: Open, orders: Topic) -> Client:
    """A gateway with an operator's routes."""
    return open_gateway(operates=True)


@pytest.fixture
def page(gateway: Client) -> Iterator[Any]:
    """The page; nothing hostile ran, and the policy of its content was never broken."""
    with chromium() as browser:
        made = browser.new_page(viewport={"width": 1280, "height": 900})
        made.set_default_timeout(15_000)
        problems: list[str] = []
        made.on("pageerror", lambda error: problems.append(str(error)))
        made.on(
            "console",
            lambda said: problems.append(said.text) if "Content Security" in said.text else None,
        )
        made.goto(f"{gateway.url}/")
        made.wait_for_selector("#verdict")
        yield made
        assert made.evaluate("window.hit") is None
        assert problems == []


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


def shows(page: Any, text: str, where: str = "main") -> None:
    page.locator(where).filter(has_text=text).first.wait_for()


def go(page: Any, where: str, *wanted: str) -> None:
    page.evaluate("where => { location.hash = where }", where)
    for text in wanted:
        shows(page, text)


def yes(page: Any, button: str, **fields: str) -> None:
    """Press a button, fill the fields of its question, and say yes."""
    page.click(f"main button:text-is('{button}')")
    for name, value in fields.items():
        page.fill(f"dialog input[name={name}]", value)
    page.click("dialog button[value=yes]")


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
        ("#/retention", "in use", "held by", "remedy"),
    ):
        go(page, where, *wanted)


def test_the_doctor_examines_on_demand(page: Any, gateway: Client) -> None:
    go(page, "#/doctor", "No examination yet")
    page.click("button:text-is('Examine now')")
    shows(page, "start one: gapless run")
    shows(page, "ago, in")
    newest = gateway.get("/v1/doctor").json()
    again = gateway.post("/v1/doctor", json={}).json()  # one of the last seconds counts
    assert again["age_s"] > 0
    assert again["took_s"] == newest["took_s"]


def test_keys_are_shown_once_and_revoked(page: Any, gateway: Client, conn: Connection) -> None:
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
    assert page.locator("#times time, #times").count() >= 1
    assert [each.name for each in ops.list_schedules(conn)] == ["nightly"], "a look adds nothing"
    yes(page, "Add")
    shows(page, "30 * * * *")
    assert {each.name for each in ops.list_schedules(conn)} == {"nightly", "hourly"}
    page.check("input[type=checkbox] >> nth=0")
    page.check("input[type=checkbox] >> nth=1")
    page.click("main button:text-is('Cancel these')")
    shows(page, "Cancel 2 events?", "dialog")
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
        ("{", "", "It does not fit"),
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


ATTEMPTS = """
select gapless.record_attempts(1000, array_agg('shop'::text), array_agg(extract(epoch from now())::float8),
  array_agg(2.5::float8), array_agg(0), array_agg(n::bigint), array_agg(%(hostile)s::text), array_agg(n),
  array_agg(case when n <> 60 then 204 end), array_agg(case when n = 60 then %(hostile)s::text end))
from generate_series(1, 150) n
"""


def test_requests_of_a_webhook_come_in_pages(page: Any, conn: Connection, filled: None) -> None:
    """As endpoints do; those that failed, alone; a row leads to its event."""
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
    assert rows.count() == 100
    page.click("main button:text-is('Older requests')")
    shows(page, HOSTILE, "main td.text .bad")
    assert rows.count() == 150
    page.click("main button:text-is('Failed only')")
    page.wait_for_function(
        "document.querySelectorAll('main section:last-child tbody tr').length === 1"
    )
    assert rows.first.locator("a").get_attribute("href") == "#/topics/orders/0/60"
    assert page.evaluate("location.hash") == "#/webhooks/shop?failed=1"
    page.reload()
    shows(page, "orders/0@60")
    assert rows.count() == 1
