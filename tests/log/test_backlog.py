"""A million events before the sequencer first ran: one run, and the client sees one number."""

import resource
import sys
from pathlib import Path

import pytest
from psycopg import Connection

from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import Topic
from support.plans import cost

EVENTS = 1_000_000
CLIENT_BYTES_MAX = 30 << 20
BACKEND_KB_MAX = 900_000


@pytest.mark.long
@pytest.mark.slow
def test_a_backlog_of_a_million_events(conn: Connection, topic: Topic) -> None:
    """In transactions of 1 and of 100 000 events; offsets are checked by the server."""
    conn.execute(
        "insert into gapless.outbox_message_t (key, event_type)"
        " select n % 1000, n from generate_series(1, 900000) n"
    )
    conn.execute(
        "do $$ begin for n in 900001..1000000 by 50 loop"
        "  insert into gapless.outbox_message_t (key, event_type)"
        "  select m % 1000, m from generate_series(n, n + 49) m; commit;"
        " end loop; end $$"
    )
    before = _client_bytes()
    assert sequence(conn) == EVENTS
    assert _client_bytes() - before < CLIENT_BYTES_MAX
    assert _backend_kb(conn) < BACKEND_KB_MAX
    assert sequence(conn) == 0

    checked = conn.execute(
        "select count(*), count(distinct (s.partition_id, s.base_offset + u.n)), count(distinct u.id),"
        " count(*) filter (where s.partition_id <> gapless.partition_of(o.key, 4))"
        " from gapless.log_segment s cross join unnest(s.message_ids) with ordinality u (id, n)"
        " join gapless.outbox_message_t o on o.id = u.id"
    ).fetchone()
    assert checked == (EVENTS, EVENTS, EVENTS, 0)
    holes = conn.execute(
        "select count(*) from (select base_offset, lag(last_offset, 1, 0::bigint)"
        " over (partition by partition_id order by base_offset) as former from gapless.log_segment) s"
        " where s.base_offset <> s.former + 1"
    ).fetchone()
    assert holes == (0,)

    create_chunks(conn)
    publish(conn, "outbox", "one more", key="k", event_type="last")
    with cost(conn) as spent:
        assert conn.execute("select gapless.sequence_events()").fetchone() == (1,)
    assert not spent.scanned
    assert spent.events_looked_up < 100
    last = conn.execute(
        "select event_type from gapless.read('outbox', gapless.partition_of('k', 4),"
        " (select max(last_offset) from gapless.log_segment"
        " where partition_id = gapless.partition_of('k', 4)))"
    ).fetchall()
    assert last == [("last",)]


def _client_bytes() -> int:
    """The most memory this process has ever had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _backend_kb(conn: Connection) -> int:
    """The most memory the server's process for this session has had; 0 where it cannot be seen."""
    status = Path(f"/proc/{conn.info.backend_pid}/status")
    is_here = conn.info.host.startswith("/")
    if not (is_here and status.exists()):
        return 0
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1])
