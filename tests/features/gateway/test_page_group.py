"""A group's page and the dead letters in a real browser: causes, a selection, a redrive until it is handled."""

from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from gapless.testing import drain
from support.browser import IN_BROWSER, fits_a_phone, go, shows

pytestmark = IN_BROWSER
UNITS = 60


def work(dsn: str, *fails: str) -> None:
    """Handle all events of orders for group billing; those of these types fail."""

    @gapless.handler(topic="orders", group="billing")
    def handle(unit: gapless.Unit, conn: object) -> None:
        for event in unit:
            if event.event_type in fails:
                raise ValueError(f"order {event.offset} is {event.event_type}")

    drain(dsn, handle)


@pytest.fixture
def dead(conn: Connection, dsn: str, orders: Topic) -> None:
    """60 units that failed because they are late, one because it is lost."""
    for n in range(UNITS):
        publish(conn, "orders", NewEvent(payload={"n": n}, key=f"k{n}", event_type="late"))
    publish(conn, "orders", NewEvent(payload=b'{"n": [1.50, {}]}', key="x", event_type="lost"))
    work(dsn, "late", "lost")


def states(conn: Connection) -> dict[str, int]:
    return dict(
        conn.execute("select state, count(*) from gapless.dead_letter group by 1").fetchall()
    )


def test_from_causes_to_a_redrive_until_it_is_handled(
    page: Any, dead: None, conn: Connection, dsn: str
) -> None:
    go(page, "#/dead", "61 units")
    shows(page, "1 to 50 of 61")
    page.click("a:text-is('older')")
    shows(page, "51 to 61 of 61")
    page.click("a:text-is('by type')")
    page.click("td a:text-is('late')")
    shows(page, "type: late", ".chips")
    shows(page, "60 units")
    page.click("a:text-is('by error')")
    page.click("td a:has-text('order # is late')")
    shows(page, "cause: ", ".chips")
    page.click("a[aria-label='without the filter type']")
    page.locator(".chip:has-text('type: late')").wait_for(state="detached")
    shows(page, "60 units")
    # Another program discards one of them under the question: refused, in a sentence.
    page.click("button:text-is('Redrive all of these')")
    shows(page, "Redrive 60 units of billing/orders, cause ", "dialog")
    late = ops.list_units(conn, ops.DlqFilter(event_type="late"))
    ops.discard_unit(conn, late[-1].place, reason="a test")
    page.click("dialog button[value=yes]")
    shows(page, "the selection changed: the filter finds 59 units now, not 60", "#toast")
    assert states(conn) == {"dead": 60, "discarded": 1}
    page.reload()
    shows(page, "59 units")
    for unit in late[:2]:
        page.check(f"input[aria-label='choose {unit.place}']")
    page.click("button:text-is('Redrive the 2 chosen units')")
    shows(page, "Redrive 2 units of billing/orders?", "dialog")
    page.click("dialog button[value=yes]")
    shows(page, "0 of 2 units handled again")
    shows(page, "57 units")
    page.click("button:text-is('Redrive all of these')")
    page.click("dialog button[value=yes]")
    shows(page, "0 of 59 units handled again, 0 failed again, 59 to come")
    work(dsn)
    shows(page, "59 of 59 units handled again, 0 failed again, 0 to come")


def test_a_list_of_letters_says_that_there_are_more(
    page: Any, dead: None, conn: Connection, dsn: str
) -> None:
    """It stays until it is asked for, and then its choice does."""
    last = ops.list_units(conn, ops.DlqFilter())[0]
    go(page, "#/dead", "61 units")
    page.check(f"input[aria-label='choose {last.place}']")
    publish(conn, "orders", NewEvent(payload=1, event_type="late"))
    work(dsn, "late")
    shows(page, "1 more since")
    page.click("button:text-is('Show')")
    shows(page, "62 units")
    shows(page, "Redrive the 1 chosen unit")


def test_a_letter_leads_to_its_group_and_its_like(page: Any, dead: None, conn: Connection) -> None:
    (lost,) = ops.list_units(conn, ops.DlqFilter(event_type="lost"))
    place = lost.place
    go(page, f"#/dead/billing/orders/{place.partition}/{place.offset}", "Attempts")
    shows(page, "1.50", ".payload")  # as it was published
    shows(page, f"order {lost.offset} is lost", ".frames + details, .error")
    assert "test_page_group.py" in page.inner_text(".frames li:first-child")
    page.click("a:text-is('1 unit of this group')")
    shows(page, "order # is lost", ".chips")
    go(page, "#/groups/billing/orders", "Errors")
    page.click("td a:has-text('order # is late')")
    shows(page, "60 units")
    page.set_viewport_size({"width": 400, "height": 800})
    fits_a_phone(page)


def test_a_group_says_its_state_and_what_applies(
    page: Any, orders: Topic, conn: Connection, dsn: str
) -> None:
    for n in range(5):
        publish(conn, "orders", {"n": n})
    sequence(conn)
    ops.create_group(conn, "billing", "orders")
    place = ops.GroupPlace(group="billing", topic="orders")
    go(page, "#/groups/billing/orders", "Nobody works on it, 5 events behind")
    shows(page, "start gapless run with a handler of the group", ".remedy")
    buttons = ".buttons button"
    assert "Resume" not in page.locator(buttons).all_inner_texts()
    page.click("button:text-is('Filter …')")
    page.fill("dialog input[name=event_types]", "order.*")
    page.click("dialog button[value=yes]")
    shows(page, "It takes order.*.")
    page.click("button:text-is('Take all events')")
    page.click("dialog button[value=yes]")
    shows(page, "It takes all events.")
    page.click("button:text-is('Seek …')")
    page.fill("input[name=time]", "2099-06-15T12:00:00")
    assert page.input_value("input[name=to]").startswith("2099-06-1")
    page.fill("input[name=to]", "latest")
    page.click("button:text-is('Preview')")
    shows(page, "0 events will be handled again, 5 events never.")
    ops.pause(conn, place, reason="deploy")
    shows(page, "Paused since")
    shows(page, "deploy", ".standing")
    page.locator("button:text-is('Resume')").wait_for()
    assert "Pause …" not in page.locator(buttons).all_inner_texts()
    ops.resume(conn, place)
    ops.create_group(conn, "mail", "orders", mode="queue")
    ops.take(conn, "mail", "orders", max_events=2)
    go(page, "#/groups/mail/orders", "time to empty")
    shown = page.inner_text("main dl")
    assert [word in shown for word in ("open", "in hand", "lapsed", "throughput")] == [True] * 4
