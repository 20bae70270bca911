"""resume_subscription(): the number of units that it says, no matter who was told before, or claims at the same time."""

import pytest

from features.filters.twins.missing import LETTERS, twins
from features.filters.twins.stopping import (
    PLACE,
    RESUME,
    TOKEN,
    ask_for,
    letters,
    resumed,
    settled,
    stopped,
)
from support.twins import Twins

__all__ = ["settled", "twins"]


TELL = (
    "update gapless.dead_letter_event set is_kept = true, subscriptions = array[%s]::bigint[]"
    " where c_offset = any (%s) and (group_id, topic_id, partition_id) {} ('billing', %s, 1)"
)
# Who was told of which events of that unit before, here or elsewhere; what ann matches, where she was stopped.
TOLD = [
    ("ann", [5], "=", [6], 6, 1),
    ("cid", [5], "=", [6], 5, 1),
    ("ann", [5, 6], "=", [], 5, 0),
    ("ann", [4, 5, 6], "<>", [6], 5, 1),
]


@pytest.mark.parametrize(("name", "events", "where", "of", "first", "units"), TOLD)
def test_what_was_told_before_or_elsewhere_or_to_others_is_taken_off_from_nothing(
    twins: Twins, *, name: str, events: list[int], where: str, of: list[int], first: int, units: int
) -> None:
    ann = ask_for(twins, *of)
    twins.conn.execute(LETTERS, {"state": "waiting"})
    told = ann if name == "ann" else ann + 1000
    twins.conn.execute(TELL.format(where).encode(), [told, events, twins.topic_ids["orders"]])
    stopped(twins, first, 9)
    assert resumed(twins, 1)[0] == units


CLAIM = (
    "create function pg_temp.claim() returns trigger language plpgsql as $$ begin"
    " perform set_config('gapless.seeking', pg_current_xact_id()::text, true);"
    " update gapless.consumer_offsets set next_offset = 9, token = gen_random_uuid() where {};"
    " return null; end $$"
)


def test_who_claims_meanwhile_is_fenced_and_what_it_passed_was_missed(twins: Twins) -> None:
    """While the first events are asked about, workers go on."""
    ann = ask_for(twins, 2, 8)
    stopped(twins, 1, 3)
    twins.conn.execute(CLAIM.format(twins.here()).encode())
    twins.conn.execute(
        "create trigger claim after insert on gapless.dead_letter for each row"
        " when (new.first_offset = 1) execute function pg_temp.claim()"
    )
    changed = twins.changes(RESUME)
    assert changed.pop(PLACE) == {"next_offset": (3, 9), "token": (TOKEN, None)}
    assert letters({n: row for n, row in changed.items() if n.startswith("dead")}, ann) == {
        1: [2],
        8: [8],
    }


@pytest.mark.parametrize("behind", [0, 1, 2])
def test_each_partition_is_asked_about_up_to_where_the_group_is_there(
    twins: Twins, behind: int
) -> None:
    """What it has yet to come to, its workers ask about."""
    ask_for(twins, 8)
    stopped(twins, 1, 9, "0, 1, 2")
    twins.seek(4, twins.here(partition=behind))
    answer, changed = resumed(twins, 0, 1, 2)
    assert answer == 2
    assert not [name for name in changed if f" orders {behind} " in name]
