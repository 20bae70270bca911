"""The page by ear and by keyboard: each change is told once, and the focus is never lost."""

from typing import Any

from psycopg import Connection

from gapless import ops
from gapless.log.topics import Topic
from support.browser import IN_BROWSER, go, goes_to, shows, yes
from support.fleet import until

pytestmark = IN_BROWSER
# The words of a screen reader: those of a live region, each time when they were written, same or not.
LISTEN = """
window.aloud = [];
new MutationObserver((changes) => {
  const live = changes.map(({ target }) => (target.nodeType === 1 ? target : target.parentElement)?.closest("output, [role=status], [role=alert], [aria-live]"));
  for (const each of new Set(live)) if (each?.isConnected && each.textContent) window.aloud.push(each.textContent);
}).observe(document, { childList: true, subtree: true, characterData: true });
"""
LOOKS = """n => new Promise((done) => addEventListener("looked", () => --n || done()))"""
ROW = "document.activeElement.closest('tr')?.cells[0].textContent"
FOCUSED = "(document.activeElement.textContent || document.activeElement.id).trim()"


def heard(page: Any) -> list[str]:
    """Return the words that were said since the last call."""
    return list(page.evaluate("window.aloud.splice(0)"))


def focused(page: Any) -> str:
    return str(page.evaluate(FOCUSED))


def groups(conn: Connection, *names: str) -> None:
    for name in names:
        ops.create_group(conn, name, "orders", start=ops.Point.parse("latest"))


def test_a_change_is_told_once_and_a_look_tells_nothing(
    page: Any, conn: Connection, orders: Topic
) -> None:
    groups(conn, "billing")
    ops.pause(conn, ops.GroupPlace(group="billing"), reason="lunch")
    page.add_init_script(LISTEN)
    page.reload()
    shows(page, "1 thing to look at")
    for where in ("#/", "#/dead?group=billing", "#/topics/orders", "#/groups/billing/orders"):
        go(page, where)
        page.evaluate(LOOKS, 1)
        heard(page)
        page.evaluate(LOOKS, 2)
        assert heard(page) == [], where
    yes(page, "Resume")
    shows(page, "resumed", "#toast")
    until(lambda: "well" in page.inner_text("#connection"), "a look has seen it")
    page.evaluate(LOOKS, 2)
    said = heard(page)
    assert [each for each in said if "resumed" in each] == ["resumed"]
    assert len([each for each in said if each.endswith("well")]) == 1
    page.route("**/v1/status?*", lambda route: route.abort())
    shows(page, "Stale since", "#stale")
    assert page.locator("#stale").bounding_box()["y"] < 100  # in sight
    for _ in range(2):
        with page.expect_event("requestfailed"):
            pass
    page.unroute("**/v1/status?*")
    page.wait_for_selector("#stale", state="hidden")
    page.evaluate(LOOKS, 2)
    first, second = heard(page)
    assert (first[:12], second.partition(": ")[2]) == ("Stale since ", "well")


def test_the_focus_is_never_lost(page: Any, conn: Connection, orders: Topic) -> None:
    """Not by a row that goes, a page that is drawn anew below a question, or a button that has done its work."""
    groups(conn, "a", "b", "c")
    go(page, "#/", "b/orders")
    page.focus("tr[data-href='#/groups/b/orders']")
    ops.remove_group(conn, "b")
    page.wait_for_selector("tr[data-href='#/groups/b/orders']", state="detached")
    assert focused(page).startswith("c/orders")  # the row in its place
    ops.remove_group(conn, "c")
    page.wait_for_selector("tr[data-href='#/groups/c/orders']", state="detached")
    assert focused(page).startswith("a/orders")
    ops.remove_group(conn, "a")
    shows(page, "No group yet")
    assert focused(page) == "Overview"
    page.keyboard.press("t")
    goes_to(page, "#/topics")
    assert (focused(page), page.title()) == ("Topics", "Topics · gapless")
    page.focus("#pages a:text-is('Keys')")
    page.keyboard.press("Enter")
    goes_to(page, "#/keys")
    assert focused(page) == "Keys"
    for name in ("ann", "ben"):
        ops.create_key(conn, name, ["read:*"])
    page.evaluate("dispatchEvent(new Event('look'))")
    shows(page, "ann")
    button = "tr:has-text('ann') button"
    page.focus(button)
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    page.evaluate("document.querySelector('main tbody tr').id = 'old'")
    page.evaluate("dispatchEvent(new Event('look'))")
    page.wait_for_selector("#old", state="detached")
    page.keyboard.press("Escape")
    until(lambda: page.evaluate(ROW) == "ann", "the focus is where it was")
    page.keyboard.press("Enter")
    page.click("dialog button[value=yes]")
    shows(page, "revoked", "main td")
    assert focused(page) == "Revoke"  # that of ben
