"""Topics and events in a real browser: live, with filters, as a tree; a test event, a new topic."""

import json
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from gapless.testing import drain
from support.browser import IN_BROWSER, go, shows

pytestmark = IN_BROWSER
HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\'&lt;javascript:alert(1)'
WRITTEN = '{"id":12345678901234567890,"price":1.50,"n":[1e400,7]}'


def rows(page: Any, number: int) -> list[str]:
    """Wait for so many rows of events; return the last cell of each."""
    page.wait_for_function(
        "n => document.querySelectorAll('main tbody tr').length === n", arg=number
    )
    return [str(each) for each in page.locator("main tbody td:last-child").all_inner_texts()]


def put(conn: Connection, *events: NewEvent) -> None:
    """Publish events, each a unit, and give them offsets."""
    for each in events:
        publish(conn, "orders", each)
    sequence(conn)


def test_the_newest_events_are_there_and_new_ones_come(
    page: Any, conn: Connection, orders: Topic
) -> None:
    put(conn, *(NewEvent(payload=n, key=f"k{n % 9}") for n in range(60)))
    go(page, "#/topics/orders", "live")
    assert rows(page, 50) == [str(n) for n in range(59, 9, -1)]
    put(conn, NewEvent(payload=WRITTEN.encode(), key=HOSTILE, event_type=HOSTILE))
    assert rows(page, 51)[0] == WRITTEN  # JavaScript has no such numbers
    assert HOSTILE in page.inner_text("main tbody")
    page.click("button:text-is('Pause')")
    put(conn, NewEvent(payload="late", key="k"))
    shows(page, "1 new event")
    assert len(rows(page, 51)) == 51
    page.click("button:text-is('Continue')")
    assert rows(page, 52)[:2] == ['"late"', WRITTEN]
    page.locator("main tbody tr").last.scroll_into_view_if_needed()
    put(
        conn, NewEvent(payload="x" * 158 + "😀😀", key="k")
    )  # the rows that somebody reads do not move
    shows(page, "new events are shown at the top of the list")
    assert rows(page, 52)[0] == '"late"'
    page.keyboard.press("Home")
    assert rows(page, 53)[0] == '"' + "x" * 158 + "😀 …"  # cut, but within no character
    page.click("button:text-is('Older events')")
    assert rows(page, 63)[-1] == "0"
    assert page.locator("button:text-is('Older events')").count() == 0
    page.press("main tbody tr", "Enter")
    shows(page, "orders/", "h1")
    shows(page, "Chain")


def test_filters_are_in_the_address_and_go_with_their_chips(
    page: Any, conn: Connection, orders: Topic
) -> None:
    put(
        conn,
        *(NewEvent(payload={"n": n}, key="ab"[n % 2], event_type="xy"[n // 5]) for n in range(10)),
    )
    go(page, "#/topics/orders", "live")
    page.fill("input[name=key]", "a")
    page.fill("input[name=where]", "$.n > 3")
    page.press("input[name=where]", "Enter")
    assert rows(page, 3) == [json.dumps({"n": n}, separators=(",", ":")) for n in (8, 6, 4)]
    assert "key=a" in page.url
    put(conn, NewEvent(payload={"n": 12}, key="b"), NewEvent(payload={"n": 14}, key="a"))
    assert rows(page, 4)[0] == '{"n":14}'  # the other one is of no interest
    page.reload()
    rows(page, 4)
    assert page.input_value("input[name=where]") == "$.n > 3"
    page.click(".chip:has-text('payload')")
    rows(page, 6)
    assert "where" not in page.url
    page.click(".chip:has-text('key')")
    rows(page, 12)
    page.fill("input[name=types]", "y")
    page.click("button:text-is('Filter')")
    rows(page, 5)
    place = page.inner_text("main tbody tr:last-child td")
    page.fill("input[name=types]", "")
    page.fill("input[name=at]", place)
    page.click("button:text-is('Filter')")
    page.wait_for_function(
        "place => document.querySelector('main tbody td')?.innerText === place", arg=place
    )
    for wrong, sentence in (
        ("at=here", "here is no place: write partition@offset"),
        ("since=2026-02-02T00:00:00Z&until=2026-02-01T00:00:00Z", "no event is between them"),
        ("where=%24.(", "is no jsonpath"),
        ("transaction_id=x", "is not a transaction_id"),
        ("key=nobody", "No such event."),
    ):
        go(page, f"#/topics/orders?{wrong}", sentence)


CLIPBOARD_IS = "async (wanted) => (await navigator.clipboard.readText()) === wanted"
DEEP = {"who": HOSTILE, "in": {"it": [1, {HOSTILE: 2}]}}


@pytest.fixture
def dead(conn: Connection, dsn: str, orders: Topic) -> ops.GroupPlace:
    """A hostile event between two others of its key: billing publishes because of it, strict refuses it."""
    ensure_topic(conn, "mails", partitions=1)
    made = NewEvent(payload=DEEP, key="k", event_type="made", headers={HOSTILE: HOSTILE})
    put(conn, NewEvent(payload=1, key="k"), made, NewEvent(payload=3, key="k"))
    conn.execute("select gapless.create_group('behind', 'orders')")

    @gapless.handler(topic="orders", group="billing")
    def bill(unit: gapless.Unit, conn: Connection) -> None:
        for event in unit:
            gapless.publish(conn, "mails", {"to": event.key}, key="m")

    @gapless.handler(topic="orders", group="strict")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        if any(event.event_type for event in unit):
            raise ValueError(HOSTILE)

    drain(dsn, bill)
    drain(dsn, refuse)
    return ops.list_units(conn, ops.DlqFilter(group="strict"))[0].place


def test_the_payload_of_an_event(page: Any, dead: ops.GroupPlace) -> None:
    go(page, f"#/topics/orders/{dead.partition}/{dead.offset}", "Chain")
    shown = page.inner_text("main")
    assert f"header {HOSTILE}" in shown
    assert f'"who": {json.dumps(HOSTILE)}' in shown
    assert HOSTILE not in page.inner_text(".payload details details")
    page.focus(".payload details details > summary")
    page.keyboard.press("Enter")
    page.click("button:text-is('Expand')")
    page.click("button:text-is('Expand')")  # a level each
    shows(page, json.dumps(HOSTILE), ".payload details details")
    page.click("button:text-is('Text')")
    assert page.inner_text(".payload pre") == json.dumps(DEEP, indent=2)
    for button, copied in (
        ("place", str(dead).removeprefix("strict/")),
        ("payload", json.dumps(DEEP, separators=(",", ":"))),
    ):
        page.click(f"button:text-is('Copy {button}')")
        page.wait_for_function(CLIPBOARD_IS, arg=copied)
        shows(page, "copied", "#toast")


def test_an_event_leads_to_others(page: Any, dead: ops.GroupPlace) -> None:
    """To those of its chain, of its partition and of its key, and to its dead letter."""
    go(page, f"#/topics/orders/{dead.partition}/{dead.offset}", "behind by 2 events")
    page.click("main .chain a:text-is('mails/0@2')")
    shows(page, "mails/0@2", "h1")
    page.click(".chain a:has-text('orders/')")  # its cause
    shows(page, f"orders/{dead.partition}@{dead.offset}", "h1")
    page.click("main td a:has-text('dead letter')")
    page.wait_for_url(f"**#/dead/strict/orders/{dead.partition}/{dead.offset}")
    page.go_back()
    page.click("a:text-is('next of the key →')")
    shows(page, f"@{dead.offset + 1}", "h1")
    page.wait_for_selector("span:text-is('next →')")  # no link
    page.click("a:text-is('← previous of the key')")
    shows(page, f"@{dead.offset}", "h1")
    page.click("a:text-is('← previous')")
    shows(page, f"@{dead.offset - 1}", "h1")
    page.click("dd a:text-is('k')")
    rows(page, 3)
    go(page, "#/topics/orders/0/999", "is not there")


def test_a_large_payload_is_cut_until_somebody_wants_it(
    page: Any, conn: Connection, orders: Topic
) -> None:
    large = {"rows": ["r" * 1000] * 300, "names": {str(n): n for n in range(500)}}
    nested = f'{{"nested": {"[" * 5000}{"]" * 5000}}}'
    put(conn, NewEvent(payload=None, key="k"), NewEvent(payload=nested.encode(), key="k"))
    put(conn, NewEvent(payload=large, key="k"))
    with page.expect_response("**/search*") as answer:
        go(page, "#/topics/orders", "live")
    assert len(answer.value.body()) < 4_000
    assert [each[:4] for each in rows(page, 3)] == ['{"ro', '{"ne', "null"]
    with page.expect_response("**/events/*/*") as answer:
        page.click("main tbody tr:first-child td a")
    assert len(answer.value.body()) < 110_000
    shows(page, "The first 97.7 KiB of a large payload")
    page.click("button:text-is('Show all')")
    page.click(".payload summary:has-text('names')")
    page.click("button:text-is('300 more')")
    shows(page, '"399": 399', ".payload")
    page.click("a:text-is('← previous')")
    shows(page, "@2", "h1")
    page.click("button:text-is('Text')")
    shows(page, "nested too deep", ".payload pre")
    page.click("a:text-is('← previous')")
    shows(page, "null", ".payload pre")


def test_a_test_event_is_checked_and_its_place_is_told(
    page: Any, conn: Connection, orders: Topic
) -> None:
    schema = '{"type": "object", "required": ["total"]}'
    ops.add_schema(conn, "orders", schema, event_type="order", compatibility="none")
    go(page, "#/topics/orders", "live")
    page.click("button:text-is('Publish an event …')")
    page.fill("dialog textarea", '{"total": 1.50')
    page.fill("dialog input[name=event_type]", "order")
    page.click("dialog button[value=yes]")
    assert page.evaluate("document.querySelector('dialog textarea').validationMessage")
    page.fill("dialog textarea", '{"price": 1.50}')
    page.fill("dialog input[name=headers]", "[]")
    page.click("dialog button[value=yes]")
    page.fill("dialog input[name=headers]", '{"from": "a person"}')
    page.click("dialog button[value=yes]")
    shows(page, "total", "main p.bad")  # the schema's refusal
    page.click("button:text-is('Publish an event …')")
    assert page.input_value("dialog textarea") == '{"price": 1.50}'
    page.fill("dialog textarea", '{"total": 1.50}')
    page.fill("dialog input[name=key]", HOSTILE)
    page.click("dialog button[value=yes]")
    page.click("main p:has-text('Published at') a")
    shows(page, "Chain")
    assert '"total": 1.50' in page.inner_text(".payload")
    written = conn.execute("select payload::text from gapless.outbox_message_t").fetchall()
    assert written == [('{"total": 1.50}',)], "as a person wrote it"
    shown = page.inner_text("dl")
    assert HOSTILE in shown
    assert "a person" in shown
    ensure_topic(conn, "copies", partitions=1)
    page.click("button:text-is('Publish again …')")
    page.fill("dialog input[name=topic]", "copies")
    page.click("dialog button[value=yes]")
    page.click("main p:has-text('Published at') a")
    shows(page, "copies/0@1", "h1")
    assert '"total": 1.50' in page.inner_text(".payload")
    assert page.inner_text("dl dd:nth-of-type(1)") == HOSTILE


def test_topics_are_created_altered_and_found(page: Any, conn: Connection, orders: Topic) -> None:
    go(page, "#/topics/nope", "There is no such topic.")
    assert page.locator("main button:visible").count() == 0
    put(conn, NewEvent(payload=1))
    go(page, "#/topics", "orders")
    page.click("button:text-is('Create a topic …')")
    page.fill("dialog input[name=name]", "bills")
    page.fill("dialog input[name=total_partitions]", "3")
    page.click("dialog button[value=yes]")
    shows(page, "created topic bills with 3 partitions", "#toast")
    page.wait_for_selector("main a:text-is('bills')")
    page.click("th button:text-is('events')")
    assert page.inner_text("main tbody td") == "orders"
    page.fill("main input[name=find]", "BIL")
    assert rows(page, 1) == ["nobody reads"]
    page.reload()
    rows(page, 1)
    page.click("main tbody tr")
    shows(page, "nobody reads it")
    page.click("button:text-is('Alter …')")
    page.fill("dialog input[name=partitions]", "5")
    page.fill("dialog input[name=retention]", "2d")
    page.click("dialog button[value=yes]")
    shows(page, "altered", "#toast")
    page.click(".tabs a:text-is('Settings')")
    shows(page, "2.0d, at least")
    page.click(".tabs a:text-is('Partitions')")
    rows(page, 5)
    (bills,) = [each for each in ops.list_topics(conn) if each.topic == "bills"]
    assert (bills.partitions, bills.retention_s) == (5, 172_800)
    page.click("button:text-is('Alter …')")
    page.fill("dialog input[name=retention]", "soon")
    page.click("dialog button[value=yes]")
    shows(page, "a whole number with its unit", "#toast")
