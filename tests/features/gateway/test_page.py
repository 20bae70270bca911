"""The page in a real browser: hostile text is only text, everything can be reached and done, on a phone as well."""

import json
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
from support.browser import IN_BROWSER, fits_a_phone, go, goes_to, shows, yes
from support.fleet import until

pytestmark = IN_BROWSER
HOSTILE = (
    '<img src=x onerror="window.hit=1"><script>window.hit=1</script>\'"&lt;javascript:window.hit=1'
    "\u202etxt\u200b"
)
SHOWN = HOSTILE.replace("\u202e", "\\u202e").replace("\u200b", "\\u200b")


@pytest.fixture
def dead(conn: Connection, dsn: str, orders: Topic) -> ops.GroupPlace:
    """A unit of group billing that was set aside, whose key, type, payload and error are hostile."""
    event = NewEvent(
        payload={"who": HOSTILE, "n": 1.5},
        key=HOSTILE,
        event_type=HOSTILE,
        headers={HOSTILE: HOSTILE},
    )
    publish(conn, "orders", event)

    @gapless.handler(topic="orders", group="billing")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        raise ValueError(HOSTILE)

    drain(dsn, refuse)
    return ops.list_units(conn, ops.DlqFilter(group="billing"))[0].place


def address(place: ops.GroupPlace) -> str:
    return f"#/dead/{place.group}/{place.topic}/{place.partition}/{place.offset}"


def test_what_is_hostile_is_text(page: Any, dead: ops.GroupPlace, conn: Connection) -> None:
    page.reload()
    assert SHOWN in go(page, "#/dead", "ValueError")
    shown = go(page, address(dead), "Traceback")
    assert SHOWN in shown
    assert json.dumps(HOSTILE) in shown  # in the payload
    go(page, "#/", "dead letter")
    go(page, "#/topics/orders", "Filter")
    page.fill("input[name=key]", HOSTILE)
    page.click("button:text-is('Filter')")
    shows(page, f"key: {SHOWN} ×", ".chip")
    shows(page, SHOWN, "main tbody td")
    go(page, f"#/groups/{HOSTILE.replace('/', '%2F')}/orders", "no such group")
    assert HOSTILE not in page.title()
    for where in ("<script>", "topics/..", "topics/%E0%A4%A", "constructor"):
        go(page, f"#/{where}", "no such page")
    for view in ("constructor", "__proto__"):
        go(page, f"#/topics/orders?view={view}", "no such view")


def test_what_a_filter_finds_is_named_before_it_is_changed(page: Any, dead: ops.GroupPlace) -> None:
    """The filter is in the address, so Back and a reload bring it again; the focus is not on yes."""
    go(page, "#/dead", "ValueError")
    page.fill("input[name=error]", "ValueError")
    page.click("form button:has-text('Filter')")
    goes_to(page, "#/dead?error=ValueError&states=dead")
    page.fill("input[name=error]", "nothing of the kind")
    page.select_option("select[name=states]", "waiting")
    page.click("form button:has-text('Filter')")
    shows(page, "No unit fits the filter.")
    page.reload()
    shows(page, "No unit fits the filter.")
    assert page.input_value("select[name=states]") == "waiting"
    page.go_back()
    shows(page, "ValueError")
    assert page.input_value("input[name=error]") == "ValueError"
    for button, focused in (("Redrive all of these", "no"), ("Discard all of these", "reason")):
        page.click(f"main button:has-text('{button}')")
        shows(page, f"{button.split()[0]} 1 unit of billing/orders", "dialog")
        assert (
            page.evaluate("document.activeElement.value || document.activeElement.name") == focused
        )
        page.click("dialog button[value=no]")
    go(page, address(dead), "Traceback")
    page.click("main button:text-is('Redrive')")
    shows(page, f"Redrive {dead} (1 event)?", "dialog")
    assert page.evaluate("document.activeElement.value") == "no"
    page.go_back()  # the question goes with its page
    shows(page, "by error")
    assert not page.locator("dialog").is_visible()


def test_an_event_that_nobody_edits_stays_as_it_was_written(
    page: Any, orders: Topic, conn: Connection, dsn: str
) -> None:
    numbers = b'{"n": 123456789.123456789}'
    publish(conn, "orders", [NewEvent(payload=each, key="a") for each in (b'{"n": 1}', numbers)])
    seen: list[bytes | None] = []

    @gapless.handler(topic="orders", group="billing")
    def take(unit: gapless.Unit, conn: object) -> None:
        seen[:] = [event.payload_json for event in unit]
        if b'{"mended": 1.50}' not in seen:
            raise ValueError("not yet")

    drain(dsn, take)
    go(page, address(ops.list_units(conn, ops.DlqFilter(group="billing"))[0].place), "Traceback")
    page.click("button:has-text('Edit and redrive')")
    page.locator("dialog textarea").nth(1).wait_for()
    edited, other = page.locator("dialog textarea").all()
    assert "123456789.123456789" in other.input_value()
    edited.fill('{"mended": 1.50}')
    page.click("dialog button[value=yes]")
    shows(page, "new payload", "#toast")
    drain(dsn, take)
    assert seen == [b'{"mended": 1.50}', numbers]
    assert ops.list_units(conn, ops.DlqFilter(group="billing")) == []


def test_discard_asks_for_a_reason(page: Any, dead: ops.GroupPlace, conn: Connection) -> None:
    go(page, address(dead), "Traceback")
    page.click("button:has-text('Discard')")
    page.click("dialog button[value=no]")
    assert ops.list_units(conn, ops.DlqFilter(group="billing"))
    yes(page, "Discard", reason="a test")
    shows(page, "discarded")
    (unit,) = ops.list_units(conn, ops.DlqFilter(states=["discarded"]))
    assert unit.place == dead


def test_pause_seek_with_a_preview_resume(
    page: Any, dead: ops.GroupPlace, conn: Connection
) -> None:
    go(page, "#/groups/billing/orders", "Partitions")
    held: list[tuple[Any, Any]] = []
    page.route("**/v1/status?*", lambda route: held.append((route, route.fetch())), times=1)
    page.evaluate("dispatchEvent(new Event('look'))")
    until(lambda: page.title() and held, "a look before the change is read")
    yes(page, "Pause …", reason="bad deploy")
    shows(page, "bad deploy")
    for route, answer in held:
        route.fulfill(response=answer)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert "bad deploy" in page.inner_text("main"), "an older answer came after a newer one"
    page.set_viewport_size({"width": 400, "height": 800})
    page.click("button:text-is('Seek …')")
    page.fill("input[name=to]", "earliest")
    page.click("button:has-text('Preview')")
    page.wait_for_selector("td[data-title='handled again']")
    fits_a_phone(page)
    offset = "select min(next_offset) from gapless.consumer_offsets where group_id = 'billing'"
    yes(page, "Seek")
    shows(page, "moved", "#toast")
    assert conn.execute(offset).fetchone() == (1,)
    yes(page, "Resume")
    shows(page, "resumed", "#toast")


def test_a_webhook_is_sent_again_what_it_got(page: Any, conn: Connection, orders: Topic) -> None:
    secrets = ["env:HOOK"]
    ops.add_webhook(conn, "own", "orders", "https://own.example/", secrets=secrets)
    go(page, "#/webhooks", "own")
    assert page.locator("button:has-text('Replay')").count() == 0
    ops.add_webhook(conn, "ann", "orders", "https://a.example/", secrets=secrets, shared=True)
    go(page, "#/", "orders")
    assert "no supervisor delivers" in go(page, "#/webhooks", "ann")
    publish(conn, "orders", {"n": 1}, key="k")
    sequence(conn)
    ops.seek(conn, ops.GroupPlace(group="webhooks-orders"), ops.Point.parse("latest"))
    waiting = "select count(*) from gapless.dead_letter where state = 'waiting'"
    page.click("button:has-text('Replay')")
    assert "It alone is called" in page.inner_text("dialog")
    for answer in ("no", "yes"):  # to what the preview says
        if answer == "yes":
            page.click("button:has-text('Replay')")
        page.click("dialog button:has-text('Preview')")
        shows(page, "1 unit since 2h would be sent again", "dialog")
        assert conn.execute(waiting).fetchone() == (0,)
        page.click(f"dialog button[value={answer}]")
    shows(page, "1 unit sent again", "#toast")
    assert conn.execute(waiting).fetchone() == (1,)


def test_the_keyboard_and_the_theme(page: Any, dead: ops.GroupPlace) -> None:
    go(page, "#/", "dead letter")
    page.keyboard.press("d")
    goes_to(page, "#/dead")
    shows(page, "Dead letters", "h1")
    page.wait_for_selector("tr[data-href]")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    shows(page, "Traceback")
    page.keyboard.press("Escape")
    goes_to(page, "#/dead")
    go(page, "#/groups/billing/orders", "Partitions")
    page.keyboard.press("Escape")
    goes_to(page, "#/")
    page.keyboard.press("Escape")
    shows(page, "dead letter")  # there is nothing above it
    go(page, "#/dead?group=billing", "orders")
    page.press("tr[data-href]", "Enter")
    shows(page, "Traceback")
    page.keyboard.press("Escape")
    goes_to(page, "#/dead?group=billing")
    before = page.evaluate("document.documentElement.dataset.theme")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") != before


def test_the_focus_stays_where_it_was(page: Any, dead: ops.GroupPlace, conn: Connection) -> None:
    def focused(what: str) -> str:
        return str(page.evaluate(f"document.activeElement.{what}"))

    go(page, "#/topics", "orders")
    page.focus("main a:text-is('orders')")
    page.evaluate("new Promise(done => addEventListener('looked', done, { once: true }))")
    assert focused("textContent") == "orders"
    page.keyboard.press("Enter")
    shows(page, "Filter")
    assert (focused("tagName"), focused("textContent")) == ("H1", "orders")
    page.wait_for_function("() => document.title === '(1) orders · Topics · gapless'")
    page.focus(".jump")
    page.keyboard.press("Enter")
    assert focused("id") == "main"
    goes_to(page, "#/topics/orders")
    go(page, "#/groups/billing/orders", "Partitions")
    page.focus("button:text-is('Pause …')")
    page.keyboard.press("Enter")
    page.fill("dialog input[name=reason]", "a test")
    page.click("dialog button[value=yes]")
    page.wait_for_selector("button:text-is('Resume')")  # in its place
    assert focused("textContent") == "Resume"
    ops.add_schedule(conn, ops.Schedule(name="nightly", topic="orders", cron="0 3 * * *"))
    go(page, "#/later", "nightly")
    page.focus("button:text-is('Pause')")
    page.keyboard.press("Enter")
    page.click("dialog button[value=yes]")
    page.wait_for_selector("main span:text-is('paused')")
    assert focused("textContent") == "Resume"  # in its place
