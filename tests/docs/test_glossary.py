"""The glossary has every noun: of docs/learn/concepts.md, of the schema, of the states that are drawn."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_TABLE = re.compile(r"create (?:unlogged )?table (?:if not exists )?gapless\.(\w+)")
# Parts of a table that has an entry: `outbox_message_default`, `dedupe_0` …
_PART = re.compile(r".*_(?:default|\d+)\b")


def terms(page: str) -> set[str]:
    """The words that a page defines: bold, at the beginning of an entry or within one."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return {word.lower() for word in re.findall(r"\*\*([^*]+)\*\*", text)}


def _words_of_the_concepts() -> set[str]:
    text = (DOCS / "learn" / "concepts.md").read_text(encoding="utf-8")
    words = text.partition("## Words\n")[2].partition("\n## ")[0]
    return {word.lower() for word in re.findall(r"\*\*([^*]+)\*\*", words)}


def test_every_noun_of_the_concepts_is_in_it() -> None:
    words = _words_of_the_concepts()
    assert len(words) > 20
    assert not words - terms("reference/glossary.md")


def test_every_table_is_in_it() -> None:
    sql = [
        path for kind in ("tables", "migrations") for path in (ROOT / "sql").rglob(f"{kind}/*.sql")
    ]
    sql.append(ROOT / "sql/db/queries/schema.sql")
    tables = {name for path in sql for name in _TABLE.findall(path.read_text())}
    assert {"topic", "lease", "dead_letter", "migration"} <= tables
    named = set(
        re.findall(r"`(\w+)`", (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8"))
    )
    assert not {name for name in tables if not _PART.fullmatch(name)} - named


def test_no_entry_is_there_twice() -> None:
    text = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\*\*([^*]+)\*\*", text, re.MULTILINE)
    assert len(entries) == len(set(entries))


@pytest.mark.parametrize(
    ("heading", "values"),
    [
        ("A unit that was set aside", ("dead_letter_state",)),
        ("A worker", ("ExitCode",)),
    ],
)
def test_every_state_is_drawn(heading: str, values: tuple[str, ...]) -> None:
    text = (DOCS / "learn" / "states.md").read_text(encoding="utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    drawn = section.partition("```text")[2].partition("```")[0]
    for state in _states(values[0]):
        assert re.search(rf"`{state}`", section), f"{heading}: {state} is not in the table"
        assert state in drawn or state.isupper(), f"{heading}: {state} is not drawn"


def _states(of: str) -> list[str]:
    if of == "ExitCode":
        from gapless.worker.spec import ExitCode

        return [code.name for code in ExitCode]
    text = (ROOT / "sql/consume/tables/06_aside.sql").read_text(encoding="utf-8")
    check = re.search(rf"constraint {of} check \(state in \(([^)]*)\)", text)
    assert check is not None
    return re.findall(r"'(\w+)'", check[1])
