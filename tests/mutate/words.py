"""The names by which tests may speak of a mutant: they are tried first."""

import re
from functools import cache
from pathlib import Path

from mutate.mutant import Mutant

WORDS_MAX = 12
NEAREST_MAX = 3
_CALLED = re.compile(r"\bgapless\.(\w+)")


def words(mutant: Mutant, root: Path) -> list[str]:
    """Return the function's name, then, of SQL, who calls it; of Python, its class and its module."""
    if mutant.path.endswith(".py"):
        module = mutant.path.removeprefix("supervisor/").removesuffix(".py").replace("/", ".")
        return [*reversed(mutant.within.split(".")), module] if mutant.within else [module]
    found = [mutant.within or Path(mutant.path).stem]
    for name in found:  # it grows meanwhile
        found += [each for each in _callers(root, name) if each not in found]
        if len(found) > WORDS_MAX:
            break
    return found[:WORDS_MAX]


def _callers(root: Path, name: str) -> list[str]:
    return sorted(stem for stem, called in _calls(root).items() if name in called)


@cache
def _calls(root: Path) -> dict[str, set[str]]:
    """Return which functions each file of SQL names, by the file's name."""
    files = [*(root / "sql").rglob("functions/**/*.sql"), *(root / "sql").rglob("queries/*.sql")]
    return {file.stem: set(_CALLED.findall(file.read_text())) - {file.stem} for file in files}


def nearest(tests: list[str], names: list[str], root: Path) -> list[str]:
    """Of files and folders of tests, the few files that name the first of the words most often."""
    ranked = []
    for file in dict.fromkeys(each for test in tests for each in _files(root / test)):
        text = file.read_text()
        counts = (len(re.findall(rf"\b{re.escape(name)}\b", text)) for name in names)
        found = next(((at, -count) for at, count in enumerate(counts) if count), None)
        if found:
            ranked.append((found, str(file.relative_to(root))))
    return [file for _, file in sorted(ranked)[:NEAREST_MAX]]


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
