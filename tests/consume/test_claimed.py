"""What a claim takes, how much of it is read with it and what is found ahead; each claim is taken back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from gapless.consume.read.backlog import Backlog
from gapless.consume.read.claim import Claim, LogReader, Wanted
from gapless.consume.session import run, transaction
from gapless.errors import HoleError
from gapless.features.filters.conditions import limited
from gapless.features.filters.filtered import FilteredRanges
from gapless.features.filters.reader import FilteredReader
from gapless.log.event import NewEvent
from support.world import Group, World

SIZES = (1, 2, 1, 1, 3, 1)
TYPES = ("a", "b", "a", "b", "b", "a")
"""Of each unit the type of its events; an odd event of a large one is of the other type."""


class UndoneError(Exception):
    """Ends a transaction that is not to be committed."""


@dataclass
class Place:
    """A group at the begin of a small log, and the ids of its events."""

    group: Group
    ids: list[int]
    is_filtered: bool = False
    """Whether the claim was made for a group with a filter."""

    def claim(self, *, filtered: bool = False, **wanted: Any) -> Claim:
        """Claim; filtered: with the reader for groups with a filter, known or not."""
        found: Claim | None = None
        backlog = Backlog()
        backlog.reader = FilteredReader() if filtered else backlog.reader
        with pytest.raises(UndoneError), transaction(self.group.conn):
            found = backlog.ask(self.group.conn, self.group.assignment, Wanted(**wanted))
            raise UndoneError
        self.is_filtered = not isinstance(backlog.reader, LogReader)
        assert found is not None
        return found

    def offsets(self, ids: Any) -> list[int]:
        return [self.ids.index(each) + 1 for each in ids]


@pytest.fixture(scope="module")
def shared_place(shared_world: World) -> Iterator[Place]:
    world = shared_world.another_topic()
    world.events(
        NewEvent(payload={}, event_type=kind if n % 2 == 0 else "a", transaction_id=id_)
        for size, kind in zip(SIZES, TYPES, strict=True)
        for id_ in [uuid4()]
        for n in range(size)
    )
    group = world.group()
    rows = world.rows(
        "select u.id from gapless.log_segment s, unnest(s.message_ids) u (id) where s.topic_id = %s"
        " order by 1",
        world.topic.topic_id,
    )
    yield Place(group, [row[0] for row in rows])
    group.conn.close()


@pytest.fixture
def place(shared_place: Place) -> Iterator[Place]:
    yield shared_place
    world, topic = shared_place.group.world, shared_place.group.world.topic.name
    world.value("select gapless.clear_filter(%s, %s)", shared_place.group.name, topic)


@pytest.mark.parametrize(
    ("batch_size", "events_max", "ahead", "ends", "is_read", "beyond"),
    [
        (1, 0, 0, [1], False, []),
        (1, 1, 0, [1], True, []),
        (2, 2, 0, [1, 3], False, []),
        (2, 3, 0, [1, 3], True, []),
        (2, 4, 0, [1, 3], True, []),
        (100, 8, 0, [1, 3, 4, 5, 8, 9], False, []),
        (100, 9, 0, [1, 3, 4, 5, 8, 9], True, []),
        (2, 0, 2, [1, 3], False, []),
        (2, 0, 3, [1, 3], False, []),
        (2, 0, 4, [1, 3], False, [1]),
        (2, 0, 5, [1, 3], False, [1, 2]),
        (2, 0, 7, [1, 3], False, [1, 2]),
        (2, 0, 8, [1, 3], False, [1, 2, 5]),
        (2, 0, 9, [1, 3], False, [1, 2, 5, 6]),
        (2, 0, 99, [1, 3], False, [1, 2, 5, 6]),
    ],
)
def test_a_claim(  # noqa: PLR0917 - the columns of a row
    place: Place,
    batch_size: int,
    events_max: int,
    ahead: int,
    ends: list[int],
    is_read: bool,
    beyond: list[int],
) -> None:
    found = place.claim(batch_size=batch_size, events_max=events_max, read_ahead=ahead)
    assert (found.outcome, found.first_offset, found.last_offset) == ("claimed", 1, ends[-1])
    assert found.claim_xid
    assert found.place
    assert not place.is_filtered
    assert [*found.spans.ends] == ends
    assert place.offsets(found.spans.ids) == list(range(1, ends[-1] + 1))
    assert (found.rows is not None) is is_read
    if found.rows is not None:
        assert [row[0] for row in found.rows] == found.spans.ids
    assert [*found.beyond.ends] == beyond
    if beyond:
        assert found.beyond.first_offset == ends[-1] + 1
        last = found.beyond.first_offset + beyond[-1]
        assert place.offsets(found.beyond.ids) == list(range(ends[-1] + 1, last))


def let_take(place: Place, *types: str, where: str | None = None) -> None:
    group = place.group
    group.world.value(
        "select gapless.set_filter(%s, %s, %s, %s)",
        group.name, group.world.topic.name, list(types) or None, where,
    )  # fmt: skip


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("batch_size", "events_max", "kept", "starts", "ends"),
    [
        (1, 0, [2], [1], [3]),
        (1, 1, [2], [1], [3]),
        (2, 1, [2, 5], [1, 4], [3, 5]),
        (2, 2, [2, 5], [1, 4], [3, 5]),
        (3, 9, [2, 5, 6, 8], [1, 4, 5], [3, 5, 8]),
        (99, 3, [2, 5, 6, 8], [1, 4, 5], [3, 5, 8]),
    ],
)
def test_a_claim_with_a_filter(  # noqa: PLR0917 - the columns of a row
    place: Place,
    batch_size: int,
    events_max: int,
    kept: list[int],
    starts: list[int],
    ends: list[int],
    is_known: bool,
) -> None:
    """Whether it is known that there is one or not."""
    let_take(place, "b")
    found = place.claim(batch_size=batch_size, events_max=events_max, filtered=is_known)
    spans = found.spans
    assert isinstance(spans, FilteredRanges)
    assert (found.outcome, place.is_filtered, found.first_offset) == ("claimed", True, 1)
    assert found.claim_xid
    assert found.place
    assert place.offsets(spans.wanted) == kept == list(spans.kept.offsets)
    assert ([*spans.starts], [*spans.ends]) == (starts, ends)
    assert spans.kept.matches is None
    assert not spans.kept.errors
    assert len(spans.ids) == found.last_offset
    if len(kept) <= events_max:
        assert found.rows is not None
        assert place.offsets(row[0] for row in found.rows) == kept
    else:
        assert found.rows is None


def test_what_a_filter_could_not_be_asked_about_is_kept_with_the_reason(place: Place) -> None:
    group = place.group
    group.world.events([NewEvent(payload=b'{"n": "\\u0000"}', event_type="nul")])
    let_take(place, "nul", "b", where="exists($.nothing)")
    found = place.claim(batch_size=9, filtered=True)
    assert isinstance(found.spans, FilteredRanges)
    assert found.spans.kept.offsets == [10]
    assert set(found.spans.kept.errors) == {10}
    assert found.spans.kept.errors[10]


def test_a_filter_that_is_gone_is_noticed(place: Place) -> None:
    found = place.claim(batch_size=2, events_max=3, filtered=True)
    assert (place.is_filtered, [*found.spans.ends]) == (False, [1, 3])
    assert found.rows is not None


def test_a_claim_looks_at_so_much_of_the_log(place: Place) -> None:
    let_take(place, "nothing")
    found = place.claim(batch_size=4, filtered=True, exactly=True)
    assert (found.outcome, found.last_offset, len(found.spans)) == ("claimed", 4, 0)


@pytest.mark.parametrize("filtered", [False, True])
def test_nothing_new_is_no_claim(place: Place, filtered: bool) -> None:
    if filtered:
        let_take(place, "b")
    group = place.group
    group.world.value("select gapless.pause(%s)", group.name)
    try:
        found = place.claim(batch_size=1, filtered=filtered)
    finally:
        group.world.value("select gapless.resume(%s)", group.name)
    assert (found.outcome, place.is_filtered, len(found.spans)) == ("idle", filtered, 0)
    assert (found.first_offset, found.last_offset, found.claim_xid) == (0, -1, "")


def test_a_hole_says_what_stands_before_it(place: Place) -> None:
    """The fifth event is missing: with it the unit of one event at offset 5."""
    world = place.group.world
    lost = place.ids[4]
    row = "gapless.outbox_message_t where id = %s"
    with world.conn.transaction():
        world.conn.execute("drop table if exists public.away")
        world.conn.execute(f"create table public.away as select * from {row}", [lost])
        world.conn.execute(f"delete from {row}", [lost])
    try:
        with pytest.raises(HoleError) as caught:
            place.claim(batch_size=9, events_max=9)
    finally:
        world.conn.execute("insert into gapless.outbox_message_t select * from public.away")
    assert (caught.value.first_offset, caught.value.whole) == (1, 4)
    assert caught.value.missing_id == lost
    assert f"{lost}" in str(caught.value)


def test_a_statement_has_its_own_time(place: Place) -> None:
    """And the next one has again what there was."""
    conn = place.group.conn

    def timeout() -> str | None:
        _, names, vals = run(conn, "settings")[0]
        return dict(zip(names, vals, strict=True)).get("statement_timeout")

    with transaction(conn):
        before = timeout()
        for limit_s, text in ((1.2344, "1234ms"), (2.0, "2s")):
            with limited(conn, limit_s):
                assert timeout() == text
            assert timeout() in {before, "0"}
