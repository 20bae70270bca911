"""A run over many mutants: which are chosen, what is known of them already, what is left.

Results are lines of JSON, appended one by one, so a run that was ended goes on with --resume.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from mutate import catalogue, python, sql
from mutate.arena import Outcome
from mutate.mutant import ROOT, Mutant

PLACES = (
    "supervisor/gapless/consume", "supervisor/gapless/lease", "supervisor/gapless/worker",
    "supervisor/gapless/log", "sql",
    *(
        f"supervisor/gapless/features/{name}"
        for name in "compaction expiry filters messages queue retention scheduled schemas".split()
    ),
)  # fmt: skip
ACCEPTED = Path(__file__).with_name("accepted.toml")
_MAKERS: dict[str, Callable[[str, str], Iterable[Mutant]]] = {
    ".py": python.mutants,
    ".sql": sql.mutants,
}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the results."""

    name: str
    path: str
    within: str
    line: int
    how: str
    was: str
    now: str
    outcome: Outcome
    by: str = ""
    seconds: float = 0.0
    diff: str = ""

    @classmethod
    def of(cls, mutant: Mutant, outcome: Outcome, by: str = "", seconds: float = 0.0) -> Line:
        return cls(
            name=mutant.name, path=mutant.path, within=mutant.within, line=mutant.line,
            how=mutant.how, was=mutant.was, now=mutant.now, outcome=outcome, by=by,
            seconds=round(seconds, 1), diff=mutant.diff(),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A survivor that is known, and why it may be one."""

    path: str
    within: str
    was: str
    now: str
    reason: str

    def covers(self, mutant: Mutant | Line) -> bool:
        return (self.path, self.within, self.was, self.now) == (
            mutant.path, mutant.within, mutant.was, mutant.now,
        )  # fmt: skip


@dataclass
class Results:
    """What is known of mutants, by their names; the latest counts."""

    path: Path
    lines: dict[str, Line] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Results:
        text = path.read_text() if path.exists() else ""
        lines = [Line(**json.loads(line)) for line in text.splitlines()]
        return cls(path, {line.name: line for line in lines})

    def add(self, line: Line) -> None:
        self.lines[line.name] = line
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(line)) + "\n")


@dataclass(frozen=True)
class Figure:
    """How many of the mutants that count were killed. Accepted ones count as survivors too."""

    outcomes: Counter[str]
    accepted: int

    @property
    def tried(self) -> int:
        return self.killed + self.outcomes["survived"]

    @property
    def killed(self) -> int:
        return self.outcomes["killed"] + self.outcomes["hung"]

    def __str__(self) -> str:
        share = 100 * self.killed / self.tried if self.tried else 0.0
        return (
            f"{self.killed} of {self.tried} killed: {share:.1f} %"
            f" ({self.outcomes['hung']} hung; {self.outcomes['survived']} survived,"
            f" {self.accepted} of them accepted; {self.outcomes['undecided']} undecided,"
            f" {self.outcomes['invalid']} no program)"
        )


def all_mutants(only: Iterable[str] = ()) -> Iterator[Mutant]:
    """Find the mutants of files in `only` (files or folders, from the root), or of all places."""
    for file in files_of(only):
        yield from _MAKERS[file.suffix](str(file.relative_to(ROOT)), file.read_text())


def classics(only: Iterable[str] = ()) -> Iterator[Mutant]:
    """Find those of the catalogue; they are in no sample, for the fault harness tries each."""
    for file in files_of(only):
        if file.suffix == ".sql":
            yield from catalogue.mutants(str(file.relative_to(ROOT)), file.read_text())


def files_of(only: Iterable[str]) -> Iterator[Path]:
    """Find the files in `only` (files or folders, from the root), or of all places."""
    for place in only or PLACES:
        found = ROOT / place
        below = "**/functions/**/*.*" if place == "sql" else "**/*.*"
        files = [found] if found.is_file() else sorted(set(found.glob(below)))
        yield from (file for file in files if file.suffix in _MAKERS)


def chosen(mutants: Iterable[Mutant], sample: int | None, seed: int) -> list[Mutant]:
    """Return them in an order that the seed gives; the first `sample` of them."""
    every = list(mutants)
    Random(seed).shuffle(every)
    return every[:sample]


def accepted() -> list[Accepted]:
    """Read the list of survivors that are known."""
    return [Accepted(**each) for each in tomllib.loads(ACCEPTED.read_text()).get("survivor", ())]


def figure(lines: Iterable[Line]) -> Figure:
    """Count."""
    every = list(lines)
    known = accepted()
    return Figure(
        Counter(line.outcome for line in every),
        sum(
            line.outcome == "survived" and any(each.covers(line) for each in known)
            for line in every
        ),
    )
