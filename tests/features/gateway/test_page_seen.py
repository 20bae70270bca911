"""The page by eyes that need it larger, or in colours of their own: nothing is lost, cut, covered or a colour alone."""

from typing import Any

import pytest

from support.browser import IN_BROWSER
from support.gateways import Client
from support.pages import visitor

pytestmark = IN_BROWSER
# Parts that leave the window, but those that scroll in a box of their own; texts that are cut; cells that are nowhere.
LOST = """() => {
  const width = document.documentElement.clientWidth;
  const box = (each) => each && (/auto|scroll/.test(getComputedStyle(each).overflowX) || box(each.parentElement));
  const found = (why, each) => each.map((one) => `${why}: ${one.outerHTML.slice(0, 90)}`);
  const seen = [...document.querySelectorAll("body *:not(.unseen, .unseen *, svg *)")].filter((each) => each.checkVisibility());
  const cut = (each) => !each.matches(".short, .caller") && getComputedStyle(each).overflowX === "hidden" && each.scrollWidth > each.clientWidth + 1;
  return [
    ...(document.scrollingElement.scrollWidth > width ? ["the page scrolls in two ways"] : []),
    ...found("wide", seen.filter((each) => each.getBoundingClientRect().right > width + 1 && !box(each.parentElement))),
    ...found("cut", seen.filter(cut)),
    ...found("hidden", [...document.querySelectorAll(".cards td:not(:empty), tr:not([data-href]) td:not(:empty, .unseen td)")].filter((each) => !each.checkVisibility())),
  ];
}"""
# Each question that a button asks fits the window, and scrolls to its last button.
DIALOGS = """() => {
  const dialog = document.getElementById("dialog");
  return [...document.querySelectorAll("main .buttons button:not(.copy)")].flatMap((button) => {
    if (!button.isConnected) return [];
    button.click();
    if (!dialog.open) return [];
    dialog.querySelector("button[value=no]").scrollIntoView();
    const fits = [dialog, dialog.querySelector("button[value=no]")].every((each) => {
      const { left, right, top, bottom } = each.getBoundingClientRect();
      return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight && each.scrollWidth <= each.clientWidth;
    });
    dialog.close();
    return fits ? [] : [`a question that does not fit: ${button.textContent}`];
  });
}"""
# The contrast with the ground of all that has a meaning by its colour.
CONTRAST = """() => {
  const rgb = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((each) => (each /= 255) <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  const light = (colour) => { const [r, g, b] = rgb(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const of = (colour) => { const [a, b] = [ground, light(colour)].sort(); return (b + 0.05) / (a + 0.05); };
  const kinds = { ".line": ["", "stroke"], ".grid": ["", "stroke"], ".state": ["::before", "color"], ".badge": ["", "borderTopColor"], "input": ["", "borderTopColor"], "#pages [aria-current]": ["", "borderLeftColor"] };
  return Object.fromEntries(Object.entries(kinds).map(([each, [part, property]]) => [each, Math.min(...[...document.querySelectorAll(each)].map((one) => of(getComputedStyle(one, part)[property])))]));
}"""
HELD_MORE = {"Nodes": 100, "JSEventListeners": 20}  # times and lines of charts come and go
COVERED = """() => {
  const { left, right, top, bottom } = document.activeElement.getBoundingClientRect();
  const at = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  return at?.closest("header") && !document.activeElement.closest("header") ? document.activeElement.outerHTML.slice(0, 90) : "";
}"""


@pytest.mark.parametrize(("width", "height", "theme"), [(640, 512, "dark"), (320, 256, "light")])
def test_nothing_is_lost_at_200_and_400_per_cent(
    browser: Any, filled: Client, width: int, height: int, theme: str
) -> None:
    """No page scrolls in two ways, no text is cut, no cell is nowhere, and each question can be answered."""
    viewport = {"width": width, "height": height}
    problems: list[str] = []
    with visitor(browser, filled.url, viewport=viewport, color_scheme=theme) as found:

        def look(where: str) -> None:
            for each in (LOST, DIALOGS):
                problems.extend(f"{where}: {one}" for one in found.page.evaluate(each))
            found.settles()

        found.visits_all(look)
    assert problems == []


@pytest.mark.parametrize("wish", [{"forced_colors": "active"}, {"contrast": "more"}])
def test_meaning_is_seen_in_other_colours(
    browser: Any, filled: Client, wish: dict[str, str]
) -> None:
    """In the colours of a system that are the opposite of the theme's, and with more contrast."""
    with visitor(browser, filled.url, color_scheme="light", **wish) as found:
        found.goes_to("#/")
        if "forced_colors" in wish:
            found.page.click("#theme")
        found.page.wait_for_selector("path.line", state="attached")
        seen = found.page.evaluate(CONTRAST)
        assert {each: ratio for each, ratio in seen.items() if not ratio or ratio < 3} == {}


def test_the_header_does_not_cover_the_focus(browser: Any, filled: Client) -> None:
    with visitor(browser, filled.url, viewport={"width": 1280, "height": 400}) as found:
        found.goes_to("#/topics/orders?view=settings")
        found.goes_to("#/")
        found.page.evaluate("[...document.querySelectorAll('main tr[data-href]')].at(-1).focus()")
        for _ in range(20):
            found.page.keyboard.press("Shift+Tab")
            assert found.page.evaluate(COVERED) == ""


@pytest.mark.parametrize(
    "where",
    [
        "#/",
        "#/topics/orders",
        "#/groups/billing/orders",
        "#/dead",
        "#/webhooks/ann-true",
        "#/later",
    ],
)
def test_a_page_left_open_holds_nothing_of_older_looks(
    browser: Any, filled: Client, where: str
) -> None:
    """As many nodes and listeners after fifty looks and changes as after thirty."""
    with visitor(browser, filled.url) as found:
        found.goes_to(where)
        session = found.page.context.new_cdp_session(found.page)
        session.send("Performance.enable")

        def held() -> dict[str, int]:
            session.send("HeapProfiler.collectGarbage")
            named = session.send("Performance.getMetrics")["metrics"]
            return {each["name"]: each["value"] for each in named if each["name"] in HELD_MORE}

        def looks(count: int) -> None:
            for _ in range(count):
                found.page.evaluate("dispatchEvent(new Event('look'))")
                found.settles()

        looks(30)  # charts of looks have all their rows
        before = held()
        looks(20)
        assert {
            name: n - before[name]
            for name, n in held().items()
            if n > before[name] + HELD_MORE[name]
        } == {}
