"""The checker: a good history passes, and each kind of a corrupted one is found by name.

The good history is a real one: producers, the sequencer, and workers' steps, two owners one after
the other. A corruption changes the tables or the records in a transaction that is rolled back.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from chaos.app import make_handler
from chaos.checked import Run, played
from chaos.checker import check, report
from chaos.corruptions import (
    A_BATCH,
    IN_COLUMNS,
    IN_RECORDS,
    IN_TABLES,
    NOWHERE,
    acknowledged,
)
from chaos.history import Begun, Fault, Invoke, Note, Writer, read
from chaos.producer import Draft, Producer
from gapless.db.connect import connect
from gapless.lease import hold
from gapless.lease.member import Member
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.group import member_of, own
from support.turn import one_step

KEYS = ("a", "b", "f", "i")
PARTITIONS = 2
POISON = 5


@pytest.fixture(scope="module")
def run(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("history")
    with played(module_dsn, folder, lambda conn: play(module_dsn, conn, folder)) as run:
        yield run


def play(dsn: str, conn: Connection[Any], folder: Path) -> None:
    """A good run of two groups: twelve orders, one of them poison, one that is rolled back."""
    topic = ensure_topic(conn, "t", partitions=PARTITIONS)
    writer = Writer(folder, "producer")
    producer = Producer("p", lambda: connect(dsn, role="producer"), writer)
    with connect(dsn, role="control") as control:
        members = [member_of(control, group, topic, group) for group in ("g", "h")]
        for number in range(12):
            drafts = [Draft(key=key, poison=number == POISON) for key in KEYS]
            undone = [Draft(key="a", undone=True)] * (number == 3)
            assert producer.order(f"order {number}", [*drafts, *undone]) == "ok"
            if number % 3 == 2:
                assert producer.order(f"order {number}", drafts) == "already"
            if number % 4 == 3:
                sequence(conn)
                for member in members:
                    work(dsn, member)
        for member in members:
            work(dsn, member)
    producer.close()
    writer.write(Invoke(attempt="killed", producer="k", order="killed", events=()))


def work(dsn: str, member: Member) -> None:
    """Own all partitions of a group once, from acquire to release."""
    member.sync()
    for lease in member.leases():
        with connect(dsn, role="worker") as conn:
            assignment = own(conn, member, lease)
            handler = make_handler(lease.group_id, "t")
            while one_step(conn, assignment, handler, batch_size=5).outcome == "done":
                pass
            hold.release(conn, assignment, lease.lease_no)


def test_a_good_history_passes(run: Run) -> None:
    found = check(run.conn, run.folder)
    assert not found, report(found)
    effects, letters, owners = run.conn.execute(
        "select (select count(*) from chaos.effect), (select count(*) from chaos.letter),"
        " (select count(*) from chaos.lease where epoch <> old_epoch)"
    ).fetchone() or (0, 0, 0)
    assert (effects, letters) == (2 * 11 * len(KEYS), 2 * len(KEYS))
    assert owners == 2 * PARTITIONS * 4


@pytest.mark.few(6)
@pytest.mark.parametrize("name", IN_TABLES)
def test_a_corrupted_table_is_found(run: Run, name: str) -> None:
    told, *_ = run.found(name, *IN_TABLES[name])
    assert told.history or told.invariant in ("I8", "P1", "I3"), f"{told} tells nothing"


@pytest.mark.few(5)
@pytest.mark.parametrize("case", IN_COLUMNS)
def test_a_corrupted_column_is_found(run: Run, case: str) -> None:
    name, column, statement = IN_COLUMNS[case]
    told = run.found(name, statement)
    assert any(column in each.text for each in told)
    assert told[0].history


@pytest.mark.parametrize("case", IN_RECORDS)
def test_a_corrupted_record_is_found(run: Run, case: str) -> None:
    name, corrupt = IN_RECORDS[case]
    assert run.found_in(name, corrupt(run.records))[0].history


def test_an_unknown_commit_is_looked_up(run: Run) -> None:
    victim = acknowledged(run.records)[4]
    records = [replace(e, ended="info") if e is victim else e for e in run.records]
    assert not run.violations(records), "it committed: pg_xact_status knows"
    records = [e for e in run.records if e is not victim]
    assert not run.violations(records), "killed before it could tell"


def test_an_xid_that_a_crash_gave_out_again_is_no_loss(run: Run) -> None:
    made = Invoke(attempt="x", producer="p", order="x", events=NOWHERE)
    row = run.conn.execute("select pg_current_xact_id()::text").fetchone()
    assert row is not None
    begun = Begun(attempt="x", xid=row[0])  # committed
    lost = [each.name for each in run.violations([*run.records, made, begun])]
    assert set(lost) == {"lost", "torn outbox"}
    crash = Fault(kind="immediate stop", target="server", crash=True)
    assert not run.violations([*run.records, made, begun, crash])
    begins = replace(crash, at_ns=begun.at_ns - 1)
    assert run.violations([*run.records, begins, made, begun])
    taken = replace(crash, phase="lost", at_ns=begun.at_ns + 1)
    assert not run.violations([*run.records, begins, made, begun, taken])


def test_a_torn_last_line_did_not_happen(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "x")
    writer.write(Note(what="whole"))
    (path,) = tmp_path.glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"record":"note","what":"to')
    assert [each.what for each in read(tmp_path) if isinstance(each, Note)] == ["whole"]


def test_tasks_of_an_epoch_are_one_owner(run: Run) -> None:
    """On Spark each task has a session of its own, and says under which epoch it works."""
    name = "set application = 'gapless/spark task ' || {} || ' of g/t/0', backend_pid = id"
    with run.conn.transaction(force_rollback=True):
        for table in ("effect", "cursor"):
            where = "" if table == "effect" else " where next_offset > old_offset and not made"
            run.conn.execute(f"update chaos.{table} {name.format('epoch')}{where}".encode())
        assert not run.violations()
        run.conn.execute(f"update chaos.cursor {name.format(0)} where id = {A_BATCH}".encode())
        found = {each.name for each in run.violations()}
        assert "commit by a former owner" in found
