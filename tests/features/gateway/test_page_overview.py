"""The overview and the frame of the page: problems with age and remedy, groups, charts, the menu, a stale page.

Axes, lines and states are pure functions, which node runs.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.browser import chromium
from support.gateways import Client, Open

PAGE = Path(gapless.__file__).parent / "features" / "gateway" / "page"


def by_node(module: str, calls: list[str]) -> list[Any]:
    """Return the values of expressions that use exports of a module of the page."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = (
        f"import * as m from {json.dumps((PAGE / module).as_uri())};"
        f"console.log(JSON.stringify([{', '.join(calls)}]))"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script],
        capture_output=True,
        text=True,
        check=True,
        env={"TZ": "Asia/Kolkata", "PATH": "/usr/bin:/bin"},
    )
    return list(json.loads(done.stdout))


AXES = [
    (0, "events", [0, 1]),
    (1, "events", [0, 1]),
    (7, "events", [0, 5, 10]),
    (1799, "events", [0, 1000, 2000]),
    (0.4, "/s", [0, 0.2, 0.4]),
    (0.4, "letters", [0, 1]),
    (95, "s", [0, 60, 120]),
    (7000, "s", [0, 3600, 7200]),
    (200_000, "s", [0, 86400, 172800, 259200]),
    (0.2, "s", [0, 0.1, 0.2]),
]
SERIES = """[
  {group: null, topic: null, lag: [9, 9], lag_s: [8, 8]},
  {group: "a", topic: "t", lag: [1, null], lag_s: [3, null], handled_per_s: [2, 2]},
  {group: "b", topic: "t", lag: [5, null], lag_s: [2, 1], handled_per_s: [3, null]},
  {group: "a", topic: "u", lag: [70, 70], lag_s: [0, 0]},
  {group: null, topic: "t", published_per_s: [4, 4]}]"""
VALUES = [
    ("{}", "lag", [9, 9]),
    ("{group: 'a', topic: 't'}", "lag", [1, None]),
    ("{topic: 't'}", "published_per_s", [4, 4]),
    ("{topic: 't'}", "lag", [6, None]),
    ("{topic: 't'}", "lag_s", [3, 1]),
    ("{topic: 't'}", "handled_per_s", [5, 2]),
    ("{group: 'a'}", "lag", [71, 70]),
    ("{group: 'c'}", "lag", []),
    ("{}", "handled_per_s", []),
]


def test_axes_are_round_and_lines_have_gaps() -> None:
    axes = [f"m.ticks({most}, {json.dumps(unit)})" for most, unit, _ in AXES]
    assert by_node("scales.js", axes) == [steps for *_, steps in AXES]
    values = [f"m.valuesOf({SERIES}, {query}, '{field}')" for query, field, _ in VALUES]
    assert by_node("scales.js", values) == [found for *_, found in VALUES]
    hour, day = "Date.UTC(2026, 2, 1, 12, 7)", 86_400_000
    times = (
        f"m.times({hour}, {hour} + {{}}, 6).map((at) => new Date(at).toISOString().slice(8, 16))"
    )
    assert by_node(
        "scales.js",
        [
            "m.line([1, null, 2, 3, undefined], (i) => i, (v) => v)",
            "m.line([null], (i) => i, (v) => v)",
            "[m.extremes([null, 4, 2, null]), m.extremes([null])]",
            "[m.nearest([10, 20, 30], 24), m.nearest([10, 20, 30], 99)]",
            times.format(day / 24),
            times.format(3 * day),
        ],
    ) == [
        "M0.0,1.0h.01M2.0,2.0L3.0,3.0",
        "",
        [{"now": 2, "least": 2, "most": 4}, None],
        [1, 2],
        ["01T12:10", "01T12:20", "01T12:30", "01T12:40", "01T12:50", "01T13:00"],
        # Noon and midnight of the reader, half past six in UTC.
        ["01T18:30", "02T06:30", "02T18:30", "03T06:30", "03T18:30", "04T06:30"],
    ]


GROUP = {"partitions": 3, "stopped": 0, "paused": 0, "unserved": 0, "lag": 0, "lag_s": 0}
STATES = [
    ({}, "idle", "", "quiet"),
    ({"lag": 5, "lag_s": 0.5}, "running", "", "good"),
    ({"handled_per_s": 3}, "running", "", "good"),
    ({"in_hand": 3}, "running", "", "good"),
    ({"lag": 5, "lag_s": 1}, "behind", "", "warn"),
    ({"lag": 5, "lag_s": 9, "unserved": 3}, "nobody", "", "bad"),
    ({"unserved": 1}, "nobody", "1 of 3", "warn"),
    ({"unserved": 1, "mode": "queue"}, "nobody", "", "warn"),
    ({"unserved": 1, "paused": 2}, "paused", "2 of 3", "warn"),
    ({"stopped": 1, "paused": 2}, "broken", "1 of 3", "bad"),
]


def test_a_group_has_a_state_and_numbers_are_short() -> None:
    states = [f"m.stateOf({json.dumps(GROUP | given)})" for given, *_ in STATES]
    assert by_node("words.js", states) == [
        {"state": state, "part": part, "level": level} for _, state, part, level in STATES
    ]
    numbers = [0, 0.25, 999, 999.6, 1000, 1234, 12_345, 999_600, 5_600_000, 2_000_000_000]
    assert by_node("words.js", [f"m.short({each})" for each in numbers]) == [
        *("0", "0.3", "999", "1k", "1k", "1.2k", "12k", "1M", "5.6M", "2G")
    ]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def gateway(open_gateway: Open, orders: Topic) -> Client:
    return open_gateway(operates=True)


@pytest.fixture
def page(browser: Any, gateway: Client) -> Iterator[Any]:
    """The page at `/`; no script failed, and the policy of its content was never broken."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    made = context.new_page()
    made.set_default_timeout(120_000)
    problems: list[str] = []
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on(
        "console",
        lambda said: problems.append(said.text) if "Content Security" in said.text else None,
    )
    made.goto(f"{gateway.url}/")
    made.wait_for_selector("#verdict")
    yield made
    assert problems == []
    context.close()


def shows(page: Any, text: str | re.Pattern[str], where: str = "main") -> None:
    page.locator(where).filter(has_text=text).first.wait_for()


def goes_to(page: Any, where: str) -> None:
    page.wait_for_url(lambda url: str(url).endswith(where))


def names(page: Any) -> list[str]:
    """Return the groups as they are listed."""
    listed = (
        "[...document.querySelectorAll('tr[data-href] a:first-child')].map((a) => a.textContent)"
    )
    return [each for each in page.evaluate(listed) if "/" in each]


@pytest.mark.long
@pytest.mark.timeout(600)  # a browser, on a busy machine
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
    shows(page, "2 things to look at", "#verdict")
    lines = page.locator("#verdict li")
    nobody = (
        r"billing/orders: nobody works on it, 1 behind\s*for [\d.]+(ms|s|m)\s*start gapless run"
    )
    assert re.search(nobody, lines.nth(0).inner_text())
    assert re.search(r"lunch\s*for [\d.]+(ms|s|m)", lines.nth(1).inner_text())
    shows(page, "nobody", "tr .state.bad")
    shows(page, "paused", "tr .state.warn")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#verdict li:nth-child(2) button.copy")
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


@pytest.mark.long
@pytest.mark.timeout(600)  # a browser, on a busy machine
def test_groups_are_sorted_filtered_and_bounded(page: Any, conn: Connection) -> None:
    """The address keeps the choice; a row stays the same element while others change around it."""
    publish(conn, "orders", {"n": 1})
    sequence(conn)
    latest = ops.Point.parse("latest")
    for n in range(205):
        ops.create_group(conn, f"g{n:03}", "orders", start=latest)
    ops.create_group(conn, "late", "orders")
    shows(page, "200 of 206 groups")
    assert names(page)[0] == "late/orders"  # the neediest first
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
    ops.create_group(conn, "x-g00", "orders", start=latest)
    shows(page, "x-g00/orders")
    assert page.evaluate("document.activeElement.id") == "kept"
    page.keyboard.press("Enter")
    goes_to(page, "#/groups/g005/orders")
    page.keyboard.press("Escape")
    goes_to(page, "#/?sort=group%3Adown&find=G00")
    assert page.input_value("input[name=find]") == "G00"
    page.fill("input[name=find]", "no such")
    shows(page, "No group of 207 has “no such” in its name.")


@pytest.mark.long
@pytest.mark.timeout(600)  # a browser, on a busy machine
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


@pytest.mark.long
@pytest.mark.timeout(600)  # a browser, on a busy machine
def test_the_menu_of_a_phone_and_a_page_that_is_stale(page: Any) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    assert not page.is_visible("#pages a")
    page.click("#menu")
    page.click("#pages a:text-is('Topics')")
    shows(page, "orders")
    assert not page.is_visible("#pages a")
    page.click("#menu")
    page.keyboard.press("Escape")
    assert page.get_attribute("#menu", "aria-expanded") == "false"
    goes_to(page, "#/topics")
    page.click("main a:text-is('orders')")
    page.click(".trail a:text-is('Topics')")
    goes_to(page, "#/topics")
    for where in ("#/", "#/server"):
        page.evaluate("where => { location.hash = where }", where)
        page.wait_for_selector("main h2")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 400, where
    page.route("**/v1/status?*", lambda route: route.abort())
    shows(page, re.compile(r"Stale since .*: the gateway does not answer"), "#stale")
    shows(page, "PostgreSQL")  # the last look stays
    page.unroute("**/v1/status?*")
    page.wait_for_selector("#stale", state="hidden")
