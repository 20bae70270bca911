"""A group that takes the place of an old consumer, and gives it back: which rows change, and who is in the way."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from features.attach.shop import BEYOND, BY_NEXT, BY_PART, PLACES, PlacedBoxes, locked, note
from gapless.db.connect import connect


@pytest.fixture(scope="module")
def second(module_dsn: str, placed: PlacedBoxes) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="second") as conn:
        yield conn


SUCCEED = "select gapless.succeed_consumer(%s, 'old', %s::bigint[], %s)"
REASON = "its old consumer handles the events: gapless attach switch"
PAUSED = f"pause old outbox -1 of attach {REASON}"
MADE = [
    "+ audit pause old outbox {}",
    '+ audit seek old outbox 0 {"to": 8, "from": 1}',
    '+ audit seek old outbox 1 {"to": 2, "from": 1}',
    "+ offset old outbox 0 8",
    "+ offset old outbox 1 2",
]


def test_a_group_is_put_where_an_old_consumer_is(shop: PlacedBoxes) -> None:
    number = note(shop, BY_PART)
    shop.run(
        "insert into gapless.attached_group values (%s, 'old', 'switched')", shop.numbers["twin"]
    )
    shop.run("insert into gapless.attached_group values (%s, 'h', 'switched')", number)
    shop.run("select gapless.create_group('old', 'other')")
    before = shop.rows(PLACES)
    with shop.conn.transaction(force_rollback=True):
        assert shop.value(SUCCEED, number, [70, 60], False) is True
    changed = shop.diff(SUCCEED, number, [70, 60], False)
    assert changed == sorted([*MADE, "+ group public.box old ready", f"+ {PAUSED}"])
    assert shop.rows(PLACES) == before
    assert shop.diff(SUCCEED, number, [51, 21], False) == []
    assert shop.diff(SUCCEED, number, [81, 61], True) == [
        "+ audit resume old outbox {}",
        '+ audit seek old outbox 0 {"to": 11, "from": 8}',
        '+ audit seek old outbox 1 {"to": 7, "from": 2}',
        '+ audit switch old outbox {"table": "public.box"}',
        "+ group public.box old switched",
        "+ offset old outbox 0 11",
        "+ offset old outbox 1 7",
        "- group public.box old ready",
        "- offset old outbox 0 8",
        "- offset old outbox 1 2",
        f"- {PAUSED}",
    ]
    assert [line for (line,) in shop.rows(PLACES) if "places old " in line] == [
        f"places old 0 {BEYOND}", f"places old 1 {BEYOND}",
    ]  # fmt: skip


def test_a_group_takes_over_at_once(shop: PlacedBoxes) -> None:
    number = note(shop, BY_NEXT)
    assert shop.diff(SUCCEED, number, [70, 60], True) == sorted([
        *MADE, "+ audit resume old outbox {}", '+ audit switch old outbox {"table": "public.box"}',
        "+ group public.box old switched",
    ])  # fmt: skip
    shop.run("select gapless.pause('old', 'outbox', null, 'mine')")
    shop.run("select gapless.pause('old', 'outbox', null, 'back', gapless.attach_holder())")
    places = shop.rows(PLACES)
    with shop.conn.transaction(force_rollback=True):
        assert shop.value(SUCCEED, number, [10, 20], True) is False
    assert shop.diff(SUCCEED, number, [10, 20], True) == [
        "+ audit resume old outbox {}",
        "- pause old outbox -1 of attach back",
    ]
    assert shop.rows(PLACES) == places


def test_where_no_group_can_be_put(shop: PlacedBoxes) -> None:
    assert shop.refused(SUCCEED, shop.numbers["slow"], [1, 1], False) == (
        "GL409", "public.slow is not copied to its end yet: gapless attach add copies on",
    )  # fmt: skip
    number = shop.numbers["box"]
    assert shop.refused(SUCCEED, number, [80, 60], True) == (
        "GL423",
        "id 80 is in the middle of a transaction: let the old consumer come to its end, and try again",
    )
    assert shop.refused(SUCCEED.replace("'old'", "'g'"), number, [1, 1], False) == (
        "GL409",
        'there is a group "g" of topic "outbox" already, and it stands for no old consumer',
    )


def test_a_group_of_another_topic(shop: PlacedBoxes) -> None:
    changed = shop.diff(SUCCEED, shop.numbers["far"], [1, 31], True)
    assert {
        "+ group public.far old switched",
        "+ offset old other 0 1",
        "+ offset old other 1 1",
    } < set(changed)
    assert not [each for each in changed if "outbox" in each]


# Neither writes of a row that names the attachment: that would lock it, too.
@pytest.mark.parametrize(
    "call", ["succeed_consumer({}, 'h', '{{10, 10}}', false)", "hand_back({}, 'g')"]
)
def test_two_who_move_groups_are_one_after_the_other(shop: PlacedBoxes, call: str) -> None:
    shop.run(f"select gapless.{call.format(shop.numbers['empty'])}")
    assert locked(shop, "attached", "table_name") == ["public.empty"]


# Places, where the group is in partitions 0 and 1, and the ids that are next; of each partition or of all, or
# the id behind which it has handled something.
HANDED: list[tuple[dict[str, Any] | None, tuple[int, int], list[int] | int]] = [
    (None, (8, 2), [60, 60]),
    (None, (4, 2), [40, 40]),
    (BY_NEXT, (11, 4), [81, 81]),
    (BY_NEXT, (11, 2), 60),
    (BY_NEXT, (1, 3), 10),
    (BY_PART, (8, 2), [70, 60]),
    (BY_PART, (1, 3), [10, 81]),
    (BY_PART, (5, 1), 40),
    (BY_PART, (4, 1), [40, 20]),
]


@pytest.mark.parametrize(("places", "offsets", "found"), HANDED)
def test_a_group_is_handed_back(
    shop: PlacedBoxes,
    places: dict[str, Any] | None,
    offsets: tuple[int, int],
    found: list[int] | int,
) -> None:
    number = note(shop, places)
    back = "select gapless.hand_back(%s, 'old')"
    shop.run(SUCCEED, number, [10, 10], False)
    assert shop.diff(back, number) == []
    assert shop.value(back, number) is None
    shop.run(SUCCEED, number, [10, 10], True)
    shop.run(
        "insert into gapless.attached_group values (%s, 'old', 'switched')", shop.numbers["twin"]
    )
    shop.run("insert into gapless.attached_group values (%s, 'h', 'switched')", number)
    shop.run("select gapless.create_group('old', 'other')")
    shop.at(p0=offsets[0], p1=offsets[1])
    if isinstance(found, int):
        assert shop.refused(back, number) == (
            "GL409",
            f'no id stands for where "old" is: it has handled events behind id {found}; try again when its lag is 0',
        )
        return
    with shop.conn.transaction(force_rollback=True):
        assert shop.value(back, number) == found
    assert shop.diff(back, number) == [
        '+ audit hand-back old outbox {"table": "public.box"}',
        "+ group public.box old ready",
        "- group public.box old switched",
    ]
    lines = [line for (line,) in shop.rows(PLACES)]
    if places == BY_NEXT:
        assert f"places4 old {found[0]}" in lines
    elif places == BY_PART:
        assert {f"places old 0 {found[0]}", f"places old 1 {found[1]}"} <= set(lines)
    assert shop.value(back, number) is None


def test_who_watches_the_old_consumer_sees_its_own_places_again(shop: PlacedBoxes) -> None:
    number = note(shop, None)
    shop.run(SUCCEED, number, [10, 10], True)
    shop.run("select gapless.show_classic('old', 'outbox')")
    shown = "select group_id from gapless.classic_group"
    assert shop.rows(shown) == [("old",)]
    shop.run("select gapless.hand_back(%s, 'old')", number)
    assert shop.rows(shown) == []


STILL = "select gapless.hold_still('g', gapless.topic_id('outbox'))"
LETTER = (
    "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
    " transaction_id, state, attempts, reason, exception, next_attempt_ts)"
    " values (%s, gapless.topic_id(%s), 0, %s, %s, 1, gen_random_uuid(), %s, 1, 'no', 'no', case %s when 'waiting' then now() end)"
)


def letter(shop: PlacedBoxes, group: str, topic: str, state: str, offset: int) -> None:
    shop.run(LETTER, group, topic, offset, offset, state, state)


def test_a_group_moves_nowhere(shop: PlacedBoxes) -> None:
    for group, topic, state in [
        ("h", "outbox", "waiting"),
        ("g", "other", "parked"),
        ("g", "outbox", "dead"),
    ]:
        letter(shop, group, topic, state, 1)
    shop.run(STILL)
    name = "concat_ws(' ', group_id, (select t.name from gapless.topic t where t.topic_id = x.topic_id), partition_id)"
    assert locked(shop, "consumer_offsets", name) == ["g outbox 0", "g outbox 1"]
    held = shop.rows(
        "select l.group_id, t.name, l.partition_id from pg_locks k join gapless.lease l on l.lease_no = k.objid::int"
        " join gapless.topic t using (topic_id)"
        " where k.locktype = 'advisory' and k.classid = 7427003 and k.pid = pg_backend_pid() order by 3"
    )
    assert held == [("g", "outbox", 0), ("g", "outbox", 1)]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["waiting"], '1 unit of "g" waits'),
        (["parked"], '1 unit of "g" waits'),
        (["waiting", "parked", "dead"], '2 units of "g" wait'),
    ],
)
def test_units_that_wait_are_in_its_way(shop: PlacedBoxes, states: list[str], said: str) -> None:
    for n, state in enumerate(states, 1):
        letter(shop, "g", "outbox", state, n)
    assert shop.refused(STILL) == (
        "GL409",
        f"{said} for another attempt: let that end first, or discard them (gapless dlq)",
    )
    shop.run("insert into gapless.attached_group values (%s, 'g', 'switched')", shop.numbers["box"])
    refused = shop.refused("select gapless.hand_back(%s, 'g')", shop.numbers["box"])
    assert refused[1].startswith(said)


@pytest.mark.parametrize(
    ("group", "topic", "partition", "is_in_its_way"),
    [
        ("g", "outbox", 0, True),
        ("g", "outbox", 1, True),
        ("h", "outbox", 1, False),
        ("g", "other", 0, False),
    ],
)
def test_a_worker_that_owns_a_partition(
    shop: PlacedBoxes, second: Connection[Any], group: str, topic: str, partition: int, is_in_its_way: bool
) -> None:  # fmt: skip
    with second.transaction(force_rollback=True):
        second.execute(
            "select pg_advisory_xact_lock(7427003, l.lease_no) from gapless.lease l join gapless.topic t using (topic_id)"
            " where l.group_id = %s and t.name = %s and l.partition_id = %s",
            [group, topic, partition],
        )
        if is_in_its_way:
            said = f'a worker still owns partition {partition} of "g"'
            assert shop.refused(STILL) == ("GL423", said)
        else:
            shop.run(STILL)
