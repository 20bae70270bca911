"""Each promise has its guards in docs/why/invariants.md, and a test in bin/test --fast."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROMISED = [f"I{number}" for number in range(1, 12)]


def _with_marks() -> Iterator[Path]:
    """The files that may mark a test: to parse all others takes seconds."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        if "mark.invariant(" in path.read_text(encoding="utf-8"):
            yield path


def _marked(path: Path) -> set[str]:
    """The invariants that @pytest.mark.invariant(…) names in a file."""
    return {
        str(word.value)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.invariant"
        for word in node.args
        if isinstance(word, ast.Constant)
    }


def test_every_invariant_has_a_fast_test() -> None:
    marked = set().union(*map(_marked, _with_marks()))
    assert marked == set(PROMISED)


def test_none_of_them_is_left_to_long() -> None:
    for path in _with_marks():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", [])]
            if any(mark.startswith("pytest.mark.invariant(") for mark in marks):
                assert "pytest.mark.long" not in marks, f"{path}:{node.lineno}"


def test_every_invariant_has_its_guards() -> None:
    page = (ROOT / "docs" / "why" / "invariants.md").read_text(encoding="utf-8")
    assert set(PROMISED) <= set(re.findall(r"^\| \*\*(I\d+)\*\*", page, re.MULTILINE))
