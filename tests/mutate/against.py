"""A plugin of pytest: mutants against the tests of some files alone, all in one process.

All tests that are about a file take seconds a mutant. This takes a tenth of that, and says less: what it
leaves alive, others may kill. SQL is installed in the database that the tests of a file share (the fixture
module_dsn), and put back behind them; functions of Python get other code.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from _pytest.runner import runtestprotocol

from mutate.arena import Outcome
from mutate.mutant import Mutant
from mutate.patch import UnfitError, patch
from mutate.session import Line, Results, accepted, all_mutants, chosen

QUERY_S_MAX = 10
_CANCEL = (
    "select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database()"
    " and state = 'active' and pid <> pg_backend_pid() and now() - query_start > %s * interval '1 s'"
)
_databases: dict[str, str] = {}  # by the file of tests, where they share one


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[Any]:
    made = yield
    if fixturedef.argname == "module_dsn":
        _databases[request.node.nodeid] = made
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Try all mutants against the tests of each file that were collected."""
    wanted = json.loads(os.environ["MUTATE_AGAINST"])
    results = Results.load(Path(wanted["results"]))
    known = accepted()
    mutants = [m for m in all_mutants(wanted["only"]) if not any(a.covers(m) for a in known)]
    trial = _Trial(chosen(mutants, wanted["sample"], wanted["seed"]), results)
    for items in _by_file(session.items):
        trial.run(items)
        session._setupstate.teardown_exact(session)  # the file; the server stays
    return True


def _by_file(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    return list(files.values())


class _Trial:
    """What became of mutants. killers: tests that failed for mutants of a file come first."""

    def __init__(self, mutants: list[Mutant], results: Results) -> None:
        self._mutants = mutants
        self._results = results
        self._killers: Counter[tuple[str, str]] = Counter()

    def run(self, items: list[pytest.Item]) -> None:
        """Try what is still alive against the tests of one file."""
        if failed := _first_failure(items):
            raise pytest.UsageError(f"without a mutant, this test fails: {failed.nodeid}")
        dsn = _databases.get(items[0].nodeid.partition("::")[0])
        with _administered(dsn) as admin:
            for mutant in self._mutants:
                line = self._results.lines.get(mutant.name)
                if line is None or line.outcome == "survived":
                    self._try(mutant, items, admin)

    def _try(self, mutant: Mutant, items: list[pytest.Item], admin: Any) -> None:
        first = sorted(items, key=lambda item: -self._killers[mutant.path, item.nodeid])
        began = monotonic()
        outcome: Outcome = "survived"
        by = ""
        try:
            with _in_place(mutant, admin):
                failed = _first_failure(first)
        except UnfitError:
            outcome = "undecided"  # of Python what is done at an import: a process of its own tells
        except psycopg.OperationalError as error:  # as in judge.py: that says nothing of it
            raise pytest.UsageError(
                f"a test left a lock, or no session, behind: {error}"
            ) from error
        except (SyntaxError, psycopg.Error):
            outcome = "invalid"
        else:
            if failed is not None:
                outcome, by = "killed", failed.nodeid
                self._killers[mutant.path, by] += 1
                if _first_failure([failed]):
                    raise pytest.UsageError(f"{by} fails from now on: it was {mutant.name}")
        self._results.add(Line.of(mutant, outcome, by, monotonic() - began))


@contextmanager
def _administered(dsn: str | None) -> Iterator[psycopg.Connection | None]:
    """Yield a session to install with; meanwhile what runs for long, a mutant's loop, is cancelled."""
    if dsn is None:
        yield None
        return
    over = threading.Event()

    def cancel() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not over.wait(1.0):
                conn.execute(_CANCEL, [QUERY_S_MAX])

    watch = threading.Thread(target=cancel, daemon=True)
    watch.start()
    try:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("set lock_timeout = '5s'")
            yield admin
    finally:
        over.set()
        watch.join()


@contextmanager
def _in_place(mutant: Mutant, admin: Any) -> Iterator[None]:
    """Have it for as long as the block lasts."""
    if mutant.path.endswith(".py"):
        compile(mutant.mutated, mutant.path, "exec")
        patch(mutant.path, mutant.original, mutant.mutated)
        try:
            yield
        finally:
            patch(mutant.path, mutant.mutated, mutant.original)
    elif admin is None:
        yield  # tests without a database
    else:
        admin.execute(mutant.mutated.encode())
        try:
            yield
        finally:
            admin.execute(mutant.original.encode())


def _first_failure(items: list[pytest.Item]) -> pytest.Item | None:
    """Run tests up to one that fails; what they share stays."""
    for item in items:
        # Teardown is as far as the node that comes next needs it: all but the file.
        file: Any = item.getparent(pytest.Module)
        reports = runtestprotocol(item, log=False, nextitem=file)
        if any(report.failed for report in reports):
            return item
    return None
