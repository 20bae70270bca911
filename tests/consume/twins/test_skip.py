"""skip_hole(): exactly the hole before which the group stands, of this place alone, and what is kept of it."""

import pytest

from support.twins import Twins

SKIP = "select * from gapless.skip_hole(%s, %s, %s, %s)"
HERE = ("billing", "orders", 1)
NO_HOLE = 'group "billing" is at offset {} of orders/1, where nothing is missing: there is no hole to skip'
# Events that are missing, first offsets of segments that are; where the group is: the hole.
HOLES: dict[str, tuple[set[int], set[int], int, tuple[int, int, int, int]]] = {
    "an event": ({5}, set(), 4, (4, 6, 1, 3)),
    "the first of a unit": ({4}, set(), 4, (4, 6, 1, 3)),
    "a segment": (set(), {4}, 4, (4, 6, 3, 3)),
    "the first segment": (set(), {1}, 1, (1, 3, 3, 3)),
    "units in a row": ({2, 3, 4, 6}, set(), 1, (1, 6, 4, 6)),
    "a segment and an event": ({7}, {4}, 4, (4, 7, 4, 4)),
    "the end": ({8}, set(), 8, (8, 8, 1, 1)),
    "one of two": ({3, 7}, set(), 3, (3, 3, 1, 1)),
}


def lose(twins: Twins, events: set[int], segments: set[int]) -> None:
    twins.lose(*events)
    twins.conn.execute(
        "delete from gapless.log_segment where base_offset = any (%s)", [list(segments)]
    )


@pytest.mark.parametrize("name", HOLES)
def test_what_is_skipped(twins: Twins, name: str) -> None:
    events, segments, at, (first, last, missing, passed) = HOLES[name]
    lose(twins, events, segments)
    twins.seek(2)
    twins.seek(at, twins.here())
    statement = "create temp table answer on commit drop as " + SKIP
    changed = twins.changes(statement, [*HERE, last])
    answer = twins.conn.execute("select * from answer").fetchall()
    assert answer == [(first, last, missing, passed)]
    assert twins.value("select current_setting('gapless.seeking') = pg_current_xact_id()::text")
    audit = changed.pop("audit skip billing orders 1")
    assert changed == {
        "consumer_offsets billing orders 1": {
            "next_offset": (at, last + 1), "attempt_offset": (at, None), "attempts": (2, 0),
        }
    }  # fmt: skip
    detail = twins.conn.execute("select detail from gapless.audit where action = 'skip'").fetchall()
    assert detail == [({"from": first, "to": last + 1, "missing": missing},)]
    assert audit["group_id"] == (None, "billing")


@pytest.mark.parametrize("group", ["billing", "sender"])
def test_retention_waits_until_it_is_over(twins: Twins, group: str) -> None:
    """It would drop what was just looked at; of other topics it drops what it likes."""
    twins.lose(5)
    twins.seek(4, twins.here())
    twins.conn.execute(SKIP, [group, "orders", 1, 5])
    locked = "select name from gapless.topic where xmax = pg_current_xact_id()::xid order by 1"
    assert twins.conn.execute(locked).fetchall() == [("orders",)]


@pytest.mark.parametrize("at", [1, 3, 7, 9])
def test_where_there_is_no_hole(twins: Twins, at: int) -> None:
    """Neither before one nor behind it, nor at the end of the log; nobody moves the group meanwhile."""
    twins.lose(4, 6)
    twins.seek(at)
    locks = f"select xmax::text <> '0' from gapless.consumer_offsets where {twins.here()}"
    assert not twins.value(locks)
    assert twins.refused(SKIP, [*HERE, at]) == ("GL409", NO_HOLE.format(at))
    assert twins.value(locks), "it was not locked before it was looked at"


def test_which_hole_is_meant(twins: Twins) -> None:
    twins.lose(5)
    twins.seek(1)
    twins.seek(4, twins.here())
    for offset in (3, 7):
        state, text = twins.refused(SKIP, [*HERE, offset])
        said = f'offset {offset} is not in the hole before which group "billing" stands'
        assert (state, text) == ("GL409", f"{said}: that is billing/orders/1@4, to 6")
    twins.conn.execute("select gapless.create_topic('third', 3)")
    for place in (
        ("nobody", "orders", 1), ("billing", "orders", 3), ("sender", "third", 1), ("sender", "orders", 3),
    ):  # fmt: skip
        group, topic, partition = place
        said = f'group "{group}" has no offset in {topic}/{partition}: gapless groups show {group} lists them'
        assert twins.refused(SKIP, [*place, 4]) == ("GL404", said)


@pytest.mark.parametrize("segments", [set(), {4}], ids=["events", "a segment"])
def test_a_queue_group_passes_what_is_missing(twins: Twins, segments: set[int]) -> None:
    """Of a queue each event is a unit; what is not missing is still to be taken."""
    lose(twins, set() if segments else {5, 6}, segments)
    first = 4 if segments else 5
    changed = twins.changes(
        "create temp table answer on commit drop as " + SKIP, ["sender", "orders", 1, 5]
    )
    n = 6 - first + 1
    assert twins.conn.execute("select * from answer").fetchall() == [(first, 6, n, n)]
    lease = twins.leases["sender", "orders", 1]
    ranges = twins.conn.execute(
        "select lease_no, first_offset, last_offset, deadline is null, holder from"
        " gapless.queue_range order by 2"
    ).fetchall()
    open_part = [(lease, 1, 3, False, "skip")] if segments else [(lease, 5, 4, False, "skip")]
    done = (lease, first, 6, True, "skip")
    assert ranges == ([*open_part, done] if segments else [done])
    assert "audit skip sender orders 1" in changed
    assert all("sender orders 1" in name or f" {lease} " in name for name in changed)
