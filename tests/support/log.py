"""Look at the whole log of a test's database, and check it against the published events (I1 to I5).

A test gives every event a tag of its own, in event_type, so that events can be told apart without
trusting their ids.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from math import inf
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

_PLACED = """
select s.topic_id, s.partition_id, s.base_offset + u.n - 1 as c_offset, u.id,
  o.event_type as tag, o.xid::text as xid, o.transaction_id,
  substring(s.unit_ends from u.n::int for 1) = b'1' as ends_unit
from gapless.log_segment s
cross join unnest(s.message_ids) with ordinality u (id, n)
left join gapless.outbox_message_t o on o.id = u.id
where s.run > %s
order by s.topic_id, s.partition_id, c_offset
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An event with its place in the log."""

    topic_id: int
    partition_id: int
    c_offset: int
    id: int
    tag: str | None
    xid: str | None
    transaction_id: UUID | None
    ends_unit: bool


@dataclass(slots=True)
class Published:
    """A test's record of one event: its transaction, and the time (of any clock) of each step.

    inserted: before the INSERT was sent. committed: after COMMIT was answered; None if it never was.
    """

    tag: str
    transaction: str
    inserted: float
    committed: float | None = None


Log = Mapping[tuple[int, int], list[Placed]]


def placed(conn: Connection, *, after_run: int = 0) -> Log:
    """Return the events with offsets, of each (topic_id, partition_id), in offset order."""
    with conn.cursor(row_factory=class_row(Placed)) as cursor:
        rows = cursor.execute(_PLACED, [after_run]).fetchall()
    return {
        where: list(run)
        for where, run in groupby(rows, key=lambda row: (row.topic_id, row.partition_id))
    }


def tags(log: Log) -> list[str | None]:
    """Return the tags of all partitions, one after the other."""
    return [event.tag for events in log.values() for event in events]


def assert_gapless(log: Log, first: Mapping[tuple[int, int], int] | None = None) -> None:
    """I3: offsets are 1, 2, 3, … in every partition (or continue from `first`)."""
    for where, events in log.items():
        start = (first or {}).get(where, 1)
        offsets = [event.c_offset for event in events]
        expected = list(range(start, start + len(events)))
        wrong = [pair for pair in zip(offsets, expected, strict=True) if pair[0] != pair[1]]
        assert not wrong, f"I3 in {where}: (is, should be) {_some(wrong)}"


def assert_kept(before: Log, after: Log) -> None:
    """I3: an offset, once given, never changes."""
    for where, events in before.items():
        now = after.get(where, [])[: len(events)]
        moved = [e for e, n in zip_longest(events, now) if n is None or _place(e) != _place(n)]
        assert not moved, f"I3 in {where}: moved {_some(moved)}"


def assert_all_there(log: Log, published: Iterable[Published]) -> None:
    """I1 and I2: exactly the events of committed transactions, each of them once."""
    seen = Counter(tags(log))
    known = {event.tag: event for event in published}
    twice = [tag for tag, times in seen.items() if times > 1]
    assert not twice, f"I1: two offsets for {_some(twice)}"
    ghosts = [tag for tag in seen if tag not in known or known[tag].committed is None]
    assert not ghosts, f"I2: not committed, but in the log: {_some(ghosts)}"
    lost = [tag for tag, event in known.items() if event.committed is not None and tag not in seen]
    assert not lost, f"I1: lost {_some(lost)}"


def assert_ordered(log: Log, published: Iterable[Published]) -> None:
    """I4: an event committed before another was inserted comes first; else insertion order."""
    known = {event.tag: event for event in published}
    for where, events in log.items():
        earliest_commit_after = inf
        for event in reversed(events):
            assert event.tag is not None
            facts = known[event.tag]
            assert earliest_commit_after >= facts.inserted, (
                f"I4 in {where}: {facts} has a higher place than an event that committed before it"
            )
            assert facts.committed is not None
            earliest_commit_after = min(earliest_commit_after, facts.committed)
        for transaction, own in _by_transaction(events, known).items():
            assert own == sorted(own, key=lambda e: known[e.tag or ""].inserted), (
                f"I4 in {where}: insertion order in {transaction}"
            )


def assert_neighbours(log: Log, published: Iterable[Published] = ()) -> None:
    """I5: a transaction's events are neighbours; a unit ends where the unit changes, not inside it.

    Two transactions with one explicit transaction_id are one unit if one run sequenced both.
    published: tells transactions apart; without it their xids do.
    """
    names: dict[str | None, str | None] = {event.tag: event.transaction for event in published}

    def transaction(event: Placed) -> str | None:
        return names.get(event.tag, event.xid)  # a restore lets an xid be used again

    for where, events in log.items():
        runs = [name for name, _ in groupby(events, key=transaction)]
        torn = [name for name, times in Counter(runs).items() if times > 1]
        assert not torn, f"I5 in {where}: transactions {_some(torn)} are torn"
        for event, following in zip(events, [*events[1:], None], strict=True):
            if following is None or _unit(event) != _unit(following):
                assert event.ends_unit, f"I5 in {where}: no unit end at {event}"
            elif transaction(event) == transaction(following):
                assert not event.ends_unit, f"I5 in {where}: unit cut at {event}"


def published_nothing(conn: Connection) -> None:
    """Delete all events, also waiting ones, and all dedupe keys, in a database that tests share.

    The log, if there is one, has a hole then: use it in tests that read published events, and not the log.
    """
    for table in (b"outbox_message_t", b"scheduled", b"dedupe"):
        conn.execute(b"delete from gapless." + table)


def _some(things: Sequence[object]) -> str:
    return f"{', '.join(map(str, things[:5]))} ({len(things)} in all)"


def _place(event: Placed) -> tuple[int, int]:
    return event.c_offset, event.id


def _unit(event: Placed) -> object:
    return event.transaction_id or event.xid


def _by_transaction(
    events: Iterable[Placed], known: Mapping[str, Published]
) -> Mapping[str, list[Placed]]:
    found: dict[str, list[Placed]] = defaultdict(list)
    for event in events:
        found[known[event.tag or ""].transaction].append(event)
    return found
