"""The gateway's page in the machine's Chromium, driven by playwright; without either, its tests are skipped.

A test is marked with IN_BROWSER, gets the fixture `page`, and looks at it with the functions below.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.gateways import Client

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

_TURN = """where => new Promise((done) => {
  const before = location.href;
  addEventListener("hashchange", done, { once: true });
  location.hash = where;
  if (location.href === before) done();
})"""


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("no browser: needs playwright and Chromium")
    if CHROMIUM is None:
        pytest.skip("no browser: needs playwright and Chromium")
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


IN_BROWSER = [pytest.mark.long, pytest.mark.timeout(600)]  # a browser, on a busy machine


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a file."""
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any, operated: Client) -> Iterator[Any]:
    """The page at `/`. No script failed, nothing hostile ran, and nothing came from elsewhere."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900},
        reduced_motion="reduce",
        permissions=["clipboard-read", "clipboard-write"],
    )
    made = context.new_page()
    made.set_default_timeout(120_000)
    problems: list[str] = []
    asked: list[str] = []
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
    made.on(
        "console",
        lambda said: problems.append(said.text) if "Content Security" in said.text else None,
    )
    made.on("request", lambda request: asked.append(request.url))
    made.goto(f"{operated.url}/")
    made.wait_for_selector("#verdict")
    yield made
    assert made.evaluate("window.hit") is None
    assert problems == []
    assert {url for url in asked if not url.startswith(operated.url)} == set()
    context.close()


def shows(page: Any, text: str | re.Pattern[str], where: str = "main") -> None:
    """Wait until that text is shown. The page's policy lets no text become a script, so not by one."""
    page.locator(where).filter(has_text=text).first.wait_for()


def goes_to(page: Any, where: str) -> None:
    """Wait until the address ends so, and its page is there."""
    page.wait_for_url(lambda url: str(url).endswith(where))
    page.evaluate("new Promise((done) => setTimeout(done))")  # `hashchange` comes after the address


def turn_to(page: Any, where: str) -> None:
    """Set the address; return when no page before it is there."""
    page.evaluate(_TURN, where)


def go(page: Any, where: str, *wanted: str) -> str:
    """Go to a page of it; return the text that is shown once all that is wanted is there."""
    turn_to(page, where)
    for text in wanted:
        shows(page, text)
    return str(page.inner_text("main"))


def yes(page: Any, button: str, **fields: str) -> None:
    """Press a button, fill the fields of its question, and say yes."""
    page.click(f"main button:text-is('{button}')")
    for name, value in fields.items():
        page.fill(f"dialog [name={name}]", value)
    page.click("dialog button[value=yes]")


def fits_a_phone(page: Any) -> None:
    """Wait until the page needs no sideways scrolling: charts follow the width in the next frames."""
    page.wait_for_function("() => document.scrollingElement.scrollWidth <= 400")
