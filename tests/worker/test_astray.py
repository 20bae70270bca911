"""A group without a place in the log stands still, says so, and goes on by the command it names."""

import json
import shlex
import subprocess
import sys
from signal import SIGTERM
from typing import Any

import pytest

from gapless.log.sequence import sequence
from support.fleet import Fleet, until
from support.ledger import assert_exactly_once, entries
from support.long import long_but

ERROR = "select error from gapless.lease where group_id = 'g' and partition_id = 0"
HANDLED = "select count(*) from ledger where partition_id = 0"
QUICK = {"gapless.worker.service.HOLE_RETRY_S": 0.1}


def run(fleet: Fleet, command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command as it was printed."""
    words = shlex.split(command)
    assert words[0] == "gapless"
    done = subprocess.run(
        [sys.executable, "-m", *words, "--dsn", fleet.dsn],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done


def finding(fleet: Fleet) -> dict[str, Any]:
    """What the doctor says of the groups' offsets."""
    (found,) = [
        check
        for check in json.loads(run(fleet, "gapless doctor --json", 1).stdout)["checks"]
        if check["name"] == "offsets"
    ]
    return dict(found)


def force(fleet: Fleet, next_offset: int) -> None:
    """Put the cursor of partition 0 somewhere, as nobody should."""
    with fleet.conn.transaction():
        fleet.conn.execute("select set_config('gapless.seeking', pg_current_xact_id()::text, true)")
        fleet.conn.execute(
            "update gapless.consumer_offsets set next_offset = %s"
            " where group_id = 'g' and partition_id = 0",
            [next_offset],
        )


@pytest.mark.long
@pytest.mark.parametrize("delivery", long_but(["exactly-once", "at-least-once"], "exactly-once"))
def test_beyond_the_end_it_stops_and_nothing_is_skipped(fleet: Fleet, delivery: str) -> None:
    fleet.start("a", patch=QUICK, wait_period_ms=100, delivery=delivery)
    fleet.until_owners(a=4)
    fleet.publish({}, {}, {})
    fleet.until_handled()
    force(fleet, 20)
    until(lambda: "beyond the end of the log" in (fleet.value(ERROR) or ""), "it says so")
    fleet.publish(*[{}] * 30)
    fleet.publish({}, partition=1)
    seen = "select coalesce(max(last_offset), 0) from gapless.log_segment where partition_id = %s"
    until(lambda: fleet.value(seen, 0) == 33 and fleet.value(seen, 1) == 1, "all have offsets")
    rounds = fleet.now()
    until(lambda: fleet.now() - rounds > 0.5, "several looks later")
    assert "beyond the end of the log" in fleet.value(ERROR)
    moved = "select next_offset from gapless.consumer_offsets where partition_id = %s"
    assert (fleet.value(moved, 0), fleet.value(moved, 1)) == (20, 2), "others go on"
    assert fleet.value("select lag from gapless.lag where partition_id = 0") == 30

    found = finding(fleet)
    assert found["level"] == "FAIL"
    assert found["remedy"] == "gapless seek g/t/0@4 --pause --yes"
    assert found["remedy"] in fleet.value(ERROR)
    assert "gapless seek g/t/0@4" in run(fleet, "gapless topics alter t --partitions 8", 2).stderr
    run(fleet, found["remedy"])
    fleet.until_handled()
    until(lambda: fleet.value(ERROR) is None, "all is well")
    if delivery == "exactly-once":
        assert_exactly_once(fleet.conn)
        assert len(entries(fleet.conn)[0]) == 33


@pytest.mark.long
def test_a_row_that_is_gone_stops_it_until_somebody_says_where(fleet: Fleet) -> None:
    a = fleet.start("a", patch=QUICK, wait_period_ms=100)
    fleet.until_owners(a=4)
    fleet.publish({}, {}, {})
    fleet.until_handled()
    gone = "delete from gapless.consumer_offsets where group_id = 'g' and partition_id = 0"
    fleet.conn.execute(gone)
    until(lambda: "has lost its offset" in (fleet.value(ERROR) or ""), "it says so", within=a.log)
    fleet.publish({}, {})
    fleet.publish({}, partition=1)
    until(lambda: 1 in entries(fleet.conn), "others go on")
    found = finding(fleet)
    assert found["level"] == "FAIL"
    assert found["remedy"].startswith("gapless seek g/t/0 --earliest --pause --yes")
    assert "has lost its offset" in run(fleet, "gapless groups create g t", 1).stderr
    assert "has lost its offset" in run(fleet, "gapless topics alter t --partitions 8", 2).stderr
    assert "not paused" in run(fleet, "gapless resume g").stdout
    shown = json.loads(run(fleet, "gapless status --json").stdout)["partitions"]
    assert "has lost its offset" in shown[0]["error"]

    a.signal(SIGTERM)
    assert a.ended() == 0
    b = fleet.start("b", patch=QUICK)
    until(lambda: b.logged("has lost its offset"), "a new one says so, too", within=b.log)
    until(lambda: "has lost its offset" in (fleet.value(ERROR) or ""), "and in its lease")
    run(fleet, "gapless seek g/t/0@4 --pause --yes")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert len(entries(fleet.conn)[0]) == 5
    assert not b.logged("another owner took over")
    audit = "select detail from gapless.audit where action = %s"
    assert fleet.value(audit, "restore") == {"to": 1}
    assert fleet.value(audit, "seek")["to"] == 4


@pytest.mark.long
def test_the_remedy_as_it_stands_handles_everything(fleet: Fleet) -> None:
    fleet.conn.execute("select gapless.create_topic('t', 4)")
    fleet.conn.execute("select gapless.create_group('g', 't', 'earliest')")
    fleet.conn.execute("delete from gapless.consumer_offsets where partition_id = 0")
    fleet.publish({}, {}, {})
    sequence(fleet.conn)
    remedy = finding(fleet)["remedy"].partition(" handles ")[0]
    run(fleet, remedy)
    fleet.start("a")
    fleet.until_owners(a=4)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert fleet.value(HANDLED) == 3
