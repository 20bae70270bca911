"""Count the product files that name a thing: those to change, or to read, to add one like it.

A file counts if one of the thing's spellings stands as a word in its code: in Python in names and
strings, not docstrings; elsewhere (SQL, YAML, JSON, JavaScript, HTML) outside of comments. Tests,
docs, migrations and generated files do not count. A thing's own rooms are folders of its name.

    bin/places            print the table
    bin/places -v         print the files, too
    bin/places --write    put it into docs/why/style.md
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "why" / "style.md"
MARK = re.compile(r"(?<=<!-- places -->\n).*?(?=<!-- /places -->)", re.DOTALL)
PLACES = ("supervisor/gapless", "sql", "config")
SUFFIXES = {".py", ".sql", ".yml", ".json", ".js", ".html"}
LEFT_OUT = re.compile(r"sql/migrations/|sql/locks\.json|config/gapless\.yml")
COMMENT = {
    ".sql": r"--[^\n]*|/\*.*?\*/",
    ".yml": r"#[^\n]*",
    ".js": r"(?<!:)//[^\n]*|/\*.*?\*/",
    ".html": r"<!--.*?-->",
}


class Thing(NamedTuple):
    """A kind, an example, its spellings (a pattern of words), its own folder; the goal in files."""

    kind: str
    example: str
    words: str
    room: str
    goal: int


THINGS = (
    Thing("a child's setting", "`waitPeriodMs`", "wait_period_ms|waitPeriodMs|WAITPERIODMS", "", 2),
    Thing("a child's setting", "`maxCrashes`", "max_crashes|maxCrashes|MAXCRASHES", "", 2),
    Thing("a command", "`topics adopt`", "adopt_topic|adopted?|Adopted", "", 4),
    Thing("a command", "`groups expire`", "set_expiry|ExpiryChange|expire", "expiry", 4),
    Thing("an event column", "`host_id`", "host_id|hostId", "", 8),
    Thing("an event column", "`event_type`", "event_type|eventType", "", 8),
    Thing(
        "a failure policy", "`park-key`", "park-key|park_key|PARK_KEY|parks|parked|_parks", "", 8
    ),
    Thing("a group mode", "`queue`", r"queue|Queue\w*|queue_\w+", "queue", 6),
)


def strings_and_names(path: Path) -> str:
    """Return the names and strings of a Python file, without docstrings, one a line."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return "\n".join(_words(tree, docs))


def _words(tree: ast.AST, docs: set[int]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value
        for name in ("id", "attr", "arg", "name", "module"):
            if isinstance(said := getattr(node, name, None), str):
                yield said


def code_of(path: Path) -> str:
    if path.suffix == ".py":
        return strings_and_names(path)
    comment = COMMENT.get(path.suffix)
    text = path.read_text()
    return re.sub(comment, "", text, flags=re.DOTALL) if comment else text


def product() -> dict[str, str]:
    found = sorted(
        path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in SUFFIXES
    )
    named = {path.relative_to(ROOT).as_posix(): path for path in found}
    return {name: code_of(path) for name, path in named.items() if not LEFT_OUT.search(name)}


def main() -> None:
    files = product()
    lines = [
        "| kind | example | files | in rooms of its own | goal, elsewhere |",
        "|---|---|--:|--:|--:|",
    ]
    for thing in THINGS:
        wanted = re.compile(rf"(?<![\w-])(?:{thing.words})(?![\w-])")
        named = [name for name, code in files.items() if wanted.search(code)]
        own = [name for name in named if thing.room and f"/{thing.room}/" in name]
        lines.append(
            f"| {thing.kind} | {thing.example} | {len(named)} | {len(own)} | {thing.goal} |"
        )
        if "-v" in sys.argv:
            lines += [f"  {name}" for name in named]
    text = "\n".join(lines) + "\n"
    if "--write" in sys.argv:
        PAGE.write_text(MARK.sub(lambda _: text, PAGE.read_text()))
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
