"""stop_beyond(), stop_restored(), skip_overrun(): groups that stand where the log has nothing for them."""

import pytest

from support.claims import OTHER, TOKEN
from support.twins import QUEUES, Twins

PLACE = "consumer_offsets billing orders 1"
RUNS = (
    "select array_agg(distinct run order by run) from gapless.log_segment"
    " where topic_id = %s and partition_id = 1"
)
SEEKING = "select current_setting('gapless.seeking') = pg_current_xact_id()::text"
LOCKED = "select xmax = pg_current_xact_id()::xid from gapless.consumer_offsets where "


@pytest.fixture
def alike(twins: Twins) -> Twins:
    """One owner has all partitions of all groups."""
    twins.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
    return twins


def place_of(twins: Twins) -> str:
    return f"topic_id = {twins.topic_ids['orders']} and partition_id = 1"


def stopped(twins: Twins) -> dict[str, int]:
    """Who is stopped, and where; it is one of the columns that changes() does not compare."""
    query = (
        "select concat_ws(' ', c.group_id, t.name, c.partition_id), c.stopped_at"
        " from gapless.consumer_offsets c join gapless.topic t using (topic_id) where c.stopped_at is not null"
    )
    return dict(twins.conn.execute(query).fetchall())


BEYOND = "select gapless.stop_beyond('billing', %s, 1, %s, %s, %s)"


@pytest.mark.parametrize(
    ("epoch", "token", "log_end", "before", "is_stopped"),
    [
        (5, TOKEN, 8, None, True), (5, TOKEN, 9, None, False), (5, TOKEN, 10, None, False),
        (4, TOKEN, 8, None, False), (6, TOKEN, 8, None, False), (5, OTHER, 8, None, False),
        (5, TOKEN, 8, 7, False), (5, TOKEN, 1, None, True),
    ],
)  # fmt: skip
def test_who_is_beyond_the_end_is_stopped_by_its_owner(
    alike: Twins, epoch: int, token: str, log_end: int, before: int | None, is_stopped: bool
) -> None:
    alike.seek(9)
    alike.conn.execute("update gapless.consumer_offsets set stopped_at = %s", [before])
    params = [alike.topic_ids["orders"], epoch, token, log_end]
    was = stopped(alike)
    assert alike.changes(BEYOND, params) == ({PLACE: {}} if is_stopped else {})
    assert stopped(alike) == was | ({"billing orders 1": log_end} if is_stopped else {})


OVERRUN = "create temp table answer on commit drop as select gapless.skip_overrun('billing', %s, 1, %s, %s, %s)"


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("at", "epoch", "token", "to_end", "lost"),
    [
        (2, 5, TOKEN, "earliest", 2), (3, 5, TOKEN, "earliest", 1), (2, 5, TOKEN, "latest", 7),
        (4, 5, TOKEN, "earliest", 0), (4, 5, TOKEN, "latest", 0), (5, 5, TOKEN, "latest", 0),
        (2, 4, TOKEN, "earliest", None), (2, 6, TOKEN, "earliest", None),
        (2, 5, OTHER, "earliest", None),
    ],
)  # fmt: skip
def test_what_was_dropped_is_left_behind(
    alike: Twins, at: int, epoch: int, token: str, to_end: str, lost: int | None
) -> None:
    """Here the log begins at 4, elsewhere later."""
    topic = alike.topic_ids["orders"]
    alike.conn.execute(
        "insert into gapless.log_start select topic_id, p,"
        " case when topic_id = %s and p = 1 then 4 else 6 end, now()"
        " from gapless.topic, generate_series(0, 2) p",
        [topic],
    )
    alike.seek(at)
    changed = alike.changes(OVERRUN, [topic, epoch, token, to_end])
    assert alike.value("select * from answer") == lost
    assert alike.value(SEEKING) is bool(lost)  # else the commit of it is refused
    audit = changed.pop("audit overrun billing orders 1", {})
    if lost:
        moved = {"next_offset": (at, at + lost), "attempt_offset": (at, None), "attempts": (2, 0)}
        assert changed == {PLACE: moved}
        assert audit["detail"] == (None, f'{{"to": {at + lost}, "from": {at}}}')
    else:
        assert (changed, audit) == ({}, {})


def test_who_leaves_it_behind_keeps_the_topic_and_the_place(alike: Twins) -> None:
    """Although there is nothing to do: retention and other owners wait."""
    alike.conn.execute(OVERRUN, [alike.topic_ids["orders"], 5, TOKEN, "latest"])
    held = "select name from gapless.topic where xmax = pg_current_xact_id()::xid"
    assert alike.conn.execute(held).fetchall() == [("orders",)]
    assert alike.value(LOCKED + alike.here())


RESTORED = "select gapless.stop_restored(%s)"


@pytest.fixture
def last_run(twins: Twins) -> int:
    """The second run of three, with offsets 4 to 6: of the third nothing was restored."""
    runs: list[int] = twins.value(RUNS, twins.topic_ids["orders"])
    return runs[1]


@pytest.mark.parametrize(("at", "is_beyond"), [(6, False), (7, False), (8, True), (9, True)])
def test_a_log_that_was_restored_stops_who_is_beyond_its_end(
    twins: Twins, last_run: int, at: int, is_beyond: bool
) -> None:
    """Those that were stopped before stay stopped where they were."""
    twins.seek(1)
    twins.seek(at, "partition_id = 1")
    twins.conn.execute("update gapless.consumer_offsets set stopped_at = 3 where group_id = 'mail'")
    was = stopped(twins)
    changed = twins.changes(RESTORED, [last_run])
    names = {f"{group} {topic} 1" for group in ("billing", *QUEUES) for topic in twins.topic_ids}
    assert stopped(twins) == was | (dict.fromkeys(names, 7) if is_beyond else {})
    places = {name for name in changed if name.startswith("consumer_offsets ")}
    assert places == ({f"consumer_offsets {name}" for name in names} if is_beyond else set())
    assert len(changed.keys() - places) == (4 if is_beyond else 0)


@pytest.mark.parametrize(
    ("change", "end"),
    [
        ("update gapless.log_segment set run = run + 1000 where {here} and base_offset > 1", 4),
        ("update gapless.log_segment set run = run + 1000 where {here}", 1),
        ("update gapless.log_segment set run = run + 1000 where not ({here})", 7),
        ("delete from gapless.log_segment where {here}", 1),
    ],
)
def test_each_partition_ends_where_it_was_restored_to(
    twins: Twins, last_run: int, change: str, end: int
) -> None:
    """Everybody is at 8: what is so in one topic or partition stops nobody elsewhere at that offset."""
    restored_to = {True: end, False: 1 if "not (" in change else 7}
    twins.conn.execute(change.format(here=place_of(twins)).encode())
    twins.seek(8)
    twins.conn.execute(RESTORED, [last_run])
    query = f"select distinct {place_of(twins)}, stopped_at from gapless.consumer_offsets"
    found = twins.conn.execute(query.encode()).fetchall()
    assert sorted(found) == sorted(restored_to.items())


def test_claims_of_queues_are_told_by_their_floors(twins: Twins, last_run: int) -> None:
    """A new version of the floor, paused, and all else as it was; of an ordered group there is none."""
    twins.seek(8, "group_id in ('sender', 'billing') and partition_id = 1")
    floors = (
        "select lease_no, version, next_offset, block, is_paused, place from gapless.queue_floor"
    )
    before = {row[:2]: row for row in twins.conn.execute(floors).fetchall()}
    newest = {lease: max(v for each, v in before if each == lease) for lease, _ in before}
    twins.conn.execute(RESTORED, [last_run])
    now = [row for row in twins.conn.execute(floors).fetchall() if row[:2] not in before]
    leases = [twins.leases["sender", topic, 1] for topic in twins.topic_ids]
    assert sorted(now) == sorted(
        (lease, newest[lease] + 1, *before[lease, newest[lease]][2:4], True, before[lease, newest[lease]][5])
        for lease in leases
    )  # fmt: skip
