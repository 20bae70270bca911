"""record_attempt(), forget_attempt(), lock_fence(), tally_filter(): one row, of one partition of a group."""

from typing import Any

import pytest

from support.claims import OTHER, TOKEN
from support.twins import Twins

OFFSETS = "consumer_offsets billing orders 1"
FENCE = f"('billing', {{orders}}, 1, 5, '{TOKEN}')"


@pytest.fixture
def same(twins: Twins) -> Twins:
    """All groups are at 4, tried twice, and have one owner."""
    twins.seek(4)
    twins.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
    return twins


def written(twins: Twins, change: str) -> None:
    if change:
        twins.conn.execute(f"update gapless.consumer_offsets set {change} where {twins.here()}")


# What is so of the place; what record_attempt() and forget_attempt() change of it.
TRIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "tried twice": ("", {"attempts": (2, 3)}, {"attempts": (2, 1)}),
    "tried once": ("attempts = 1", {"attempts": (1, 2)}, {"attempts": (1, 0)}),
    "not tried": ("attempts = 0", {"attempts": (0, 1)}, {}),
    "tried elsewhere": (
        "attempt_offset = 3, attempts = 7", {"attempts": (7, 1), "attempt_offset": (3, 4)}, {},
    ),
    "never tried": (
        "attempt_offset = null, attempts = 0", {"attempts": (0, 1), "attempt_offset": (None, 4)}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRIES)
def test_how_often_a_unit_was_tried(same: Twins, name: str) -> None:
    change, recorded, forgotten = TRIES[name]
    written(same, change)
    for call, what in (("record", recorded), ("forget", forgotten)):
        query = f"select gapless.{call}_attempt{FENCE}".format(**same.topic_ids)
        with same.undone():
            assert same.changes(query) == ({OFFSETS: what} if what else {})
        if call == "record":
            with same.undone():
                assert same.value(query) == what["attempts"][1]


@pytest.mark.parametrize("change", ["epoch = 6", "epoch = 4", f"token = '{OTHER}'", "token = null"])
def test_who_is_fenced_counts_nothing_and_locks_nothing(same: Twins, change: str) -> None:
    """It is the owner everywhere else."""
    written(same, change)
    for call, answer in (("record_attempt", None), ("lock_fence", False)):
        query = (f"select gapless.{call}" + FENCE).format(**same.topic_ids)
        assert same.value(query) == answer
        assert same.changes(query) == {}
    assert same.changes(f"select gapless.forget_attempt{FENCE}".format(**same.topic_ids)) == {}
    assert locked(same) == []


def locked(twins: Twins) -> list[Any]:
    query = (
        "select group_id, topic_id, partition_id from gapless.consumer_offsets"
        " where xmax = pg_current_xact_id()::xid"
    )
    return twins.conn.execute(query).fetchall()


def test_one_row_is_locked(same: Twins) -> None:
    assert same.value(f"select gapless.lock_fence{FENCE}".format(**same.topic_ids)) is True
    assert locked(same) == [("billing", same.topic_ids["orders"], 1)]


TALLY = "select gapless.tally_filter('billing', {orders}, 1, %s, %s, '{kept}'::bigint[], '{errors}'::text[])"
BEFORE = (
    "insert into gapless.filter_tally select group_id, topic_id, partition_id, 7, 10, 20, 3, 4, 'why', '2020-01-01Z'"
    " from gapless.consumer_offsets where group_id in ('billing', 'mail')"
)
AT = "filter_tally billing orders 1"


# The filter, and events; what was kept, and errors; what changes of the tally, and whether its time does.
TALLIES: dict[str, tuple[int, int, str, str, dict[str, Any], bool]] = {
    "all was kept": (7, 3, "{1,2,3}", "{NULL,NULL,NULL}", {"kept": (10, 13)}, False),
    "nothing was": (7, 3, "{}", "{}", {"passed": (20, 23)}, False),
    "some was, and asked in vain": (
        7, 3, "{5,8}", "{no,never}",
        {"kept": (10, 12), "passed": (20, 21), "unasked": (3, 5), "unasked_offset": (4, 8),
         "unasked_why": ("why", "never")}, True,
    ),
    "the first was asked in vain": (
        7, 2, "{5,8}", "{no,NULL}",
        {"kept": (10, 12), "unasked": (3, 4), "unasked_offset": (4, 5), "unasked_why": ("why", "no")},
        True,
    ),
    "another filter": (
        8, 3, "{5,8}", "{no,NULL}",
        {"filter_no": (7, 8), "kept": (10, 2), "passed": (20, 1), "unasked": (3, 1),
         "unasked_offset": (4, 5), "unasked_why": ("why", "no")}, True,
    ),
    "an earlier filter that keeps all": (
        6, 2, "{5,8}", "{NULL,NULL}",
        {"filter_no": (7, 6), "kept": (10, 2), "passed": (20, 0), "unasked": (3, 0),
         "unasked_offset": (4, None), "unasked_why": ("why", None)}, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TALLIES)
def test_what_a_filter_kept_is_counted(twins: Twins, name: str) -> None:
    filter_no, events, kept, errors, changed, is_new = TALLIES[name]
    twins.conn.execute(BEFORE)
    call = TALLY.replace("{kept}", kept).replace("{errors}", errors)
    call = call.replace("{orders}", str(twins.topic_ids["orders"]))
    assert twins.changes(call, [filter_no, events]) == {AT: changed}
    times = (
        "select group_id, topic_id, partition_id from gapless.filter_tally"
        " where unasked_ts is distinct from '2020-01-01Z'"
    )
    here = [("billing", twins.topic_ids["orders"], 1)]
    assert twins.conn.execute(times).fetchall() == (here if is_new else [])


@pytest.mark.parametrize(("errors", "when"), [("{NULL}", 0), ("{no}", 1)])
def test_the_first_tally_of_a_partition(twins: Twins, errors: str, when: int) -> None:
    twins.conn.execute(BEFORE)
    twins.conn.execute(f"delete from gapless.filter_tally where {twins.here()}")
    call = TALLY.replace("{kept}", "{5}").replace("{errors}", errors)
    changed = twins.changes(call.replace("{orders}", str(twins.topic_ids["orders"])), [7, 4])
    assert list(changed) == [AT]
    row = {column: now for column, (_, now) in changed[AT].items()}
    assert (row["kept"], row["passed"], row["unasked"], row["filter_no"]) == (1, 3, when, 7)
    found = twins.value(f"select count(unasked_ts) from gapless.filter_tally where {twins.here()}")
    assert found == when


@pytest.mark.parametrize(("letters", "kept"), [(200, 200), (201, 200)])
def test_no_more_is_kept_of_an_error_than_a_line(twins: Twins, letters: int, kept: int) -> None:
    call = "select gapless.tally_filter('billing', %s, 1, 7, 1, '{1}', array[repeat('x', %s)])"
    twins.conn.execute(call, [twins.topic_ids["orders"], letters])
    assert twins.value("select length(unasked_why) from gapless.filter_tally") == kept
