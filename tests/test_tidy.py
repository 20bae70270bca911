"""House rules (docs/style.md) as a test: sizes, docstrings, no SQL in Python, units in names."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "supervisor" / "gapless"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LINES_MAX = 300
FUNCTION_LINES_MAX = 50
SQL_LINE_MAX = 100
_SQL = re.compile(
    r"\s*(select|insert|update|delete|with|create|alter|drop|begin|do|copy)\b.*\b"
    r"(from|into|set|table|as|function|exists)\b",
    re.IGNORECASE | re.DOTALL,
)


def _ids(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_a_file_is_one_idea(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= LINES_MAX, f"{path.name} has {len(lines)} lines"
    assert ast.get_docstring(ast.parse("\n".join(lines))), "a module says what it owns"


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_a_function_does_one_thing(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = node.body
        if ast.get_docstring(node):
            body = body[1:]
        length = (node.end_lineno or 0) - (body[0].lineno if body else node.lineno) + 1
        assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_no_sql_in_python(path: Path) -> None:
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        if id(node) in docstrings or not _SQL.match(node.value):
            continue
        one_line = "\n" not in node.value.strip() and len(node.value) < SQL_LINE_MAX
        assert one_line, f"line {node.lineno}: SQL belongs into sql/"


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_nothing_is_left_for_later(path: Path) -> None:
    words = re.findall(r"\b(TODO|FIXME|XXX|HACK)\b", path.read_text())
    assert not words
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print" or path.parts[-2] in {"cli", "demo"}, (
                f"line {node.lineno}: print outside the command line"
            )


# The demo shows its own tables, which are no part of gapless.
ASKS_THE_DATABASE = {"demo/kept.py", "demo/play.py", "demo/report.py"}


def test_the_command_line_asks_the_database_through_ops() -> None:
    """What a command does, a gateway does with one call of gapless.ops."""
    asking = {
        str(path.relative_to(PACKAGE / "cli"))
        for path in PACKAGE.glob("cli/**/*.py")
        if "gapless.db.queries" in path.read_text()
    }
    assert asking == ASKS_THE_DATABASE


def test_a_class_of_the_command_line_or_of_ops_has_a_name_of_its_own() -> None:
    defined: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, []).append(_ids(path))
    twice = {name: paths for name, paths in defined.items() if len(paths) > 1}
    ours = {
        name: paths
        for name, paths in twice.items()
        if any(path.startswith(("cli/", "ops/")) for path in paths)
    }
    assert not ours


def test_the_name_supervisor_stays_free() -> None:
    """`import supervisor` from the checkout must still find supervisord's package."""
    assert not (ROOT / "supervisor" / "__init__.py").exists()


def test_top_level_is_what_was_asked_for() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    asked = {"pyproject.toml", "supervisor", "sql", "config", "tests", "bin"}
    beside = {"README.md", "CHANGELOG.md", "LICENSE", "docs", "benchmarks", "examples"}
    assert asked <= top
    assert not {name for name in top - asked - beside if not name.startswith(".")}


@pytest.mark.parametrize("path", sorted((ROOT / "sql").rglob("*.sql")), ids=lambda p: p.name)
def test_sql_is_source(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("--"), "a file begins with what it is for"
    assert not re.search(r"[ \t]+$", text, re.MULTILINE), "trailing blanks"
    assert max(map(len, text.splitlines())) <= 120
