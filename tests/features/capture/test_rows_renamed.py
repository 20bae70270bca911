"""Columns, triggers and partitions of a captured table that were changed since: what is noted, and what is wrong."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from features.capture.ledger import ANOTHER, PARTED, RECORD, CaptureBook
from gapless.db.connect import connect


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[CaptureBook]:
    with connect(module_dsn, role="test") as conn:
        ledger = CaptureBook(
            conn, PARTED + 'create schema "Far off"; create table public.kept (id int primary key)'
        )
        with conn.transaction():
            ledger.capture("public.kept", "other")
        yield ledger


@pytest.fixture(scope="module")
def second(module_dsn: str, shared: CaptureBook) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="second") as conn:
        yield conn


pytestmark = pytest.mark.usefixtures("twin")


SWAP = (
    "alter table box rename a to x; alter table box rename b to a; alter table box rename x to b;"
)
DROPPED = "........pg.dropped.2........"
# What is done to a table, what of column a (number 2) is asked, and what it is called now where the table is
# the one that it was, and where it is another.
COLUMNS: list[tuple[str, str, int | None, str | None, str | None]] = [
    ("", "a", 2, "a", "a"),
    ("", "a", None, "a", "a"),
    ("", "a", 0, "a", "a"),
    ("", "nope", None, None, None),
    ("", "ctid", -1, None, None),
    ("alter table box rename a to x", "a", 2, "x", None),
    (SWAP, "a", 2, "b", "a"),
    ("alter table box drop a", "a", 2, None, None),
    ("alter table box drop a", DROPPED, 2, None, None),
    ("alter table box drop a; alter table box rename c to a", "a", 2, "a", "a"),
    ("alter table box rename a to z; alter table box rename id to a", "a", 2, "z", "a"),
]


@pytest.mark.parametrize(("done", "name", "number", "same", "other"), COLUMNS)
def test_what_a_captured_column_is_called_now(
    ledger: CaptureBook,
    done: str,
    name: str,
    number: int | None,
    same: str | None,
    other: str | None,
) -> None:
    query = f"select gapless.captured_column({RECORD}, 'box'::regclass, %s, %s::smallint)"
    made = [ledger.record("box"), ledger.record("box", elsewhere=True)]
    if done:
        ledger.run(done)
    assert [ledger.value(query, each, name, number) for each in made] == [same, other]


# What is done, what key and columns were asked for, and how they are noted anew: key, parts and numbers,
# columns and numbers.
RENEWED: list[tuple[str, str | None, list[str] | None, tuple[Any, ...]]] = [
    ("", None, None, (None, None, None, None, None)),
    ("", "{a}", ["a", "b"], ("{a}", ["", "a", ""], [2], ["a", "b"], [2, 3])),
    ("alter table box rename a to x", "{{{a}-{b}}}", ["a"],
     ("{{{x}-{b}}}", ["{", "x", "-", "b", "}"], [2, 3], ["x"], [2])),
    (SWAP, "{a}/{b}", ["b", "a"], ("{b}/{a}", ["", "b", "/", "a", ""], [2, 3], ["a", "b"], [3, 2])),
    ("alter table box drop a", "{b}{a}", ["c", "a", "id"],
     ("{b}{a}", ["", "b", "", "a", ""], [3, 0], ["c", "a", "id"], [4, 0, 1])),
    ("alter table box rename c to d", None, ["c"], (None, None, None, ["d"], [4])),
    ("alter table box rename b to d", "{b}", None, ("{d}", ["", "d", ""], [3], None, None)),
]  # fmt: skip
NOTE = "select key, key_parts, key_numbers, columns, column_numbers, table_name, table_id::regclass::text from gapless.captured where capture_id = %s"


@pytest.mark.parametrize(("done", "key", "columns", "noted"), RENEWED)
def test_what_a_table_is_called_now_is_noted(
    ledger: CaptureBook,
    done: str,
    key: str | None,
    columns: list[str] | None,
    noted: tuple[Any, ...],
) -> None:
    number = ledger.capture(key=key, columns=columns)
    twin = "select c::text from gapless.captured c where table_name = 'public.twin'"
    before = ledger.value(twin)
    if done:
        ledger.run(done)
    ledger.run(
        'alter table public.box rename to "The box"; alter table public."The box" set schema "Far off"'
    )
    ledger.run('select gapless.mend_capture(\'"Far off"."The box"\')')
    found = ledger.row(NOTE, number)
    if key is None:
        assert found[2] in (None, [])
        found = (*found[:2], None, *found[3:])
    assert found == (*noted, '"Far off"."The box"', '"Far off"."The box"')
    assert ledger.value(twin) == before


def test_two_that_mend_are_one_after_the_other(
    ledger: CaptureBook, second: Connection[Any]
) -> None:
    """The second reads what the first has noted: it waits before it reads."""
    with second.transaction(force_rollback=True):
        second.execute("update gapless.captured set old = 'all' where table_name = 'public.kept'")
        ledger.run("set local lock_timeout = '10ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable) as caught, ledger.conn.transaction():
            ledger.run("select gapless.mend_capture('public.kept')")
        assert "while locking tuple" in (caught.value.diag.context or "")
        ledger.run("select gapless.mend_capture('public.twin')")


OFF = "alter table public.{} disable trigger gapless_capture_{}"
DROP = "drop trigger gapless_capture_{} on public.{}"
LEFT = "writes directly to {} of its partitions are not published, such as {}"
# The table, what key and columns are asked for, what is done; what is wrong then, and which command helps.
Defect = tuple[str, str | None, list[str] | None, str, list[tuple[int, str, bool]], str]
DEFECTS: list[Defect] = [
    ("box", None, None, "", [], ""),
    ("p", None, None, "", [], ""),
    ("box", None, None, "alter table box enable always trigger gapless_capture_insert", [], ""),
    ("box", None, None, DROP.format("update", "box"), [(1, "no trigger for update", True)], "mend"),
    ("box", None, None, f"{DROP.format('update', 'box')}; {DROP.format('delete', 'box')}; {OFF.format('box', 'truncate')}",
     [(1, "no trigger for delete, update", True), (2, "the trigger for truncate is disabled", True)], "mend"),
    ("box", None, None, f"{OFF.format('box', 'insert')}; alter table box enable replica trigger gapless_capture_delete",
     [(2, "the trigger for delete, insert is disabled", True)], "mend"),
    ("box", None, None, ANOTHER.format("4711", "table"), [(1, "no trigger for delete", True)], "mend"),
    ("box", None, None, ANOTHER.format("{}", "partition"), [(1, "no trigger for delete", True)], "mend"),
    ("p", None, None, OFF.format("p", "insert"), [(2, "the trigger for insert is disabled", True)], "mend"),
    ("p", None, None, OFF.format("p21", "insert"), [(3, LEFT.format(1, "p21"), True)], "mend"),
    ("p", None, None, f"{DROP.format('insert', 'p21')}; {DROP.format('update', 'p21')}; {OFF.format('p1', 'insert')}",
     [(3, LEFT.format(2, "p1"), True)], "mend"),
    ("box", "{a}", ["c"], "alter table box rename a to x; alter table box rename c to y",
     [(4, 'column "a" of key is called "x" now', True), (4, 'column "c" of columns is called "y" now', True)], "mend"),
    ("box", "{a}-{b}", ["c", "id"], "alter table box drop b, drop c",
     [(5, 'column "b" of key is gone', False), (5, 'column "c" of columns is gone', False)], "again"),
    ("box", "{a}-{b}", ["c", "id"], "alter table box rename b to d; alter table box drop a",
     [(4, 'column "b" of key is called "d" now', True), (5, 'column "a" of key is gone', False)], "mend"),
    ("box", None, None, "alter table box drop constraint box_pkey; create unique index on box (id)",
     [(6, "it has no primary key any more, so all its events have one key", False)], "again"),
    ("box", "{id}", None, "alter table box drop constraint box_pkey", [], ""),
    ("box", None, None, "create table public.child () inherits (public.box)",
     [(7, "it has children by INHERITS now, whose rows are not published: alter table … no inherit", False)], "again"),
    ("box", None, None, "create table public.child () inherits (public.twin)", [], ""),
    ("box", None, None, "alter table box set unlogged",
     [(8, "it is unlogged now, so a crash empties it and nobody is told: alter table … set logged", False)], "again"),
    ("box", None, None, "alter table twin set unlogged", [], ""),
    ("box", None, None, "alter table box set unlogged; " + OFF.format("box", "insert"),
     [(2, "the trigger for insert is disabled", True),
      (8, "it is unlogged now, so a crash empties it and nobody is told: alter table … set logged", False)], "mend"),
]  # fmt: skip


@pytest.mark.parametrize("case", DEFECTS)
def test_what_is_wrong_with_a_capture(ledger: CaptureBook, case: Defect) -> None:
    table, key, columns, done, wrong, helps = case
    number = ledger.capture(f"public.{table}", key=key, columns=columns)
    if done:
        ledger.run(done.replace("{}", str(number)))
    query = (
        "select x.* from gapless.captured c, gapless.{}(c, %s::regclass) x where c.capture_id = %s"
    )
    found = ledger.rows(query.format("capture_defects") + " order by 1, 2", table, number)
    assert found == wrong
    problem = ledger.row(query.format("capture_problem"), table, number)
    if not helps:
        assert problem is None
        return
    assert problem[1] == helps
    assert sorted(problem[0].split("; ")) == sorted(said for _, said, _ in wrong)


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ("drop table public.box", ("the table is gone", "remove")),
        (
            "update gapless.captured set topic_id = 4711 where table_name = 'public.box'",
            ("topic id 4711 is gone: its events wait in gapless topics unrouted", "again"),
        ),
        (
            "create table public.root (like public.box) partition by range (id); alter table public.root attach partition public.box default",
            ("the table is a part of another one now, and writes through that are not published", "again"),
        ),
        ("create table public.kid () inherits (public.twin)", None),
    ],
)  # fmt: skip
def test_what_is_worse(ledger: CaptureBook, done: str, said: tuple[str, str] | None) -> None:
    number = ledger.capture()
    root = ledger.value("select 'public.box'::regclass::oid")
    ledger.run(done)
    query = "select x.* from gapless.captured c, gapless.capture_problem(c, %s::oid) x where c.capture_id = %s"
    assert ledger.row(query, root, number) == said
