"""Subscriptions of twins that are stopped and resumed."""

import json

import pytest

from support.subscribed import PLACES, number, stop, subscribe
from support.twins import SEEKS, Changes, Twins

OF = "s.params -> 'of' @> (e.payload -> 'n')"


TOKEN = "00000000-0000-4000-8000-000000000001"


NO_AUDIT = "delete from gapless.audit"


RESUME = "select gapless.resume_subscription('billing', 'orders', 'ann')"


PLACE = "consumer_offsets billing orders 1"


WHY = "a subscription was stopped when it passed"


NUMBERED = (
    "update gapless.outbox_message_t o set payload = json_build_object('n', s.base_offset + u.n - 1)"
    " from gapless.log_segment s, unnest(s.message_ids) with ordinality u (id, n) where o.id = u.id"
)


UNITS = {1: 2, 3: 3, 4: 6, 7: 7, 8: 8}  # of partition 1: first and last offset


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    with shared.conn.transaction():
        for place in PLACES:
            for name in ("ann", "ben"):
                subscribe(shared, name, place, sql=OF, params={"of": []})
        shared.conn.execute(NUMBERED)
        shared.conn.execute(NO_AUDIT)
        shared.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
        shared.seek(9)
        shared.conn.execute(SEEKS)  # as long as that COMMIT takes
    return shared


def ask_for(twins: Twins, *offsets: int, name: str = "ann") -> int:
    """Have a subscription match these, in every group; return its number."""
    twins.conn.execute(
        "update gapless.subscription set params = %s where name = %s",
        [json.dumps({"of": offsets}), name],
    )
    return number(twins, name)


def stopped(twins: Twins, from_offset: int, upto: int, partitions: str = "1") -> None:
    """Stop ann here from there on, where the group is by now; elsewhere both are stopped at the first."""
    here = "s.group_id = 'billing' and t.name = 'orders'"
    stop(twins, f"not ({here})")
    stop(twins, f"{here} and s.name = 'ben'")
    stop(twins, f"{here} and s.name = 'ann' and n in ({partitions})", from_offset)
    group = f"group_id = 'billing' and topic_id = {twins.topic_ids['orders']}"
    twins.seek(upto, f"{group} and partition_id in ({partitions})")


def resumed(twins: Twins, *partitions: int) -> tuple[int | None, Changes]:
    """Resume ann here; return its answer, and the letters that changed; all else is as it is to be."""
    ann = number(twins, "ann")
    make = f"create temp table answer on commit drop as {RESUME} as units"
    changed = twins.changes(make)
    units = twins.value("select units from answer")
    for partition in partitions:
        assert "from_offset" in changed.pop(f"subscription_stop {ann} {partition}")
        assert changed.pop(PLACE.replace("1", str(partition))) == {"token": (TOKEN, None)}
    said = changed.pop("audit resume_subscription billing orders None")
    assert said["detail"] == (None, json.dumps({"name": "ann", "units": units}))
    return units, changed


def letters(changed: Changes, ann: int, partition: int = 1) -> dict[int, list[int]]:
    """Which units were set aside, each with the events that it matched; checked are all columns that tell."""
    found: dict[int, list[int]] = {}
    for name, columns in changed.items():
        table, *place, offset = name.split()
        assert (table[:11], place) == ("dead_letter", ["billing", "orders", str(partition)])
        now = {column: values[1] for column, values in columns.items()}
        assert all(values[0] is None for values in columns.values())
        if table == "dead_letter":
            first = int(offset)
            told = [now[each] for each in ("state", "attempts", "reason", "exception", "events")]
            assert told == ["waiting", 0, WHY, WHY, UNITS[first] - first + 1]
            assert (now["last_offset"], now.get("parks")) == (UNITS[first], False)
            found.setdefault(first, [])
        else:
            assert now["first_offset"] <= int(offset) <= UNITS[now["first_offset"]]
            of = json.dumps([ann]) if now["is_kept"] else None
            assert now.get("subscriptions") == of
            if now["is_kept"]:
                found.setdefault(now["first_offset"], []).append(int(offset))
    events = [name for name in changed if name.startswith("dead_letter_event")]
    assert len(events) == sum(UNITS[first] - first + 1 for first in found)
    return found


DELIVER = (
    "insert into gapless.delivery (group_id, topic_id, partition_id, first_offset, last_offset, attempts, crashes,"
    " finished) select c.group_id, c.topic_id, c.partition_id, %s, %s, 1, %s, %s from gapless.consumer_offsets c"
    " where not %s or c.group_id = 'billing' and c.topic_id = gapless.topic_id('orders') and c.partition_id = 1"
)
