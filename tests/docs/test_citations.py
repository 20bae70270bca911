"""What code, tests and docs cite is there: pages, files, invariants, tests, names of the code."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = ("benchmarks", "bin", "config", "docs", "examples", "sql", "supervisor", "tests")
CITING = (".py", ".sql", ".md", ".yml", ".toml", ".sh", "")
# Files that a test makes.
NOT_OURS = {
    "supervisor/purse.py",
    "tests/test_purse.py",
}
_PATH = re.compile(
    rf"(?<![\w/.-])(?:{'|'.join(TOP)})/[\w./-]*\w\.(?:md|py|sql|yml|toml|json|svg)\b"
)
_PAGE = re.compile(r"\b[A-Z]{4,}\.md\b")
# Documents by which this was built, which nobody else has.
_DESIGN = re.compile(r"\b(?:DESIGN|LEASING|STYLE|HOUSE)\b|\bNEXT\.md\b")
_NUMBER = re.compile(r"(?<![\w\"'$%.-])[ISPL][1-9]\d?(?![\w\"'%.=-])")
_NAME = re.compile(r"`(\w+(?:\.\w+)*)(?:\(\))?`")


def cited_paths(text: str) -> set[str]:
    return set(_PATH.findall(text)) - NOT_OURS


@cache
def _sources() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    found = (ROOT / line for line in listed.stdout.splitlines())
    return tuple(path for path in found if path.is_file() and path.suffix in CITING)


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def _defined(page: str) -> set[str]:
    """The invariants that a page defines: a row of a table that begins with its bold number."""
    return set(re.findall(r"^\| \*\*([ISPL]\d+)\*\*", _read(ROOT / "docs" / page), re.MULTILINE))


@pytest.mark.long
def test_cited_files_are_there() -> None:
    dead = [
        f"{path.relative_to(ROOT)}: {cited}"
        for path in _sources()
        if path != Path(__file__)
        for cited in sorted(cited_paths(_read(path)))
        if not (ROOT / cited).exists() and not (path.parent / cited).exists()
    ]
    assert not dead, "\n".join(dead)


@pytest.mark.long
def test_nothing_leads_out_of_the_repository() -> None:
    kept = {path.name for path in ROOT.glob("*.md")} | {"NAME.md"}
    dead = [
        f"{path.relative_to(ROOT)}: {cited}"
        for path in _sources()
        if path != Path(__file__)
        for cited in [*_PAGE.findall(_read(path)), *_DESIGN.findall(_read(path))]
        if cited not in kept
    ]
    assert not dead, "\n".join(dead)


def test_cited_invariants_are_defined() -> None:
    known = _defined("why/invariants.md") | _defined("why/leases.md")
    assert {"I1", "I11", "S1", "S7", "P1", "P4", "L1", "L3"} <= known
    dead = [
        f"{path.relative_to(ROOT)}: {cited}"
        for path in _sources()
        if path.suffix != ".svg" and path != Path(__file__)
        for cited in sorted(set(_NUMBER.findall(_read(path))) - known)
    ]
    assert not dead, "\n".join(dead)


@pytest.mark.parametrize("page", ["why/invariants.md", "run/secure.md", "why/leases.md"])
def test_cited_tests_are_there(page: str) -> None:
    dead = [cited for cited in _cited_tests(_read(ROOT / "docs" / page)) if not _is_there(*cited)]
    assert not dead, "\n".join(map("::".join, dead))


@pytest.mark.parametrize("page", ["why/invariants.md", "learn/states.md", "why/leases.md"])
def test_cited_names_are_there(page: str) -> None:
    words = _words()
    dead = {
        name
        for name in _NAME.findall(_read(ROOT / "docs" / page))
        if not set(name.split(".")) <= words
    }
    assert not dead, f"docs/{page} names what is nowhere: {', '.join(sorted(dead))}"


def test_a_dead_citation_is_found(tmp_path: Path) -> None:
    assert cited_paths("see docs/gone.md, sql/README.md.") == {"docs/gone.md", "sql/README.md"}
    assert _DESIGN.findall("as LEASING says") == ["LEASING"]
    assert _NUMBER.findall("(I7), S12: but not I_1, S603, P1.5") == ["I7", "S12"]
    assert list(_cited_tests("`log/test_gone`, `…::test_this…`")) == [
        ("log/test_gone", ""),
        ("", "test_this…"),
    ]
    assert not _is_there("log/test_gone", "")
    assert not _is_there("", "test_that_nobody_wrote_so_far…")
    assert _is_there("log/test_publish", "")


def _cited_tests(text: str) -> list[tuple[str, str]]:
    """(File below tests/, last name of it) of each test that is cited in backticks."""
    found = []
    for match in re.finditer(r"`([^`\n]*test_[^`\n]*)`", text):
        file, *names = match[1].split("::")
        if file.startswith(("bin/", "tests/chaos/mutants")) or " " in file:
            continue
        if "…" in file or not ("/" in file or _files(file)):
            names, file = [file, *names], ""
        found.append((file.removesuffix(".py"), names[-1] if names else ""))
    return found


def _is_there(file: str, name: str) -> bool:
    wanted = re.escape(re.sub(r"\[.*", "", name).strip("…"))
    paths = _files(file) if file else sorted((ROOT / "tests").rglob("test_*.py"))
    return any(re.search(rf"(?:def|class) \w*{wanted}", _read(path)) for path in paths)


def _files(name: str) -> list[Path]:
    path = ROOT / "tests" / f"{name.removesuffix('.py').removeprefix('tests/')}.py"
    return [path] if path.is_file() else []


@cache
def _words() -> frozenset[str]:
    """Every word of the code, its SQL and its tests, and the names of their files."""
    code = [path for path in _sources() if path.suffix in {".py", ".sql", ".yml"}]
    words = {word for path in code for word in re.findall(r"\w+", _read(path))}
    return frozenset(words | {path.stem for path in code} | {"py", "sql"} | _folders())


def _folders() -> set[str]:
    return {part for path in _sources() for part in path.relative_to(ROOT).parts}
