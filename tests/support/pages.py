"""Pages of the gateway in a browser: visited one after the other by their own links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from support.browser import turn_to
from support.fleet import until

Shape = tuple[str, int, str]
"""The first word of an address, the number of names behind it, and the view or grouping that it chooses."""

_ROOMS = """
async (modules) => {
  const own = (await Promise.all(modules.map((each) => import(each)))).map((each) => each.default).filter(Boolean);
  const features = (await import("/page/features.js")).default;
  return own.concat(features).flatMap(({ name, pages }) => Object.keys(pages).map((n) => [name, Number(n), ""]));
}
"""
_LINKS = "[...document.querySelectorAll('a[href^=\"#/\"], tr[data-href]')].map((each) => each.dataset.href || each.getAttribute('href'))"


class Visitor:
    """A window of a browser, and all that was asked, said and broken in it."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        self.asked: list[str] = []
        self.sizes: dict[str, int] = {}
        self._under_way: set[Any] = set()
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(f"dialog {dialog.message}"))
        page.on("console", self._hear)
        page.on("request", self._begin)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)
        page.on("response", self._measure)

    def goes_to(self, where: str, *, anew: bool = False) -> None:
        """Show a page, `anew` by loading it; return when it has all that it asked for."""
        if anew or "#" not in self.page.url:
            self.page.goto("about:blank")
            self.page.goto(f"{self.url}/{where}")
        else:
            turn_to(self.page, where)
        self.settles()

    def settles(self) -> None:
        """Wait until nothing is under way, and something is shown."""
        self.page.wait_for_selector("main :is(h1, h2, #verdict, .empty)")

        def is_quiet() -> bool:
            # The events of playwright come only here; by the page's own clock: what it had to do was done.
            self.page.evaluate("new Promise((done) => setTimeout(done, 30))")
            return not self._under_way

        until(is_quiet, "all is read", within=lambda: str([each.url for each in self._under_way]))

    def rooms(self) -> set[Shape]:
        """Return the pages that there are, by the modules of the page."""
        found = files("gapless.features.gateway.page") / "pages"
        modules = [
            f"/page/pages/{each.name}" for each in found.iterdir() if each.name.endswith(".js")
        ]
        return {tuple(each) for each in self.page.evaluate(_ROOMS, modules)}

    def visits_all(self, look: Callable[[str], None], *, anew: bool = False) -> set[Shape]:
        """Show one page of each shape, those of lists and those behind links; look at each."""
        self.goes_to("#/", anew=True)
        rooms = self.rooms()
        ahead = {(name, 0, ""): f"#/{name}" for name, count, _ in rooms if count == 0}
        seen: set[Shape] = set()
        while left := [shape for shape in ahead if shape not in seen]:
            seen.add(left[0])
            self.goes_to(ahead[left[0]], anew=anew)
            look(ahead[left[0]])
            for link in self.page.evaluate(_LINKS):
                first, *names = re.sub(r"^#/|\?.*", "", link).split("/")
                view = re.search(r"[?&](?:view|by)=(\w+)", link)
                ahead.setdefault((first, len(names), view[1] if view else ""), link)
        assert rooms - seen == set(), "no link leads to these: give the test data for them"
        return seen

    def _begin(self, request: Any) -> None:
        self.asked.append(request.url)
        if not urlsplit(request.url).path.endswith("/stream"):
            self._under_way.add(request)

    def _end(self, request: Any) -> None:
        self._under_way.discard(request)

    def _measure(self, response: Any) -> None:
        size = int(response.headers.get("content-length", 0))
        self.sizes[response.url] = max(size, self.sizes.get(response.url, 0))

    def _hear(self, said: Any) -> None:
        if "Content Security" in said.text:
            self.problems.append(said.text)


@contextmanager
def visitor(browser: Any, url: str, **more: Any) -> Iterator[Visitor]:
    """Yield a window; nothing hostile ran in it, and it loaded nothing from elsewhere."""
    context = browser.new_context(**({"viewport": {"width": 1400, "height": 900}} | more))
    found = Visitor(context.new_page(), url)
    yield found
    assert found.page.evaluate("window.hit") is None
    assert found.problems == []
    assert {each for each in found.asked if not each.startswith((url, "about:"))} == set()
    context.close()
