"""Links between the pages: what they lead to is there, the heading too."""

import re
from importlib.metadata import metadata
from pathlib import Path

from support.every import every

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "sql/**/*.md", "benchmarks/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(text)
    }


def dead_links(page: Path) -> list[str]:
    """The links of a page that lead nowhere; addresses of other hosts are not looked up."""
    dead = []
    for match in _LINK.finditer(_CODE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = match["target"].partition("#")
        if re.match("[a-z]+:", target):
            continue
        there = page if not target else (page.parent / target).resolve()
        if not there.exists() or (anchor and anchor not in anchors(there)):
            dead.append(match["target"])
    return dead


def test_no_link_is_dead() -> None:
    def check(page: Path) -> None:
        assert dead_links(page) == []

    every(check, PAGES, Path.as_posix)


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One, two\n[a](#one-two) [b](#three) [c](gone.md) [d](https://example.com)")
    assert dead_links(page) == ["#three", "gone.md"]


def test_the_index_of_packages_gets_absolute_links() -> None:
    """What an index shows is the text of the metadata; this environment has them as they are built."""
    found = metadata("gapless")
    text = found.json["description"]
    source = dict(line.split(", ") for line in found.get_all("Project-URL", []))["Source"]
    targets = [match["target"] for match in _LINK.finditer(_CODE.sub("", text))]
    assert f"{source}/blob/HEAD/docs/learn/concepts.md" in targets
    assert f"{source}/raw/HEAD/docs/run/console.svg" in targets
    assert all(target.startswith(("https://", "#")) for target in targets)


def test_every_page_has_a_place_in_the_site() -> None:
    """Without the tools that build it: tests/docs/test_site.py takes a minute."""
    placed = re.findall(
        r'^        \(".+", "([\w/-]+\.md)"\),$',
        (ROOT / "bin" / "_site.py").read_text(),
        re.MULTILINE,
    )
    assert sorted(placed) == sorted(
        page.relative_to(ROOT / "docs").as_posix()
        for page in (ROOT / "docs").rglob("*.md")
        if page.parent.name not in {"decisions", "docs"}
    )
