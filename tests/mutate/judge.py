"""Which edits are none: the server refuses them, or they do not compile."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.server import embedded
from mutate.mutant import Mutant


class Judge:
    """Tells which edits of SQL the server refuses at once."""

    def __init__(self, dsn: str) -> None:
        self._conn = connect(dsn, role="mutate")
        migrate(self._conn)

    def takes(self, mutant: Mutant) -> bool:
        """Tell whether the file can be installed; nothing of it stays. Python: compiled.

        Raises psycopg.OperationalError when the server is not there: that says nothing of it.
        """
        if mutant.path.endswith(".py"):
            return _compiles(mutant)
        try:
            with self._conn.transaction(force_rollback=True):
                self._conn.execute(mutant.mutated.encode())
        except psycopg.OperationalError:
            raise
        except psycopg.Error:
            return False
        return True


@contextmanager
def judge() -> Iterator[Judge]:
    """Start a server that judges."""
    with embedded(throwaway=True) as dsn:
        yield Judge(dsn)


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutant.mutated, mutant.path, "exec")
    except SyntaxError:
        return False
    return True
