"""Promises of all pages, of those to come, too: read by anybody, hostile to nobody, quick with a lot, by right."""

import re
from functools import partial
from typing import Any

import pytest
from psycopg import Connection

from gapless import ops
from gapless.db.connect import connect
from gapless.features.gateway import access
from gapless.log.topics import Topic
from support.browser import IN_BROWSER, go, shows
from support.filled import HOSTILE
from support.fleet import until
from support.gateways import Client, Open
from support.pages import visitor
from support.patience import patience

pytestmark = IN_BROWSER
SHOWN = HOSTILE.replace("\u202e", "\\u202e")
BYTES_MAX = 1_000_000
PAINT_S = 2.0  # twice the goal: the slowest page takes 0.7 s on a quiet machine of two cores
AXE = """
async ([theme, only]) => {
  document.documentElement.dataset.theme = theme;
  const found = await axe.run(document, { resultTypes: ["violations"], ...only });
  return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 120)}: ${node.failureSummary}`));
}
"""
# The first frame in which the page has contents: rows, facts, a verdict, or a sentence that there is nothing.
PAINTED = """
new MutationObserver((_, all) => {
  const found = document.querySelectorAll("main :is(td, dd, #verdict, .room p:not(.quiet, :empty)):not(.unseen *)");
  if (![...found].some((each) => each.checkVisibility())) return;
  all.disconnect();
  requestAnimationFrame(() => setTimeout(() => performance.mark("content")));
}).observe(document, { childList: true, subtree: true, attributes: true });
"""
PAINTED_AT = "performance.getEntriesByName('content')[0]?.startTime"
MUCH = r"""
select gapless.create_topic('topic-' || lpad(n::text, 3, '0'), 4) from generate_series(0, 199) n;
select gapless.create_group('group-' || lpad(n::text, 4, '0'), 'topic-' || lpad((n % 200)::text, 3, '0'))
  from generate_series(0, 999) n;
insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,
  transaction_id, state, attempts, reason, exception, died_ts, last_failed_ts)
select group_id, topic_id, n % 4, n, n, 1, gen_random_uuid(), 'dead', 5, 'ValueError: no stock',
  'Traceback' || repeat(E'\n  File', 20) || E'\nValueError: no stock of ' || n % 50, now(), now() - n * interval '1 s'
from gapless.consumer_group, generate_series(1, case when group_id = 'group-0000' then 50050 else 50 end) n
where group_id like 'group-%';
insert into gapless.dead_letter_event (group_id, topic_id, partition_id, c_offset, first_offset, message_id,
  key, transaction_id, payload, created_ts)
select group_id, topic_id, partition_id, first_offset, first_offset, first_offset, 'k', transaction_id, '{}',
  last_failed_ts
from gapless.dead_letter where group_id like 'group-%';
analyze;
"""
WIDE = """
document.scrollingElement.scrollWidth <= 400
  ? [...document.querySelectorAll("main button")].filter((each) => each.offsetHeight > 45).map((each) => `in two lines: ${each.textContent}`).join(" ")
  : [...document.querySelectorAll("body *")].filter((each) => each.getBoundingClientRect().right > 401)
      .map((each) => each.outerHTML.slice(0, 80)).join(" ")
"""
# Text that would turn the direction of the words around it: fields alone have it as it is.
TURNS = "(document.body.innerHTML + document.title).includes('\u202e')"
ALL: dict[str, Any] = {}
CONTRAST = {"runOnly": ["color-contrast"]}


def test_all_pages_can_be_read_by_anybody(browser: Any, filled: Client) -> None:
    """The rules of axe, in dark and light, on a phone and on a desk; and nothing hostile runs."""
    from axe_playwright_python.base import AXE_SCRIPT

    with visitor(browser, filled.url) as found:
        problems: list[str] = []

        def look(where: str) -> None:
            for width, theme, only in (
                (1400, "dark", ALL), (400, "light", ALL), (1400, "light", CONTRAST),
            ):  # fmt: skip
                found.page.set_viewport_size({"width": width, "height": 900})
                problems.extend(
                    f"{where} {width} {theme}: {each}"
                    for each in found.page.evaluate(AXE, [theme, only])
                )
            if found.page.evaluate(TURNS):
                problems.append(f"{where}: a character that turns the direction of text")
            found.page.set_viewport_size({"width": 400, "height": 900})
            for _ in range(50):  # charts follow the width in the next frames
                if not (wide := found.page.evaluate(WIDE)):
                    return
                found.page.wait_for_timeout(20)
            problems.append(
                f"{where}: wider than a phone of 400 pixels, or with a button of two lines: {wide}"
            )

        found.page.add_init_script(AXE_SCRIPT)
        found.visits_all(look)
        assert not problems, "\n".join(problems)


def enter(page: Any, key: str) -> None:
    page.fill("input[name=key]", key)
    page.keyboard.press("Enter")


def test_a_key_is_asked_for_in_the_page_which_goes_on(
    browser: Any,
    open_gateway: Open,
    conn: Connection,
    orders: Topic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No script has the key; the page does as much as it may; a revoked key asks for another one."""
    monkeypatch.setattr(access, "KNOWN_S", 0.1)
    ops.create_group(conn, "billing", "orders")
    reader = ops.create_key(conn, HOSTILE, ["read:*"])
    operator = ops.create_key(conn, "ann", ["read:*", "operate"])
    gateway = open_gateway(asks_keys=True, operates=True)
    with visitor(browser, gateway.url) as found:
        page = found.page
        page.goto(f"{gateway.url}/#/groups/billing/orders")
        shows(page, "Sign in")
        assert page.evaluate("document.activeElement.name") == "key"
        enter(page, f"{reader.key}x")
        shows(page, "the key is unknown")
        go(page, "#/topics/orders", "Sign in")  # no other way leads past it
        go(page, "#/groups/billing/orders", "Sign in")
        enter(page, reader.key)
        shows(page, "Partitions")
        assert page.evaluate("document.cookie + JSON.stringify({ ...sessionStorage })") == "{}"
        assert page.locator("main button:has-text('Pause')").count() == 0
        page.click("#account button:text-is('read-only')")
        shows(page, f"key {reader.key_id} ({SHOWN}) has no scope operate", "#toast")
        assert page.inner_text("#account .caller") == SHOWN
        assert page.get_attribute("#account .caller", "title").endswith("may: read:*")
        stream = "new Promise((done) => { new EventSource('/v1/topics/orders/stream').onopen = () => done('live') })"
        assert page.evaluate(stream) == "live"
        with page.expect_event("load"):
            page.click("#account button:text-is('Sign out')")
        shows(page, "Sign in")
        assert gateway.get("/v1/session").json()["caller"] is None
        enter(page, operator.key)
        shows(page, "billing/orders")
        go(page, "#/groups/billing/orders")
        page.wait_for_selector("main button:has-text('Pause')")
        assert page.locator("#account button:text-is('read-only')").count() == 0
        page.reload()
        page.wait_for_selector("main button:has-text('Pause')")  # the browser has kept it
        ops.revoke_key(conn, operator.key_id)
        shows(page, "the key is unknown")
        page.wait_for_selector("#account button", state="detached")
        assert page.input_value("input[name=key]") == ""


def test_another_person_has_other_rights_and_finds_nothing(
    browser: Any, open_gateway: Open, conn: Connection, orders: Topic
) -> None:
    """Nothing of the looks, drafts and filters of the one before; events are published by right alone."""
    ops.create_topic(conn, "mails", partitions=1)
    ann, ben, cid = (
        ops.create_key(conn, name, scopes).key
        for name, *scopes in (
            ("ann", "read:*"), ("ben", "read:*", "publish:ord*"), ("cid", "read:orders"),
        )
    )  # fmt: skip
    gateway = open_gateway(asks_keys=True)
    with visitor(browser, gateway.url) as found:
        page = found.page
        page.goto(f"{gateway.url}/#/topics")

        def publishes(key: str) -> list[bool]:
            enter(page, key)
            able = []
            for topic in ("orders", "mails"):
                go(page, f"#/topics/{topic}", "nobody reads it")
                able.append(page.locator("button:text-is('Publish an event …')").count() == 1)
            return able

        assert publishes(ann) == [False, False]
        page.evaluate("window.looks = 1")
        page.context.clear_cookies()
        shows(page, "Sign in")
        enter(page, ben)
        shows(page, "ben", "#account")
        page.wait_for_function("() => window.looks === undefined")
        go(page, "#/topics/mails", "nobody reads it")
        page.evaluate("window.looks = 1")
        page.click("#account button:text-is('Sign out')")
        page.wait_for_function("() => window.looks === undefined && location.hash === '#/'")
        assert publishes(ben) == [True, False]
        page.click("#account button:text-is('Sign out')")
        enter(page, cid)
        for where in ("", "topics", "doctor", "groups/billing/orders"):
            go(page, f"#/{where}", "it needs read:*")
            assert "looking at" not in page.inner_text("main")
        go(page, "#/doctor", "it needs read:*")
        assert page.locator("main button:visible").count() == 0
        go(page, "#/topics/orders", "No such event.")


def test_a_gateway_that_changes_nothing_says_so(
    browser: Any, module_dsn: str, open_gateway: Open, filled: Client
) -> None:
    """On all pages, which do without their buttons; and times are those of the reader, with UTC beside them."""
    gateway = open_gateway(dsn=module_dsn)
    with visitor(browser, gateway.url, timezone_id="Asia/Tokyo", locale="en-GB") as found:
        page = found.page
        found.goes_to("#/groups/billing/orders", anew=True)
        shows(page, "Partitions")
        for verb in ("Pause", "Seek"):
            assert page.locator(f"main button:has-text('{verb}')").count() == 0
        badge = page.locator("#account button:text-is('read-only')")
        assert "without --operate" in badge.get_attribute("title")
        badge.click()
        shows(page, "without --operate", "#toast")
        found.goes_to("#/later")
        at = page.locator("time[datetime*='T03:00:00']").first
        assert at.inner_text().endswith(", 12:00:00")
        assert at.get_attribute("title").endswith(" 03:00:00 UTC")

        def look(where: str) -> None:
            assert not re.search(r"\b(null|undefined|NaN)\b", page.inner_text("main")), where

        found.visits_all(look)


def test_pages_of_much_are_small_and_quick(browser: Any, filled: Client, module_dsn: str) -> None:
    """With 200 topics, 1000 groups of 4 partitions each and 100 000 dead letters."""
    with connect(module_dsn, role="test") as conn:
        conn.execute(MUCH)
    times: dict[str, float] = {}
    with visitor(browser, filled.url) as found:
        found.page.add_init_script(PAINTED)

        def look(where: str) -> None:
            wanted = partial(found.page.evaluate, PAINTED_AT)
            times[where] = until(wanted, "it is painted", within=lambda: where) / 1000

        found.visits_all(look, anew=True)
        found.goes_to("#/groups/group-0000/topic-000")
        found.page.wait_for_selector("td:text-is('3')")  # it has its partitions
        large = {url: size for url, size in found.sizes.items() if size > BYTES_MAX}
        assert large == {}
        assert {where: each for where, each in times.items() if each > patience(PAINT_S)} == {}
