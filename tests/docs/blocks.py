"""The code blocks of a page: what each is, and whether it is to be run.

A block of python, sh or sql is run; one of text, or with `<!-- not run: WHY -->` on the line before
it, is not. Every other block is a mistake. Text right below a block that is run is its output.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"),
]
RUN = ("python", "sh", "sql")
_FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)
_OUTPUT = re.compile(r"\s*^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WHY_NOT = re.compile(r"<!-- not run: (.+) -->\n\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block; `why_not` says why it is not run, None that it is.

    prints: the output that the page shows below it, empty where it shows none.
    """

    page: Path
    line: int
    language: str
    text: str
    why_not: str | None
    prints: str

    def __str__(self) -> str:
        return f"{self.page.name} line {self.line}"


class UndecidedError(AssertionError):
    """A block that is neither to be run nor said not to be."""


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page. Raises UndecidedError."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        said = _WHY_NOT.search(text, 0, match.start())
        output = _OUTPUT.match(text, match.end())
        language = match["language"].strip()
        block = Block(
            page=page,
            line=text.count("\n", 0, match.start()) + 1,
            language=language,
            text=match["text"],
            why_not="it is no program" if language == "text" else said and said[1],
            prints=output[1] if output else "",
        )
        if block.why_not is None and language not in RUN:
            raise UndecidedError(
                f"{block}: a block of {language or 'no language'}: say {', '.join(RUN)} or text, or "
                "why it is not run, on the line before: <!-- not run: WHY -->"
            )
        found.append(block)
    return found
