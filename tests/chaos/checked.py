"""A run that is short and sound, for the checker; and what the checker finds when it is corrupted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import Connection

from chaos.checker import Violation, check_records, report
from chaos.effects import make_tables
from chaos.history import Record, read
from gapless.db.connect import connect


@dataclass
class Run:
    conn: Connection[Any]
    folder: Path
    records: list[Record]
    look: Callable[[Connection[Any], list[Record]], list[Violation]] = check_records

    def violations(self, records: list[Record] | None = None) -> list[Violation]:
        return self.look(self.conn, self.records if records is None else records)

    def found(self, name: str, *statements: str) -> list[Violation]:
        """Corrupt the tables, look, and put them back; return what is told under a name, at least one."""
        with self.conn.transaction(force_rollback=True):
            self.conn.execute("set constraints all deferred")
            for statement in statements:
                assert self.conn.execute(statement.encode()).rowcount > 0, statement
            found = self.violations()
        return _named(found, name)

    def found_in(self, name: str, records: list[Record]) -> list[Violation]:
        """As found(), of other records."""
        return _named(self.violations(records), name)


def _named(found: list[Violation], name: str) -> list[Violation]:
    named = [each for each in found if each.name == name]
    assert named, report(found)
    return named


@contextmanager
def played(
    dsn: str, folder: Path, play: Callable[[Connection[Any]], None], **how: Any
) -> Iterator[Run]:
    """Yield the run that a play makes in an empty log."""
    with connect(dsn, role="test") as conn:
        make_tables(conn)
        play(conn)
        yield Run(conn, folder, read(folder), **how)
