"""The table of journeys, and what is counted without running anything."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parents[2] / "supervisor"


class Row(NamedTuple):
    """A journey: distinct functions, distinct files, and how often the file changes."""

    journey: str
    functions: int
    files: int
    changes: int


def table(rows: Sequence[Row]) -> str:
    """Return the journeys as a table."""
    lines = [f"{'journey':<32}{'functions':>10}{'files':>8}{'changes of file':>17}"]
    lines += [f"{row[0]:<32}{row[1]:>10}{row[2]:>8}{row[3]:>17}" for row in rows]
    return "\n".join(lines)


def say(*words: str) -> None:
    """Print a paragraph, a line a word."""
    sys.stdout.write("\n" + "\n  ".join(words) + "\n")


def classes() -> Iterator[tuple[str, Path, ast.ClassDef]]:
    """Yield every class of the sources that is not made under a condition: name, file, tree."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name, path.relative_to(SOURCES), node


def twice() -> dict[str, set[Path]]:
    """Return the names of classes that are in several files."""
    found: defaultdict[str, set[Path]] = defaultdict(set)
    for name, path, _ in classes():
        found[name].add(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def changed(node: ast.ClassDef) -> set[str]:
    """Return the attributes that methods other than __init__ assign to."""
    methods = (
        each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return {
        inner.attr
        for method in methods
        if method.name not in {"__init__", "__new__"}
        for inner in ast.walk(method)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, ast.Store)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
    }
