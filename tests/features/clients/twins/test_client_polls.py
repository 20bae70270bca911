"""poll(): what a client gets of all its partitions, in which order, and what comes alone."""

from collections.abc import Iterator

import pytest
from psycopg.errors import Diagnostic

from gapless.db.connect import connect
from support.staff import NOBODY, Staff
from support.twins import Changes

POLL = "select partition_id, c_offset, first_offset, last_offset, attempt, redriven from gapless.poll(%s, %s, %s)"
LETTERS = ((1, 2), (3, 3), (4, 6))
FRESH = "delete from gapless.delivery where {group}"


def poll(
    staff: Staff, most: int = 100, partitions: list[int] | None = None
) -> tuple[list[tuple[int, int, bool]], Changes]:
    """Return the partitions and offsets that come, in order, and whether each was redriven."""
    rows, changed = staff.call(POLL, [staff.token, most, partitions])
    return [(row[0], row[1], row[5]) for row in rows], changed


def offsets(found: list[tuple[int, int, bool]], partition: int) -> list[int]:
    return [offset for each, offset, _ in found if each == partition]


@pytest.mark.parametrize("only", [None, [1], [0, 2], [], [7, 1]])
def test_what_a_poll_gives(staff: Staff, only: list[int] | None) -> None:
    """All of the partitions that are meant; of others, and elsewhere, nothing is noted."""
    staff.run(FRESH)
    found, changed = poll(staff, partitions=only)
    meant = [p for p in range(3) if only is None or p in only]
    for partition in range(3):
        upto = 9 if partition == 0 else 8
        assert offsets(found, partition) == (list(range(1, upto + 1)) if partition in meant else [])
    assert {name.rsplit(" ", 1)[0] for name in changed} == {
        f"delivery billing orders {p}" for p in meant
    }


@pytest.mark.parametrize(
    ("most", "given"),
    [(1, 2), (2, 2), (3, 3), (4, 6), (8, 8), (9, 10), (10, 10), (11, 11), (12, 14), (16, 16), (17, 18), (10000, 24)],
)  # fmt: skip
def test_how_many_a_poll_gives(staff: Staff, most: int, given: int) -> None:
    """Of one partition after the other; the last unit is whole."""
    staff.run(FRESH)
    staff.run("delete from gapless.log_segment where base_offset = 9")
    found, _ = poll(staff, most)
    assert len(found) == given
    for partition in {each for each, _, _ in found}:
        assert offsets(found, partition) == list(range(1, len(offsets(found, partition)) + 1))
    assert sorted(len(offsets(found, p)) for p in range(3))[1:] == sorted(
        [min(given, 8), max(min(given - 8, 8), 0)]
    )


@pytest.mark.parametrize("most", [0, 10001, -1, None])
def test_how_many_may_be_asked_for(staff: Staff, most: int | None) -> None:
    said = f"max_events is from 1 to 10000, not {'null' if most is None else most}"
    assert staff.twins.refused(POLL, [staff.token, most, None]) == ("GL400", said)


def test_what_is_redriven_counts(staff: Staff) -> None:
    """Three come again, so of what is new there is room for one: the unit that has it."""
    staff.letters(1, 2, staff.here())
    staff.letters(3, 3, staff.here())
    staff.run("delete from gapless.delivery where {here}")
    staff.twins.seek(4, staff.here())
    poll = "select c_offset, redriven from gapless.poll(%s, 4, array[1])"
    given = [(n, n < 4) for n in range(1, 7)]
    assert staff.rows(poll, [staff.token]) == given


def test_what_is_redriven_comes_with_what_is_new(staff: Staff) -> None:
    """Of each partition first; it is told apart."""
    staff.letters(1, 2)
    staff.twins.seek(7)
    staff.run(FRESH)
    found, changed = poll(staff, partitions=[1, 2])
    for p in (1, 2):
        mine = [(offset, redriven) for each, offset, redriven in found if each == p]
        assert mine == [(1, True), (2, True), (7, False), (8, False)]
    assert {
        name for name in changed if "orders 0" in name or not name.startswith(("del", "dead"))
    } == set()
    found, _ = poll(staff, 2, partitions=[1])
    assert found == [(1, 1, True), (1, 2, True)]


LOST = "update gapless.delivery set crashes = 1, epoch = 0 where {here} and first_offset = 1"
ONE = "delete from gapless.delivery where {group} and not ({here} and first_offset = 1)"
# What is so of the first unit of partition 1; whether it comes alone.
SUSPECTS: dict[str, tuple[list[str], bool]] = {
    "a member went away": ([LOST], True),
    "it let go": (["update gapless.delivery set crashes = 1, epoch = null where {here}"], True),
    "nobody went away": (["update gapless.delivery set crashes = 0, epoch = 0 where {here}"], False),
    "this one had it before": (["update gapless.delivery set crashes = 1, epoch = 1 where {here}"], False),
    "it is finished": ([LOST.replace("epoch = 0", "epoch = 0, finished = true")], False),
    "it is a later one": ([LOST.replace("epoch = 0", "epoch = 0, first_offset = 3, last_offset = 3")], False),
    "elsewhere": (["update gapless.delivery set crashes = 1, epoch = 0 where not ({here})"], False),
    "it is to be another's": ([LOST, "update gapless.lease set target = {other} where {here}"], False),
    "it is another's": ([LOST, ("update gapless.lease set owner = (select member_id from gapless.member"
                               " where name = 'mail of other') where {here}")], False),
}  # fmt: skip


@pytest.mark.parametrize("most", [100, 10000])
@pytest.mark.parametrize("name", SUSPECTS)
def test_who_killed_a_member_comes_alone(staff: Staff, name: str, most: int) -> None:
    """Nothing else is begun, of no partition: if this member goes away too, nothing else is to blame."""
    changes, is_alone = SUSPECTS[name]
    staff.run(ONE)
    for change in changes:
        staff.run(change)
    found, changed = poll(staff, most)
    if is_alone:
        assert found == [(1, 1, False), (1, 2, False)]
        assert set(changed) == {"delivery billing orders 1 1"}
        assert len(offsets(poll(staff)[0], 0)) == 9, "now it is this one's"
    else:
        assert len(offsets(found, 0)) == 9
        assert len(offsets(found, 2)) == 8


def test_what_another_one_has_yet_hides_no_suspect(staff: Staff) -> None:
    """Whichever is looked at first: the one that this member has comes alone."""
    staff.run(ONE)
    staff.run(LOST)
    staff.run("insert into gapless.delivery select (jsonb_populate_record(d, '{{\"partition_id\": 2}}')).*"
              " from gapless.delivery d where {here}")  # fmt: skip
    staff.run("update gapless.lease set owner = (select member_id from gapless.member where name = 'mail of other')"
              " where {group} and partition_id = 2")  # fmt: skip
    for _ in range(12):
        with staff.conn.transaction(force_rollback=True):
            assert poll(staff)[0] == [(1, 1, False), (1, 2, False)]


@pytest.mark.parametrize("only", [[0, 2], [0, 1, 2]])
def test_one_that_is_left_out_is_in_nobody_s_way(staff: Staff, only: list[int]) -> None:
    staff.run(ONE)
    staff.run(LOST)
    found, _ = poll(staff, partitions=only)
    assert {each for each, _, _ in found} == ({1} if 1 in only else {0, 2})


LETTER = "update gapless.dead_letter set crashes = 1, epoch = 0 where {here}"
LETTER_SUSPECTS: dict[str, tuple[list[str], bool]] = {
    "a member went away": ([LETTER], True),
    "it let go": (["update gapless.dead_letter set crashes = 1, epoch = null where {here}"], True),
    "nobody went away": (["update gapless.dead_letter set epoch = 0 where {here}"], False),
    "this one had it before": (["update gapless.dead_letter set crashes = 1, epoch = 1 where {here}"], False),
    "it is not due": ([LETTER + " and first_offset = 1", ("update gapless.dead_letter set next_attempt_ts = '2199-01-01'"
                      " where {here}")], False),
    "it is the second": ([LETTER + " and first_offset = 3"], False),
    "elsewhere": (["update gapless.dead_letter set crashes = 1, epoch = 0 where not ({here})"], False),
    "the letter counts, not the unit": ([LOST], False),
}  # fmt: skip


@pytest.mark.parametrize("name", LETTER_SUSPECTS)
def test_a_letter_that_killed_a_member_comes_alone(staff: Staff, name: str) -> None:
    changes, is_alone = LETTER_SUSPECTS[name]
    for first, last in LETTERS[:2]:
        staff.letters(first, last, f"{staff.here()}")
    ((names,),) = staff.conn.execute(
        "select string_agg(attname, ', n.') from pg_attribute"
        " where attrelid = 'gapless.dead_letter'::regclass and attnum > 0 and attgenerated = ''"
    ).fetchall()
    staff.run(f"insert into gapless.dead_letter ({names.replace('n.', '')}) select n.{names} from gapless.dead_letter d,"
              " gapless.consumer_group o, jsonb_populate_record(d, jsonb_build_object("
              "'group_id', o.group_id, 'topic_id', o.topic_id)) n"
              " where o.mode = 'ordered' and (o.group_id, o.topic_id) <> ('billing', {topic})")  # fmt: skip
    staff.run(ONE if LOST in changes else FRESH)
    for change in changes:
        staff.run(change)
    found, changed = poll(staff)
    if is_alone:
        assert found == [(1, 1, True), (1, 2, True)]
        assert set(changed) == {"dead_letter billing orders 1 1"}
    else:
        assert len(offsets(found, 0)) == 9
        assert len(offsets(found, 2)) == 8


def test_how_often_a_unit_may_kill_is_the_group_s(staff: Staff) -> None:
    staff.run(ONE)
    staff.run("update gapless.consumer_group set max_crashes = case when {group} then 2 else 9 end")
    staff.run(LOST.replace("crashes = 1", "crashes = 2"))
    found, changed = poll(staff)
    assert changed["dead_letter billing orders 1 1"]["state"] == (None, "dead")
    assert found == [(1, 3, False)], "the next one is alone"


@pytest.mark.parametrize(
    ("polled", "is_noted"),
    [("2 min 50 s", False), ("3 min 10 s", True), ("1 d", True), (None, True)],
)
def test_when_it_polled_is_noted(staff: Staff, polled: str | None, is_noted: bool) -> None:
    """To a twentieth of its time: that of its own."""
    staff.run("update gapless.member set polled_ts = clock_timestamp() - %s::interval", [polled])
    _, changed = poll(staff, partitions=[])
    assert changed == ({f"member {staff.me}": {}} if is_noted else {})


def test_a_poll_renews_and_takes(staff: Staff) -> None:
    staff.run("update gapless.member set expires_at = expires_at - interval '30 min'")
    staff.run("update gapless.lease set owner = null, token = null where {here}")
    found, changed = poll(staff, partitions=[1])
    assert offsets(found, 1) == [1, 2]
    assert changed[f"member {staff.me}"] == {"beat": (0, 1)}
    assert changed["lease billing orders 1"]["epoch"] == (1, 2)
    assert len([name for name in changed if name.startswith("member")]) == 1


def test_who_has_what_in_hand_lets_go_of_what_is_not_left_out(staff: Staff) -> None:
    staff.run("update gapless.lease set target = {other} where {group}")
    found, changed = poll(staff, partitions=[0, 1])
    assert found == []
    assert {name for name in changed if name.startswith("lease")} == {
        "lease billing orders 0", "lease billing orders 1",
    }  # fmt: skip


@pytest.fixture
def notices(staff: Staff) -> Iterator[list[str]]:
    said: list[str] = []

    def note(diagnostic: Diagnostic) -> None:
        if not (diagnostic.message_primary or "").endswith(", skipping"):
            said.append(diagnostic.message_primary or "")

    staff.conn.add_notice_handler(note)
    yield said
    staff.conn.remove_notice_handler(note)


# Where there is an error, and who the target is; what is said.
NOTICES: dict[str, tuple[dict[int, str], str, list[str]]] = {
    "none": ({}, "{me}", []),
    "one": ({2: "bad"}, "{me}", ["partition 2: bad"]),
    "two": ({2: "worse", 1: "bad"}, "{me}", ["partition 1: bad"]),
    "another's": ({1: "bad"}, "{other}", []),
}


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("name", NOTICES)
def test_why_a_poll_gives_nothing(
    staff: Staff, notices: list[str], name: str, is_empty: bool
) -> None:
    """Elsewhere, and of others, there are errors too; one that gives something says nothing."""
    errors, target, said = NOTICES[name]
    staff.run("update gapless.lease set error = 'elsewhere', target = {me} where not ({group})")
    for partition, error in errors.items():
        staff.run(
            f"update gapless.lease set error = %s, target = {target} where {{group}} and partition_id = %s",
            [error, partition],
        )
    found, _ = poll(staff, partitions=[] if is_empty else [0])
    assert bool(found) is not is_empty
    assert notices == (said if is_empty else [])


def test_a_place_that_somebody_has_locked_is_passed(staff: Staff, module_dsn: str) -> None:
    """A seek has it: the others come."""
    staff.conn.execute("set local lock_timeout = '200 ms'")
    staff.run(FRESH)
    staff.run(
        "update gapless.consumer_offsets set token = %s where not ({here})", [staff.fences[1]]
    )
    staff.run("update gapless.lease set token = %s where not ({here})", [staff.fences[1]])
    with connect(module_dsn, role="test") as other, other.transaction(force_rollback=True):
        other.execute(
            f"select from gapless.consumer_offsets where {staff.here()} for update".encode()
        )
        assert {each for each, _, _ in poll(staff)[0]} == {0, 2}
    assert {each for each, _, _ in poll(staff, partitions=[1])[0]} == {1}
    assert NOBODY not in staff.fences
