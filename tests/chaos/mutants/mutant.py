"""What a mutant is: the product with one deliberate fault, and what must come of it.

The fault is in the test's database (a changed text of a function) or in the processes of the
test's theatre (changed attributes); the shipped code is never touched.
"""

from collections.abc import Callable
from dataclasses import dataclass

from chaos.checker import Violation
from chaos.points.theatre import Theatre
from gapless.db.queries import sql_files

Play = Callable[[Theatre], list[Violation]]


@dataclass(frozen=True)
class Edit:
    """Replace `old`, all of it, in the file of a SQL function, whatever folder it is in."""

    file: str
    old: str
    new: str = ""

    def apply(self, text: str) -> str:
        assert self.old in text, f"{self.file}.sql has changed: mend the mutant"
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutant:
    """One deliberate fault: edits in the database, or in the processes what python.py says.

    play: a short run in which it must show; it returns what only this play can see.
    caught_as: any of these names of violations means that it was caught.
    """

    name: str
    play: Play
    caught_as: frozenset[str]
    edits: tuple[Edit, ...]

    def infect(self, theatre: Theatre) -> None:
        """Change the functions of the theatre's database."""
        for file in dict.fromkeys(edit.file for edit in self.edits):
            (path,) = (path for path in sql_files("functions") if path.stem == file)
            text = path.read_text()
            for edit in self.edits:
                if edit.file == file:
                    text = edit.apply(text)
            theatre.conn.execute(text.encode())


def mutant(name: str, play: Play, caught_as: set[str], *edits: Edit) -> Mutant:
    """Return the mutant with these edits, if any."""
    return Mutant(name, play, frozenset(caught_as), edits)
