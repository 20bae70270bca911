"""The overview and the frame of the page: problems with age and remedy, groups, charts, the menu, a stale page."""

import re
from typing import Any

from psycopg import Connection

from gapless import ops
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from support.browser import IN_BROWSER, fits_a_phone, go, goes_to, shows

pytestmark = IN_BROWSER


def names(page: Any) -> list[str]:
    """Return the groups as they are listed."""
    listed = (
        "[...document.querySelectorAll('tr[data-href] a:first-child')].map((a) => a.textContent)"
    )
    return [each for each in page.evaluate(listed) if "/" in each]


def test_a_problem_has_an_age_a_way_and_a_command(page: Any, conn: Connection) -> None:
    """The header and the title of the window tell of it on each page."""
    assert "All is well" in page.inner_text("#verdict")
    shows(page, "well", "#connection .good")
    assert page.title() == "Overview · gapless"
    publish(conn, "orders", {"n": 1})
    sequence(conn)
    for group in ("billing", "resting"):
        ops.create_group(conn, group, "orders")
    ops.pause(conn, ops.GroupPlace(group="resting"), reason="lunch")
    page.evaluate(
        "dispatchEvent(new PointerEvent('pointerdown'))"
    )  # a menu of the browser has its end
    page.mouse.move(5, 5)
    shows(page, "lunch", "#verdict")
    shows(page, "2 things to look at", "#verdict")
    lines = page.locator("#verdict li")
    nobody = (
        r"billing/orders: nobody works on it, 1 behind\s*for [\d.]+(ms|s|m)\s*start gapless run"
    )
    assert re.search(nobody, lines.nth(0).inner_text())
    assert re.search(r"lunch\s*for [\d.]+(ms|s|m)", lines.nth(1).inner_text())
    shows(page, "nobody", "tr .state.bad")
    shows(page, "paused", "tr .state.warn")
    page.hover("#verdict li:nth-child(2) button.copy")
    page.mouse.down()
    with page.expect_response("**/v1/status?*"):  # it draws no button anew while one is pressed
        page.evaluate("dispatchEvent(new Event('look'))")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    page.mouse.up()
    shows(page, "copied: gapless resume resting", "#toast")
    assert page.evaluate("navigator.clipboard.readText()") == "gapless resume resting"
    page.click("#verdict a:has-text('start gapless run')")
    goes_to(page, "#/groups/billing/orders")
    shows(page, "2 to look at", "#connection .bad")
    assert page.title() == "(2) billing · orders · Overview · gapless"
    page.click(".trail a:text-is('Overview')")
    goes_to(page, "#/")
    page.keyboard.press("v")
    shows(page, "sequencer")
    assert page.inner_text("#pages [aria-current]") == "Server"


def test_groups_are_sorted_filtered_and_bounded(page: Any, conn: Connection) -> None:
    """The address keeps the choice; a row stays the same element while others change around it."""
    publish(conn, "orders", {"n": 1})
    sequence(conn)
    create = "select gapless.create_group('g' || to_char(n, 'FM000'), 'orders', 'latest')"
    conn.execute(f"{create} from generate_series(0, 204) n")
    ops.create_group(conn, "late", "orders")
    shows(page, "100 of 206 groups")
    shows(page, "late/orders", "main tbody tr:first-child")  # the neediest first, from 1 s on
    page.click("th button:text-is('group')")
    goes_to(page, "#/?sort=group%3Aup")
    assert names(page)[:2] == ["g000/orders", "g001/orders"]
    page.click("th button:text-is('group')")
    goes_to(page, "#/?sort=group%3Adown")
    assert page.get_attribute("th[aria-sort]", "aria-sort") == "descending"
    assert names(page)[0] == "late/orders"
    page.click("button:text-is('Show all')")
    assert len(names(page)) == 206
    page.fill("input[name=find]", "G00")
    goes_to(page, "&find=G00")
    assert names(page) == [f"g00{n}/orders" for n in reversed(range(10))]
    page.evaluate("document.querySelector('tr[data-href=\"#/groups/g005/orders\"]').id = 'kept'")
    page.focus("#kept")
    ops.create_group(conn, "x-g00", "orders", start=ops.Point.parse("latest"))
    shows(page, "x-g00/orders")
    assert page.evaluate("document.activeElement.id") == "kept"
    page.keyboard.press("Enter")
    goes_to(page, "#/groups/g005/orders")
    page.keyboard.press("Escape")
    goes_to(page, "#/?sort=group%3Adown&find=G00")
    assert page.input_value("input[name=find]") == "G00"
    page.fill("input[name=find]", "no such")
    shows(page, "No group of 207 has “no such” in its name.")


def test_a_chart_is_read_by_keyboard_and_its_range_is_in_the_address(page: Any) -> None:
    drawing = page.locator(".chart:has-text('lag') .canvas")
    page.wait_for_selector(".chart caption + tbody tr:nth-child(4)", state="attached")
    label = r"lag: now [\d.k]+, least [\d.k]+, most [\d.k]+ events"
    assert re.fullmatch(label, drawing.get_attribute("aria-label"))
    drawing.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".chart .pointer", state="attached")
    shows(page, re.compile(r"lag \S+ events.*\d\d:\d\d"), ".chart output")
    page.click(".ranges button:text-is('6 h')")
    goes_to(page, "#/?range=6h")
    assert page.get_attribute(".ranges [aria-pressed=true]", "aria-pressed") == "true"
    assert page.inner_text(".ranges [aria-pressed=true]") == "6 h"
    page.reload()
    page.wait_for_selector("#verdict")
    assert page.inner_text(".ranges [aria-pressed=true]") == "6 h"


def test_the_menu_of_a_phone_and_a_page_that_is_stale(page: Any) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    page.locator("#pages a").first.wait_for(state="hidden")
    page.click("#menu")
    page.click("#pages a:text-is('Topics')")
    shows(page, "orders")
    page.locator("#pages a").first.wait_for(state="hidden")
    page.click("#menu")
    page.keyboard.press("Escape")
    assert page.get_attribute("#menu", "aria-expanded") == "false"
    goes_to(page, "#/topics")
    page.click("main a:text-is('orders')")
    page.click(".trail a:text-is('Topics')")
    goes_to(page, "#/topics")
    for where in ("#/", "#/server"):
        go(page, where)
        page.wait_for_selector("main h2")
        fits_a_phone(page)
    page.route("**/v1/status?*", lambda route: route.abort())
    shows(page, re.compile(r"Stale since .*: the gateway does not answer"), "#stale")
    shows(page, "does not answer", "#connection")
    shows(page, "PostgreSQL")  # the last look stays
    page.route("**/v1/**", lambda route: route.abort())
    for where, then in (
        ("#/audit", "No change of this kind"),
        ("#/topics/orders", "No such event"),
    ):
        go(page, where, "the gateway does not answer")
        page.unroute("**/v1/**")
        page.unroute("**/v1/status?*")
        page.wait_for_selector("#stale", state="hidden")
        shows(page, then)  # without a reload
        page.route("**/v1/**", lambda route: route.abort())
        shows(page, "Stale since", "#stale")
