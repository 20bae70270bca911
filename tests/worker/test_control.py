"""pause, seek, wait_for while supervisors work, producers publish and processes are killed."""

import os
import subprocess
import sys
import threading
from signal import SIGKILL

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.publish import publish
from gapless.log.wait import wait_for
from support.fleet import Fleet, Load, until
from support.ledger import assert_exactly_once, entries

IN_HANDLER = (
    "select count(*) from pg_stat_activity where starts_with(application_name, 'gapless/worker')"
    " and datname = current_database() and state = 'idle in transaction'"
    " and clock_timestamp() - state_change > interval '100 ms'"
)
WORKERS = "select count(*) from gapless.leases where is_held"
PAUSES = "select count(*) from gapless.audit where action = 'pause'"
PAUSED = "select count(*) from gapless.group_pause"


def gapless(fleet: Fleet, *words: str) -> subprocess.Popen[str]:
    """Start the real command on the fleet's database."""
    return subprocess.Popen(
        [sys.executable, "-m", "gapless", *words],
        env=os.environ | {"GAPLESS_DSN": fleet.dsn},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out + err


def assert_handled_as_sought(conn: Connection) -> None:
    """Every partition handled exactly what its seeks say, each event once between two of them."""
    pieces: dict[int, list[int]] = {}
    begin: dict[int, int] = {}
    moves = conn.execute(
        "select partition_id, (detail->>'from')::bigint, (detail->>'to')::bigint"
        " from gapless.audit where action = 'seek' order by audit_id"
    )
    for partition, from_offset, to_offset in moves:
        pieces.setdefault(partition, []).extend(range(begin.get(partition, 1), from_offset))
        begin[partition] = to_offset
    ends = conn.execute("select partition_id, last_offset from gapless.lag").fetchall()
    history = entries(conn)
    for partition, last_offset in ends:
        expected = [*pieces.get(partition, []), *range(begin.get(partition, 1), last_offset + 1)]
        assert [entry.c_offset for entry in history.get(partition, [])] == expected
        epochs = [entry.epoch for entry in history.get(partition, [])]
        assert epochs == sorted(epochs), f"partition {partition}: an older owner came late"


@pytest.mark.long
def test_a_paused_group_has_no_workers_until_it_is_resumed(fleet: Fleet) -> None:
    a = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.conn.execute("select gapless.pause('g', 't', 1)")
    until(lambda: a.worker("g/t/1") is None, "the worker of 1 is gone", within=a.log)
    until(lambda: fleet.value(WORKERS) == 3, "its session is gone, too", within=a.log)
    fleet.conn.execute("select gapless.pause('g')")
    until(lambda: fleet.value(WORKERS) == 0, "all workers are gone", within=a.log)
    for partition in range(4):
        fleet.publish(partition=partition)
    until(lambda: not fleet.value("select gapless.pending()"), "it is sequenced")
    a.signal_all(SIGKILL)
    a.ended()
    b = fleet.start("b")  # it holds over a restart of everything
    until(
        lambda: fleet.value("select count(*) from gapless.lease where target is not null") == 4, "b"
    )
    until(b.sequencer, "b has begun", within=b.log)
    assert fleet.value("select sum(lag) from gapless.lag") == 4
    assert fleet.value(WORKERS) == 0
    assert entries(fleet.conn) == {}
    fleet.conn.execute("select gapless.resume('g')")
    fleet.until_owners(b=4)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


def test_a_pause_lets_the_batch_end_and_takes_no_other(fleet: Fleet, tmp_path) -> None:
    fleet.start("a")
    fleet.until_owners(a=4)
    go_on = tmp_path / "go"
    fleet.publish({"wait_for": str(go_on)}, {})
    until(lambda: fleet.value(IN_HANDLER) == 1, "it is in its handler")
    fleet.conn.execute("select gapless.pause('g')")
    fleet.publish({})
    until(lambda: fleet.value(WORKERS) == 1, "the others are gone")
    go_on.touch()
    until(lambda: fleet.value(WORKERS) == 0, "it is gone as well")
    assert fleet.value("select installed_offset is null from gapless.consumer_offsets limit 1")
    fleet.conn.execute("select gapless.resume('g')")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_seeks_under_load_with_kills(fleet: Fleet) -> None:
    a = fleet.start("a")
    b = fleet.start("b")
    fleet.until_owners(a=2, b=2)
    with Load(fleet) as load:
        for n, place in enumerate(("--earliest", "--latest", "--offset=30", "--offset=50")):
            load.go_on(60 if n == 0 else 20)
            process = gapless(fleet, "seek", "g", place, "--pause", "--yes")
            victims = (a.children() | b.children()) - {a.sequencer(), b.sequencer()}
            for pid in list(victims)[:2]:
                os.kill(pid, SIGKILL)
            done(process)
        load.go_on()
    fleet.until_handled(timeout_s=60)
    assert fleet.value(PAUSED) == 0
    assert_handled_as_sought(fleet.conn)
    assert fleet.value("select count(*) from gapless.audit where action = 'seek'") >= 12


@pytest.mark.long
def test_a_killed_seek_moves_all_or_nothing(fleet: Fleet) -> None:
    """Killed at any moment: paused or not, moved or not, never half; resume and all goes on."""
    fleet.start("a")
    fleet.until_owners(a=4)
    with Load(fleet) as load:
        load.go_on(40)
        for _ in range(4):
            before = fleet.value(PAUSES)
            process = gapless(fleet, "seek", "g", "--earliest", "--pause", "--yes")
            try:
                until(lambda before=before: fleet.value(PAUSES) > before, "paused", timeout_s=60)
            finally:
                process.kill()
                process.communicate()
            moved = fleet.value("select count(*) from gapless.audit where action = 'seek'")
            assert moved % 4 == 0
            done(gapless(fleet, "resume", "g"))
            fleet.until_owners(a=4)
            load.go_on(10)
    fleet.until_handled(timeout_s=60)
    assert_handled_as_sought(fleet.conn)


@pytest.mark.long
def test_wait_for_under_kills(fleet: Fleet) -> None:
    """What it says is handled is in the ledger at that moment, whoever was killed meanwhile."""
    a = fleet.start("a")
    fleet.until_owners(a=4)
    stop = threading.Event()

    def kill() -> None:
        for _ in range(6):
            if stop.wait(1.5):
                return
            for pid in list(a.children() - {a.sequencer()})[:1]:
                os.kill(pid, SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    written = "select count(*) from ledger l join gapless.locate(%s) p using (partition_id)"
    written += " where l.c_offset between p.first_offset and p.last_offset"
    try:
        with connect(fleet.dsn, role="test") as conn:
            for n in range(20):
                events = [{"n": n}, {"raise": "x"}] if n % 5 == 4 else [{"n": n}]
                with conn.transaction():
                    for key in fleet.keys(4):
                        for event in events:
                            transaction_id = publish(conn, "t", event, key=key)
                outcome = wait_for(conn, "g", transaction_id, 120)
                assert outcome == ("dead" if len(events) == 2 else "handled")
                row = conn.execute(written, [transaction_id]).fetchone()
                assert row == (0 if outcome == "dead" else 4,)
    finally:
        stop.set()
        thread.join()
    fleet.until_handled()
    dead = {(p, o) for p in range(4) for o in range(1, 25) if o % 6 in (5, 0)}
    assert_exactly_once(fleet.conn, dead_offsets=dead)
