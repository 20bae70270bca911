"""Retention beside live traffic: the active sequencer's process is killed at every step of it."""

from itertools import groupby

import pytest

from support.chunks import CHUNK_EVENTS, small_chunks
from support.fleet import Fleet, Load, until
from support.patience import patience

SOON = {"retention_s": 1, "retention_check_s": 1}
STEPS = (
    "retention.closed",
    "retention.dropped",
    "retention.forgotten",
    "retention.moved",
    "retention.detached",
    "retention.turned",
)
CHUNKS = 2


def _first_offsets(fleet: Fleet) -> list[int]:
    rows = fleet.conn.execute("select first_offset from gapless.ends(array['t'])")
    return [row[0] for row in rows]


def _exactly_once(fleet: Fleet, group: str) -> None:
    """Every offset there ever was, once: the log itself has forgotten most of them."""
    ends = fleet.conn.execute(
        "select partition_id, next_offset from gapless.ends(array['t'])"
    ).fetchall()
    rows = fleet.conn.execute(
        "select partition_id, c_offset from ledger where group_id = %s order by partition_id, id",
        [group],
    ).fetchall()
    handled = {p: [row[1] for row in run] for p, run in groupby(rows, key=lambda row: row[0])}
    assert handled == {p: list(range(1, end)) for p, end in ends}


@pytest.mark.long
def test_chunks_go_while_events_come_and_sequencers_are_killed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(fleet.conn, ahead=8)
    monkeypatch.setenv("GAPLESS_FAILPOINTS", ";".join(f"{step}=kill@2" for step in STEPS))
    a = fleet.start("a", **SOON)
    until(a.sequencer, "a sequences", timeout_s=patience(20), within=a.log)
    monkeypatch.delenv("GAPLESS_FAILPOINTS")
    fleet.start("b", **SOON)
    fleet.until_owners(timeout_s=patience(20), a=2, b=2)
    fleet.conn.execute("select gapless.create_group('slow', 't')")
    with Load(fleet, every_s=0.002) as load:
        until(
            lambda: load.published > CHUNK_EVENTS * CHUNKS,
            "chunks are filled",
            timeout_s=patience(60),
            within=fleet.logs,
        )
        until(
            lambda: fleet.value(
                "select count(*) > 1 from gapless.retention_plan() p where p.is_behind"
            ),
            "chunks are old enough",
            timeout_s=patience(30),
            within=fleet.logs,
        )
        assert _first_offsets(fleet) == [1, 1, 1, 1], "the slow group has handled nothing"
        fleet.start("c", groups=[("slow", "t")], **SOON)
        until(
            lambda: (
                fleet.value(
                    "select count(*) from gapless.chunk where upto <= %s", CHUNK_EVENTS * CHUNKS
                )
                == 0
            ),
            "the oldest chunks are gone",
            timeout_s=patience(60),
            within=fleet.logs,
        )
    fleet.until_handled(patience(30))
    assert "sequencer ended: signal SIGKILL" in a.log()
    dropped = CHUNK_EVENTS * CHUNKS - 1  # ids, the first of which is 1; partitions take turns
    assert min(_first_offsets(fleet)) > dropped // 4
    for group in ("g", "slow"):
        _exactly_once(fleet, group)
