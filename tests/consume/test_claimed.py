"""What a claim takes, how much of it is read with it and what is found ahead; each claim is taken back."""

from collections.abc import Iterator
from typing import Any

import pytest

from gapless.consume.read.backlog import Backlog
from gapless.consume.read.claim import Claim, Wanted
from gapless.consume.session import transaction
from support.world import Group, World


class UndoneError(Exception):
    """Ends a transaction that is not to be committed."""


@pytest.fixture(scope="module")
def group(shared_world: World) -> Iterator[Group]:
    """A group at the begin of a log of six units."""
    world = shared_world.another_topic()
    world.units(1, 2, 1, 1, 3, 1)
    made = world.group()
    yield made
    made.conn.close()


def claim(group: Group, **wanted: Any) -> Claim:
    found: Claim | None = None
    with pytest.raises(UndoneError), transaction(group.conn):
        found = Backlog().ask(group.conn, group.assignment, Wanted(**wanted))
        raise UndoneError
    assert found is not None
    return found


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
    group: Group,
    batch_size: int,
    events_max: int,
    ahead: int,
    ends: list[int],
    is_read: bool,
    beyond: list[int],
) -> None:
    ids = group.world.value(
        "select array_agg(id order by 1) from gapless.outbox_message_t where topic_id = %s",
        group.world.topic.topic_id,
    )
    found = claim(group, batch_size=batch_size, events_max=events_max, read_ahead=ahead)
    assert (found.outcome, found.first_offset, found.last_offset) == ("claimed", 1, ends[-1])
    assert found.claim_xid
    assert found.place
    assert [*found.spans.ends] == ends
    assert found.spans.ids == ids[: ends[-1]]
    assert (found.rows is not None) is is_read
    if found.rows is not None:
        assert [row[0] for row in found.rows] == found.spans.ids
    assert [*found.beyond.ends] == beyond
    if beyond:
        assert found.beyond.first_offset == ends[-1] + 1
        assert found.beyond.ids == ids[ends[-1] : ends[-1] + beyond[-1]]


def test_nothing_new_is_no_claim(group: Group) -> None:
    group.world.value("select gapless.pause(%s)", group.name)
    try:
        found = claim(group, batch_size=1)
    finally:
        group.world.value("select gapless.resume(%s)", group.name)
    assert (found.outcome, len(found.spans)) == ("idle", 0)
    assert (found.first_offset, found.last_offset, found.claim_xid) == (0, -1, "")
