"""A hole in the log: its partition stops and says why, the others go on; mended, it goes on too."""

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.fleet import Fleet, until
from support.ledger import assert_exactly_once
from support.long import long_but

ERROR = "select error from gapless.lease where partition_id = %s"
HOLES = {
    "event": "gapless.outbox_message_t where payload->>'missing' is not null",
    "segment": "gapless.log_segment where partition_id = 0 and base_offset = 2",
}


def make_hole(fleet: Fleet, what: str, tmp_path: Path) -> None:
    """Take offset 2 of partition 0 out of the log, before its worker comes to it."""
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    fleet.publish({"once": str(begun), "wait_for": str(go_on)})
    until(begun.exists, "the worker is busy")
    segments = "select count(*) from gapless.log_segment"
    fleet.publish({"missing": True})
    until(lambda: fleet.value(segments) == 2, "it has its offset")
    fleet.publish()
    until(lambda: fleet.value(segments) == 3, "and the next one")
    fleet.conn.execute(f"create table kept as select * from {HOLES[what]}")
    assert fleet.conn.execute(f"delete from {HOLES[what]}").rowcount == 1
    go_on.touch()
    until(lambda: fleet.value(ERROR, 0), "the partition says why it stopped", within=fleet.state)


@pytest.mark.long
@pytest.mark.parametrize("what", long_but(HOLES, "segment"))
def test_a_hole_stops_its_partition_only(fleet: Fleet, what: str, tmp_path: Path) -> None:
    a = fleet.start("a", patch={"gapless.worker.service.HOLE_RETRY_S": 0.1})
    fleet.until_owners(a=4)
    make_hole(fleet, what, tmp_path)
    assert "stopped: " in fleet.value(ERROR, 0)
    fleet.publish({}, partition=1)
    until(lambda: fleet.value("select count(*) from ledger where partition_id = 1"), "others go on")
    assert fleet.value(ERROR, 1) is None
    assert a.log().count("stopped: ") == 1, "said once, not at every look"
    assert fleet.value("select count(*) from ledger where partition_id = 0") == 1

    fleet.conn.execute(f"insert into {HOLES[what].split()[0]} select * from kept")
    fleet.until_handled()
    until(lambda: fleet.value(ERROR, 0) is None, "all is well")
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_a_worker_before_a_hole_is_not_taken_for_stopped(fleet: Fleet, tmp_path: Path) -> None:
    """It naps for longer than it may be silent, and says meanwhile that it lives; so do idle ones."""
    a = fleet.start(
        "a",
        connect_timeout_s=1,
        wait_period_ms=60_000,
        patch={"gapless.worker.children.SILENCE_S_MAX": 0.8},
    )
    fleet.until_owners(a=4)
    make_hole(fleet, "event", tmp_path)
    since = fleet.now()
    until(lambda: fleet.now() - since > 3.0, "longer than the silence allowed")
    assert not a.logged("killed")


def skip(dsn: str, place: str) -> tuple[int, str]:
    """Run the command; return its exit code, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "gapless", "skip", place, "--dsn", dsn],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("what", HOLES)
def test_a_hole_is_passed_by_the_command_that_the_error_names(
    fleet: Fleet, what: str, tmp_path: Path
) -> None:
    fleet.start("a", patch={"gapless.worker.service.HOLE_RETRY_S": 0.1})
    fleet.until_owners(a=4)
    make_hole(fleet, what, tmp_path)
    place = re.search(r"gapless skip (\S+) continues", fleet.value(ERROR, 0))
    assert place is not None
    assert place[1] == "g/t/0@2"
    code, said = skip(fleet.dsn, "g/t/0@3")
    assert code == 2
    assert "g/t/0@2, to 2" in said
    assert skip(fleet.dsn, place[1]) == (0, "g/t/0 passed offsets 2 to 2: 1 event missing\n")
    fleet.until_handled()
    until(lambda: fleet.value(ERROR, 0) is None, "all is well")
    handled = "select array_agg(c_offset order by id) from ledger where partition_id = 0"
    assert fleet.value(handled) == [1, 3], "exactly the hole"
    audit = "select action, detail from gapless.audit"
    assert fleet.conn.execute(audit).fetchall() == [("skip", {"from": 2, "to": 3, "missing": 1})]
    code, said = skip(fleet.dsn, place[1])
    assert code == 2
    assert "there is no hole to skip" in said


def test_what_a_hole_tore_is_passed_with_it(dsn: str, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "t", partitions=1)
    conn.execute("select gapless.create_group('g', 't', 'earliest')")
    for events in (2, 3, 1, 2):
        with conn.transaction():
            publish(conn, "t", [NewEvent(payload=n, key="k") for n in range(events)])
    assert sequence(conn) == 8
    ids = "select message_ids from gapless.log_segment"
    (all_ids,) = conn.execute(ids).fetchone() or ([],)
    conn.execute(
        "delete from gapless.outbox_message_t where id = any(%s)", [[all_ids[3], all_ids[5]]]
    )
    code, said = skip(dsn, "g/t/0@1")
    assert (code, "nothing is missing" in said) == (2, True), "the group has not come to it yet"
    with conn.transaction():
        conn.execute("select set_config('gapless.seeking', pg_current_xact_id()::text, true)")
        conn.execute("update gapless.consumer_offsets set next_offset = 3")
    assert skip(dsn, "g/t/0@4") == (
        0,
        "g/t/0 passed offsets 3 to 6: 2 events missing, and 2 events of the units that they tore\n",
    )


@pytest.mark.long
def test_only_operators_skip(dsn: str, conn: psycopg.Connection, role) -> None:
    ensure_topic(conn, "t", partitions=1)
    conn.execute("select gapless.create_group('g', 't', 'earliest')")
    code, said = skip(role("gapless_consumer"), "g/t/0@1")
    assert (code, "grant it gapless_operator" in said) == (2, True)
