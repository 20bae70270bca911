"""Promises of all pages, of those to come, too: read by anybody, hostile to nobody, quick with a lot, by right."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.db.connect import connect
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from gapless.testing import drain
from support.browser import chromium
from support.gateways import Client, Open
from support.pages import Visitor, visitor
from support.patience import patience

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # a browser, on a busy machine
HOSTILE = "<img src=x onerror=window.hit=1>'\"&lt;"
LONG = '</script><script>window.hit=1</script><a href="javascript:window.hit=1">' + "w" * 200
BYTES_MAX = 1_000_000
PAINT_S = 1.0
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
  if (!document.querySelector("main :is(td, dd, #verdict, .empty:not(:empty))")) return;
  all.disconnect();
  requestAnimationFrame(() => setTimeout(() => performance.mark("content")));
}).observe(document, { childList: true, subtree: true });
"""
PAINTED_AT = """
() => new Promise((done) => {
  const look = () => {
    const found = performance.getEntriesByName("content")[0];
    if (found) done(found.startTime);
    else setTimeout(look, 20);
  };
  look();
})
"""
MUCH = (
    "select gapless.create_topic('topic-' || lpad(n::text, 3, '0'), 4) from generate_series(0, 199) n",
    "select gapless.create_group('group-' || lpad(n::text, 4, '0'), 'topic-' || lpad((n % 200)::text, 3, '0'))"
    " from generate_series(0, 999) n",
    "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
    " transaction_id, state, attempts, reason, exception, died_ts, last_failed_ts)"
    " select group_id, topic_id, n % 4, n, n, 1, gen_random_uuid(), 'dead', 5, 'ValueError: no stock',"
    " 'Traceback' || repeat(E'\\n  File', 20) || E'\\nValueError: no stock of ' || n % 50, now(),"
    " now() - n * interval '1 s' from gapless.consumer_group, generate_series(1,"
    " case when group_id = 'group-0000' then 50050 else 50 end) n where group_id like 'group-%'",
    "insert into gapless.dead_letter_event (group_id, topic_id, partition_id, c_offset, first_offset, message_id,"
    " key, transaction_id, payload, created_ts) select group_id, topic_id, partition_id, first_offset,"
    " first_offset, first_offset, 'k', transaction_id, '{}', last_failed_ts from gapless.dead_letter"
    " where group_id like 'group-%'",
    "analyze",
)
ALL: dict[str, Any] = {}
CONTRAST = {"runOnly": ["color-contrast"]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def fill(conn: Connection, dsn: str) -> None:
    """Give each page something to show, with names, texts and errors that would like to be markup."""
    ops.create_topic(conn, "orders", partitions=2)
    event = NewEvent(
        payload={HOSTILE: LONG}, key=HOSTILE, event_type=HOSTILE, headers={HOSTILE: LONG}
    )
    publish(conn, "orders", [event, event])
    gapless.publish(conn, "orders", {HOSTILE: LONG}, key=HOSTILE, deliver_in=3600)

    @gapless.handler(topic="orders", group="hostile")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        raise ValueError(LONG)

    drain(dsn, refuse)
    sequence(conn)
    ops.create_group(conn, "letters", "orders", mode="queue")
    ops.create_group(conn, "billing", "orders")
    ops.pause(conn, ops.GroupPlace(group="billing", topic="orders"), reason=LONG)
    ops.add_schedule(conn, ops.Schedule(name="nightly", topic="orders", key=HOSTILE, payload="1", cron="0 3 * * *"))
    for shared in (True, False):
        ops.add_webhook(
            conn, f"ann-{shared}".lower(), "orders", f"https://a.example/{'w' * 99}", secrets=["env:HOOK"], shared=shared
        )
    ops.add_schema(conn, "orders", '{"type": "object"}')
    ops.create_key(conn, HOSTILE, ["read:*"])


@pytest.fixture
def filled(module_dsn: str, open_gateway: Open) -> Client:
    """A gateway of a database with something of everything, one for the file."""
    with connect(module_dsn, role="test") as conn:
        if not ops.list_topics(conn):
            fill(conn, module_dsn)
    return open_gateway(dsn=module_dsn, operates=True)


def test_all_pages_can_be_read_by_anybody(browser: Any, filled: Client) -> None:
    """The rules of axe, in dark and light, on a phone and on a desk; and nothing hostile runs."""
    from axe_playwright_python.base import AXE_SCRIPT

    with visitor(browser, filled.url) as found:
        problems: list[str] = []

        def look(where: str) -> None:
            for width, theme, only in (
                (1400, "dark", ALL), (400, "light", ALL), (400, "dark", CONTRAST), (1400, "light", CONTRAST),
            ):  # fmt: skip
                found.page.set_viewport_size({"width": width, "height": 900})
                problems.extend(
                    f"{where} {width} {theme}: {each}" for each in found.page.evaluate(AXE, [theme, only])
                )
            found.page.set_viewport_size({"width": 400, "height": 900})
            wide = found.page.evaluate("document.scrollingElement.scrollWidth")
            if wide > 400:
                problems.append(f"{where}: it is {wide} pixels wide on a phone of 400")

        found.page.add_init_script(AXE_SCRIPT)
        found.visits_all(look)
        assert not problems, "\n".join(problems)


def test_pages_of_much_are_small_and_quick(browser: Any, filled: Client, module_dsn: str) -> None:
    """With 200 topics, 1000 groups of 4 partitions each and 100 000 dead letters."""
    with connect(module_dsn, role="test") as conn:
        for statement in MUCH:
            conn.execute(statement)
    times: dict[str, float] = {}
    with visitor(browser, filled.url) as found:
        found.page.add_init_script(PAINTED)

        def look(where: str) -> None:
            times[where] = found.page.evaluate(PAINTED_AT) / 1000

        found.visits_all(look, anew=True)
        found.goes_to("#/groups/group-0000/topic-000")
        assert found.page.locator("td:text-is('3')").count()  # it has its partitions
        large = {url: size for url, size in found.sizes.items() if size > BYTES_MAX}
        assert large == {}
        print(times, sorted(found.sizes.items(), key=lambda e: -e[1])[:6])
        assert {where: each for where, each in times.items() if each > patience(PAINT_S)} == {}
