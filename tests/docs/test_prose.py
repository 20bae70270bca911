"""Pages and messages are plain, modern English, without the words that docs/why/style.md replaces."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.every import every

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "sql/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
OLD = {
    "dear, of costs": r"dear(?:er)?",
    "archaic": r"whilst|hence|thereof|henceforth|lest|ere|upon|thither|thence|whence|wherein",
}
IN_PAGES = {
    **OLD,
    "so many … at most: at most N": r"so many [^.]{0,40}at most|at most so (?:many|long|often)",
    "goes on: continues": r"go(?:es|ing)? on|went on",
    "meanwhile: while …, until then": r"meanwhile",
    "for ever: forever": r"for ever",
    "whoever: a noun, such as the caller, a session": r"who(?:m|so)?ever",
    "of which … are: a sentence, or … of them": r"of which [^.;:|]{0,60}\bare",
}
# A clause that stands for a noun; `When …` and `Where …` are clauses of time and place.
_CLAUSE = r"(?:What|Who|Whoever|Whose|Which|How)\b"
_GENERATED = re.compile(r"^```.*?^```|<!-- (?:bench|figures) .*?<!-- /", re.MULTILINE | re.DOTALL)
# Outputs of blocks are looked at beside one's own terminal, and not read.
_OUTPUT = re.compile(r"^```text\n.*?^```", re.MULTILINE | re.DOTALL)
# Code, names and messages are quoted as they are; tables of figures are made by benchmarks.
_QUOTED = re.compile(
    r"^```.*?^```|^ {4}[^\n]*|`[^`\n]*`|<!-- (?:bench|figures) .*?<!-- /|^[^\n]*test_[^\n]*$",
    re.MULTILINE | re.DOTALL,
)


def found(text: str, words: dict[str, str]) -> Iterator[str]:
    """Yield each word that should be another one, with its line."""
    for why, pattern in words.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            yield f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]} ({why})"


def _lines(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _blanked(text: str) -> str:
    return _QUOTED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def test_pages_are_plain_english() -> None:
    def check(page: Path) -> None:
        old = list(found(_blanked(page.read_text(encoding="utf-8")), IN_PAGES))
        assert not old, "\n".join(old)

    # docs/why/style.md names the words.
    every(check, [page for page in PAGES if page.name != "style.md"], Path.as_posix)


def test_no_archaic_word_is_anywhere() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.sql", "*.yml", "*.toml", "bin"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    old = [
        f"{name}: {each}"
        for name in listed.stdout.splitlines()
        if ROOT / name != Path(__file__) and (ROOT / name).is_file()
        for each in found((ROOT / name).read_text(encoding="utf-8"), OLD)
    ]
    assert not old, "\n".join(old)


def test_what_the_package_says_is_plain_english() -> None:
    """Messages, help and comments of Python and SQL; tables and migrations that were released stay."""
    said = (*ROOT.glob("supervisor/gapless/**/*.py"), *ROOT.glob("sql/*/**/*.sql"))
    words = {
        why: pattern
        for why, pattern in IN_PAGES.items()
        if why.startswith(("goes on", "for ever", "whoever", "of which"))
    }
    old = [
        f"{path.relative_to(ROOT)}: {each}"
        for path in said
        if "migrations" not in path.parts
        for each in found(path.read_text(encoding="utf-8"), words)
    ]
    assert not old, "\n".join(old)


def test_an_old_word_is_found() -> None:
    page = (
        "It goes on.\n`it goes on`\n\n```text\nmeanwhile\n```\nThat is dearer, for ever.\n"
        "Whoever asks, of which two are late.\n"
        "| whoever goes on | `test_going_on` |\n"
    )
    told = list(found(_blanked(page), IN_PAGES))
    assert [each.split(" (")[0] for each in told] == [
        "line 7: dearer",
        "line 1: goes on",
        "line 7: for ever",
        "line 8: Whoever",
        "line 8: of which two are",
    ]


def _clauses(text: str) -> Iterator[str]:
    """Yield each docstring whose first word makes a clause of it, not a noun and no imperative.

    Also those below a constant or a field.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            said = str(node.value.value)
            if re.match(_CLAUSE, said):
                yield said.partition("\n")[0]


def test_a_docstring_names_the_thing_or_says_what_it_does() -> None:
    clauses = [
        f"{path.relative_to(ROOT)}: {said}"
        for room in ("supervisor", "examples", "benchmarks", "bin", "tests/support")
        for path in (ROOT / room).rglob("*.py")
        for said in _clauses(path.read_text(encoding="utf-8"))
    ]
    assert not clauses, "\n".join(clauses)
    text = 'def f():\n    """What it does."""\n\n\nN = 1\n"""How many."""'
    assert sorted(_clauses(text)) == ["How many.", "What it does."]


def _asking(page: str) -> list[str]:
    """Return the headings that are clauses; a `#` in a block begins a comment."""
    return re.findall(rf"^#+ +({_CLAUSE}.*)$", _blanked(page), re.MULTILINE)


def test_a_heading_is_a_noun_or_an_imperative() -> None:
    """Decisions may ask: they answer below."""

    def check(page: Path) -> None:
        assert not _asking(page.read_text(encoding="utf-8"))

    every(check, [page for page in PAGES if page.parent.name != "decisions"], Path.as_posix)
    page = "# How much\n```sh\n# What it does\n```\n## Costs\n### Who may\n"
    assert _asking(page) == ["How much", "Who may"]


def test_a_page_can_be_read_in_an_editor() -> None:
    """A line has at most 120 characters; a row of a table cannot be wrapped, a link or code is not."""
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in PAGES
        if page.parent.name != "decisions" and "sql" not in page.parts
        for number, line in enumerate(
            _GENERATED.sub(_lines, page.read_text("utf-8")).split("\n"), 1
        )
        if len(line) > 120 and not line.startswith("|") and " " in line[:100]
    ]
    assert not long, "\n".join(long)


def test_the_readme_takes_five_minutes() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(_OUTPUT.sub("", text).split()) <= 900


def _ease(text: str) -> float:
    """Return Flesch's reading ease (R. Flesch, 1948): 60 to 70 is plain English, 100 is easiest."""
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", _blanked(text))
    prose = re.sub(r"^(?:\||#|<|!).*$|[*_]", "", prose, flags=re.MULTILINE)
    words = re.findall(r"[A-Za-z]+", prose)
    sentences = len(re.findall(r"[.!?:;](?:\s|$)", prose))
    syllables = sum(
        max(1, len(re.findall(r"[aeiouy]+", word.lower().rstrip("e")))) for word in words
    )
    return 206.835 - 1.015 * len(words) / sentences - 84.6 * syllables / len(words)


_FROM = sorted((ROOT / "docs" / "start" / "from").glob("*.md"))


@pytest.mark.parametrize("page", _FROM, ids=lambda page: page.stem)
def test_a_guide_for_those_who_come_from_elsewhere_is_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= 700


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "docs" / "start" / "tutorial.md", *_FROM],
    ids=lambda page: page.stem,
)
def test_a_newcomer_reads_it_once(page: Path) -> None:
    assert _ease(page.read_text(encoding="utf-8")) >= 60
