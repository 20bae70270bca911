"""commit(), end_client_turn(), release_client_lease(): what a client ends is of its units in hand, and no row beside them."""

from typing import Any

import pytest

from support.staff import NOBODY, Staff, gone, put_back
from support.twins import Changes

COMMIT = "select gapless.commit(%s, 1, %s) as moved"
REDRIVEN = "select gapless.commit_redriven(%s, 1, %s)::text as done"
REJECT = "select gapless.reject_unit(%s, 1, %s, %s)::text as done"
PLACE = "consumer_offsets billing orders 1"
LEASE = "lease billing orders 1"
UNITS = (1, 3, 4, 7, 8)
OF_HIS = " where {here} and first_offset = 3"
# What is so beforehand, up to where it is committed, which units are in hand no more.
COMMITS: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "a unit": ("", 3, (1,)),
    "two units": ("", 4, (1, 3)),
    "a segment and more": ("", 7, (1, 3, 4)),
    "all": ("", 9, UNITS),
    "one that a worker had finished": (
        f"update gapless.delivery set finished = true, epoch = null{OF_HIS}", 4, (1, 3),
    ),
    "elsewhere nothing is in hand": ("delete from gapless.delivery where not ({here})", 7, (1, 3, 4)),
    "elsewhere others have it": ("update gapless.delivery set epoch = 5 where not ({here})", 9, UNITS),
}  # fmt: skip
NOT_GIVEN = (
    "partition 1 cannot be moved from offset {} to {}: poll has not handed out all in between to this member,"
    " in whole units"
)
BACK = "partition 1 is at offset {} already: a commit moves it forward only"
REFUSED: list[tuple[str, int | None, str]] = [
    *(("", at, NOT_GIVEN) for at in (2, 5, 6, 8 + 2, 100, None)),
    ("", 0, BACK), ("", -5, BACK),
    *((f"delete from gapless.delivery{OF_HIS}", at, NOT_GIVEN) for at in (4, 7, 9)),
    (f"update gapless.delivery set epoch = 0{OF_HIS}", 4, NOT_GIVEN),
    (f"update gapless.delivery set epoch = null{OF_HIS}", 9, NOT_GIVEN),
    ("delete from gapless.delivery where {here} and first_offset = 1", 4, NOT_GIVEN),
    ("delete from gapless.delivery where {here}", 3, NOT_GIVEN),
]  # fmt: skip


@pytest.mark.parametrize("name", COMMITS)
def test_what_is_committed(staff: Staff, name: str) -> None:
    change, upto, ended = COMMITS[name]
    staff.run(change or "select 1")
    rows, changed = staff.call(COMMIT, [staff.token, upto])
    assert rows == [(True,)]
    assert gone(changed, "delivery") == set(ended)
    assert changed == {PLACE: {"next_offset": (1, upto)}}
    rows, changed = staff.call(COMMIT, [staff.token, upto])
    assert (rows, changed) == ([(False,)], {}), "said again"


@pytest.mark.parametrize(("change", "upto", "said"), REFUSED)
def test_what_is_not_committed(staff: Staff, change: str, upto: int | None, said: str) -> None:
    staff.run(change or "select 1")
    text = said.format(1, "null" if upto is None else upto)
    assert staff.twins.refused(COMMIT, [staff.token, upto]) == ("GL409", text)


def test_a_commit_begins_where_the_group_is(staff: Staff) -> None:
    """Units before that are no part of it, are not asked for, and are left alone."""
    staff.twins.seek(3, staff.here())
    assert staff.twins.refused(COMMIT, [staff.token, 1]) == ("GL409", BACK.format(3))
    assert staff.twins.refused(COMMIT, [staff.token, 6]) == ("GL409", NOT_GIVEN.format(3, 6))
    rows, changed = staff.call(COMMIT, [staff.token, 4])
    assert rows == [(True,)]
    assert gone(changed, "delivery") == {3}
    assert changed == {PLACE: {"next_offset": (3, 4)}}


@pytest.mark.parametrize("partition", [-1, 3, None])
def test_a_commit_where_it_holds_nothing(staff: Staff, partition: int | None) -> None:
    statement = "select gapless.commit(%s, %s, 3)"
    assert staff.twins.refused(statement, [staff.token, partition])[0] == "GL007"


# Whether the partition is to be another's, what is in hand, how much of the hour has passed; what becomes of it.
TURNS: dict[str, tuple[bool, bool, str, bool, bool]] = {
    "it stays": (False, False, "0", False, False),
    "it stays, in hand": (False, True, "2 min 50 s", False, False),
    "it stays, and time has passed": (False, True, "3 min 10 s", False, True),
    "it goes, in hand": (True, True, "3 min 10 s", False, True),
    "it goes": (True, False, "2 min 50 s", True, False),
    "it goes, and time has passed": (True, False, "50 min", True, True),
    "it is its last moment": (False, True, "59 min 55 s", False, True),
}


@pytest.mark.parametrize("name", TURNS)
def test_the_end_of_a_turn(staff: Staff, name: str) -> None:
    is_going, in_hand, passed, is_let_go, is_renewed = TURNS[name]
    staff.conn.execute(f"update gapless.member set expires_at = expires_at - interval '{passed}'")
    if not in_hand:
        staff.run("delete from gapless.delivery where {here}")
    token = staff.fences[1]
    _, changed = staff.call(
        "select gapless.end_client_turn(m.member_id, 'billing', %s, m.expires_at, m.ttl, 1, 1, %s, %s)::text as done"
        " from gapless.member m where m.member_id = %s",
        [staff.topic, token, is_going, staff.me],
    )
    expected: Changes = {}
    if is_let_go:
        expected[PLACE] = {"installed_offset": (1, None)}
        expected[LEASE] = {"owner": (staff.me, None), "token": (token, None)}
    if is_renewed:
        expected[f"member {staff.me}"] = {"beat": (0, 1)}
        assert staff.twins.value(
            "select expires_at - clock_timestamp() between '59 min' and ttl from gapless.member where member_id = %s",
            staff.me,
        )
    assert changed == expected


@pytest.mark.parametrize("what", ["commit", "redriven", "reject"])
def test_what_ends_lets_go_and_renews(staff: Staff, what: str) -> None:
    """The last unit in hand of a partition that is to be another's."""
    staff.run("update gapless.delivery set finished = true where {here} and first_offset > 1")
    staff.conn.execute("update gapless.member set expires_at = expires_at - interval '30 min'")
    staff.conn.execute("update gapless.lease set target = %s", [NOBODY])
    if what == "redriven":
        staff.letters(3, 3, epoch=1)
        staff.run("delete from gapless.delivery where {here}")
    statement, params = {
        "commit": (COMMIT, [staff.token, 3]),
        "redriven": (REDRIVEN, [staff.token, 3]),
        "reject": (REJECT, [staff.token, 1, "bad"]),
    }[what]
    _, changed = staff.call(statement, params)
    assert changed[LEASE] == {"owner": (staff.me, None), "token": (staff.fences[1], None)}
    assert changed[PLACE]["installed_offset"] == (1, None)
    assert changed[f"member {staff.me}"] == {"beat": (0, 1)}
    tables = {"delivery", "dead_letter", "dead_letter_event", "guard_keys", "lease", "member"}
    assert {name.split()[0] for name in changed} <= tables | {"consumer_offsets"}
    assert all(f"{name} ".startswith((f"member {staff.me}", "guard_keys")) or " billing orders 1 " in f"{name} "
               for name in changed)  # fmt: skip


def test_a_partition_is_let_go_of(staff: Staff) -> None:
    """What was in hand is to blame for nothing; what is finished, or another's, is as it was."""
    for first, change in {
        1: "crashes = 0", 3: "crashes = 1", 4: "crashes = 2", 7: "crashes = 2, finished = true", 8: "crashes = 2, epoch = 2",
    }.items():  # fmt: skip
        staff.conn.execute(f"update gapless.delivery set {change} where first_offset = {first}")
    states: dict[int, dict[str, Any]] = {
        1: {"crashes": 2, "epoch": 1}, 3: {"crashes": 2, "epoch": 2},
        4: {"crashes": 2, "epoch": 1, "next_attempt_ts": None, "state": "dead"}, 7: {"crashes": 0, "epoch": 1},
    }  # fmt: skip
    for first, values in states.items():
        staff.letters(first, first)
        sets = ", ".join(f"{column} = %s" for column in values)
        staff.conn.execute(
            f"update gapless.dead_letter set {sets} where first_offset = {first}".encode(),
            list(values.values()),
        )
    letgo = "select gapless.release_client_lease('billing', %s, 1, 1, %s) as is_owner"
    rows, changed = staff.call(letgo, [staff.topic, staff.fences[1]])
    assert rows == [(True,)]
    begin = "billing orders 1 "
    assert changed == {
        f"delivery {begin}1": {"epoch": (1, None)},
        f"delivery {begin}3": {"epoch": (1, None), "crashes": (1, 0)},
        f"delivery {begin}4": {"epoch": (1, None), "crashes": (2, 1)},
        f"dead_letter {begin}1": {"epoch": (1, None), "crashes": (2, 1)},
        f"dead_letter {begin}7": {"epoch": (1, None)},
        PLACE: {"installed_offset": (1, None)},
        LEASE: {"owner": (staff.me, None), "token": (staff.fences[1], None)},
    }
    rows, changed = staff.call(letgo, [staff.topic, staff.fences[1]])
    assert (rows, changed) == ([(False,)], {})


def test_who_waits_for_a_partition_is_told(employed: Staff, module_dsn: str) -> None:
    """Those of this partition."""
    letgo = "select gapless.release_client_lease('billing', %s, 1, 1, %s)"
    channels = [f"gapless_p_{employed.topic}_{partition}" for partition in range(3)]
    with put_back(module_dsn, "lease", "consumer_offsets", "delivery") as one:
        for channel in channels:
            one.execute(f"listen {channel}".encode())
        assert one.execute(letgo, [employed.topic, employed.fences[1]]).fetchall() == [(True,)]
        assert [each.channel for each in one.notifies(timeout=0)] == [channels[1]]
