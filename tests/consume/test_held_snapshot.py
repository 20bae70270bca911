"""While a snapshot is held, no statement that runs often walks the versions that were since.

What is updated for each batch and heartbeat keeps all its versions then: bytes grow, the work must not. Counted in
pages, of everything that workers, supervisors, clients and people's looks ask again and again.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, LiteralString

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.queries import queries, query
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.group import Owner, owner
from support.plans import pages

UPDATES = 400  # of each row: some 20 pages of versions; of members six times as many
MORE_MAX = 20  # pages: each row that is looked at may be on one of its own by then
GROUPS = ("exactly", "filtered", "atleast")
PLACE = "%(group_id)s, %(topic_id)s, %(partition_id)s"
ASKED: dict[tuple[str, str], str] = {
    (
        "exactly",
        "consume",
    ): "claim claim_ahead claim_events record_attempt forget_attempt record_try failing_keys",
    ("filtered", "consume"): "claim_kept tally_filter",
    ("atleast", "consume"): "note_deliveries forget_deliveries",
    ("exactly", "lease"): "beat watch leases others",
    ("exactly", "spark"): "behind",
    ("exactly", "observe"): " ".join(queries("observe")),
    ("exactly", "status"): "members partitions changes obstacles held",
    ("exactly", "compaction"): "in_status",
    ("exactly", "expiry"): "in_status",
    ("exactly", "filters"): "in_status",
}
CALLS: tuple[LiteralString, ...] = (
    f"unit_state({PLACE}, 1, 1)",
    f"is_finished({PLACE})",
    f"has_delivered({PLACE}, 1)",
    "group_partitions('exactly')",
    "live_members(%(group_id)s, %(topic_id)s)",
    "reasons_to_keep(1000)",
    "poll(%(of_client)s, 1)",
    "heartbeat(%(of_client)s)",
)
PARAMS: Mapping[str, Any] = {
    "batch_size": 1,
    "read_ahead": 0,
    "events_max": 100,
    "scan_max": 1000,
    "units": 10,
    "events": 1,
    "place": None,
    "group_by": "transaction",
    "kept_offsets": [1],
    "filter_errors": None,
    "ended": [],
    "done": [],
    "since_s": 3600,
    "rows_max": 100,
}

PUBLISH = """
do $$
begin
  for n in 1..{events} loop
    perform gapless.publish('outbox', key => n::text, event_type => 'e', payload => '{{}}');
    commit;
  end loop;
end
$$
"""
# A batch of one event each, and heartbeats, in transactions of their own.
WORK = """
do $$
declare
  place tid;
  client record;
  at bigint;
begin
  for n in 1..{updates} loop
    select c.place_after into place
    from gapless.claim_at('exactly', {topic_id}, 0, {exactly}, 1, 0, place) c;
    perform set_config('gapless.finished', pg_current_xact_id()::text, true);
    commit;
    perform from gapless.claim_kept('filtered', {topic_id}, 0, {filtered}, 1, 100, null);
    perform set_config('gapless.finished', pg_current_xact_id()::text, true);
    commit;
    select c.next_offset into at from gapless.all_offsets c where c.group_id = 'atleast';
    perform from gapless.note_deliveries(
      'atleast', {topic_id}, 0, {atleast}, at, array[at - 1], array[at - 1], array[at], array[at], at
    );
    commit;
    perform from gapless.note_deliveries(
      'atleast', {topic_id}, 0, {atleast}, at, array[at], array[at], '{{}}', '{{}}', at + 1
    );
    commit;
    select p.last_offset into at from gapless.poll('{token}', 1) p;
    perform gapless.commit('{token}', 0, at + 1);
    commit;
    perform gapless.beat(m.member_id)
    from gapless.all_members m cross join generate_series(1, 6) where m.kind = 'supervisor';
    commit;
  end loop;
end
$$
"""


def _work(conn: Connection, token: str, owners: Mapping[str, Owner], updates: int) -> None:
    fences = {
        group: f"{each.assignments[0].epoch}, '{each.assignments[0].token}'"
        for group, each in owners.items()
    }
    topic_id = owners["exactly"].assignments[0].partition.topic_id
    conn.execute(WORK.format(updates=updates, topic_id=topic_id, token=token, **fences))


def _statements(
    conn: Connection, token: str, owners: Mapping[str, Owner]
) -> dict[str, tuple[LiteralString, Mapping[str, Any]]]:
    """The statements of each batch, each second and each look, with their parameters of now."""
    member = conn.execute("select min(member_id::text) from gapless.member where kind <> 'client'")
    more = {**PARAMS, "of_client": token, "member_id": (member.fetchone() or [""])[0]}
    of: dict[str, dict[str, Any]] = {}
    rows = conn.execute("select group_id, next_offset, ctid::text from gapless.consumer_offsets")
    here = {group: (at, place) for group, at, place in rows}
    for group, each in owners.items():
        at = here[group][0]
        names = ("expected", "upto", "first_offset", "last_offset")
        lists = {"begun": [at], "begun_last": [at]}
        of[group] = {**each.assignments[0].params, **more, **dict.fromkeys(names, at), **lists}
    asked: dict[str, tuple[LiteralString, Mapping[str, Any]]] = {
        f"{stage}.{name}": (query(stage, name), of[group])
        for (group, stage), names in ASKED.items()
        for name in names.split()
    }
    ended = {"begun": [], "begun_last": [], "upto": here["atleast"][0] + 1}
    asked["finished"] = query("consume", "note_deliveries"), {**of["atleast"], **ended}
    for name in ("claim", "claim_ahead"):
        placed = {**of["exactly"], "place": here["exactly"][1]}
        asked[f"{name}, placed"] = query("consume", name), placed
    return asked | {call: (f"select * from gapless.{call}", of["exactly"]) for call in CALLS}


def _counted(conn: Connection, token: str, owners: Mapping[str, Owner]) -> dict[str, int]:
    """Pages that each statement touches; all of it is undone."""
    found = {}
    for name, (text, params) in _statements(conn, token, owners).items():
        with conn.transaction(force_rollback=True):
            if " gapless.lag" in text:  # as looks ask it
                conn.execute(query("status", "by_index"))
            found[name] = pages(conn, text, params if "%(" in text else None)
    return found


def _rows(conn: Connection, text: LiteralString, table: LiteralString) -> list[tuple[Any, ...]]:
    return conn.execute(text.format(table)).fetchall()


@pytest.mark.long
def test_none_walks_what_was_updated_since(conn: Connection, dsn: str) -> None:
    topic = ensure_topic(conn, "outbox", partitions=1)
    conn.execute("select gapless.create_group('clients', 'outbox', 'earliest')")
    with ExitStack() as stack:
        owners = {group: stack.enter_context(owner(dsn, group, topic)) for group in GROUPS}
        conn.execute("select gapless.set_filter('filtered', 'outbox', array['e'])")
        conn.execute(PUBLISH.format(events=UPDATES + 50))
        sequence(conn)
        row = conn.execute("select token from gapless.join('clients', 'outbox', '1 h')").fetchone()
        assert row is not None
        _work(conn, row[0], owners, 2)
        held = stack.enter_context(connect(dsn, role="held"))
        held.execute("begin isolation level repeatable read")
        held.execute("select 1")
        for _ in range(6):  # by then plans are generic
            before = _counted(conn, row[0], owners)
        _work(conn, row[0], owners, UPDATES)
        rounds = []
        # The least: one update in many goes to another page, where its index looks at all versions.
        for _ in range(4):
            _work(conn, row[0], owners, 8)
            rounds.append(_counted(conn, row[0], owners))
        after = {name: min(each[name] for each in rounds) for name in before}
        shown = "select group_id, partition_id, next_offset, token from gapless.{} order by 1"
        assert _rows(conn, shown, "all_offsets") == _rows(conn, shown, "consumer_offsets")
        shown = "select member_no, state, expires_at from gapless.{} order by 1"
        assert _rows(conn, shown, "all_members") == _rows(conn, shown, "member")
        held.execute("rollback")
    grown = {name: (before[name], n) for name, n in after.items() if n > before[name] + MORE_MAX}
    assert not grown, "pages before and after"
