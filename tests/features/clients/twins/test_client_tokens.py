"""Whose a token is, and what it stands for: one member of one group, and the leases that it holds now."""

from datetime import timedelta

import psycopg
import pytest

from gapless.db.connect import connect
from support.staff import HERE, NOBODY, PLACES, STAYS, Staff
from support.twins import Twins

IDLE = "current_setting('idle_in_transaction_session_timeout')"
CLIENT = (
    "select member_id::text, name, group_id, topic_id, expires_at, ttl from gapless.client_of(%s)"
)
LEASE = (
    "select epoch, token::text, next_offset, is_going"
    " from gapless.client_lease({me}, 'billing', {topic}, {partition})"
)
HIS_LEASES = "update gapless.lease set owner = {me}, token = '00000000-0000-4000-8000-000000000001', epoch = 7"
HIS_FENCES = (
    "update gapless.consumer_offsets set token = '00000000-0000-4000-8000-000000000001', epoch = 7"
)


@pytest.mark.parametrize("place", PLACES)
def test_a_token_is_of_one_client(staff: Staff, place: tuple[str, str]) -> None:
    group, topic = place
    staff.conn.execute(
        "update gapless.member set expires_at = clock_timestamp() + interval '1 min' where member_id = %s",
        [staff.ids[place]],
    )
    deadline = staff.twins.value(
        "select expires_at from gapless.member where member_id = %s", staff.ids[place]
    )
    rows, changed = staff.call(CLIENT, [staff.tokens[place]])
    hour = timedelta(hours=1)
    topic_id = staff.twins.topic_ids[topic]
    assert rows == [(staff.ids[place], f"{group} of {topic}", group, topic_id, deadline, hour)]
    assert changed == {}
    assert staff.twins.value(f"select {IDLE}") == "1h", "it keeps others from the row no longer"


def tokens(staff: Staff) -> dict[str, str | None]:
    good, beside = staff.token, staff.tokens["mail", "orders"]
    return {
        "none": None,
        "empty": "",
        "its id alone": good[:36],
        "the secret of another": good[:36] + beside[36:],
        "the secret of nobody": good[:-1] + ("0" if good[-1] != "0" else "1"),
        "in capitals": good.upper(),
        "longer": good + "0",
        "with something before it": "x" + good,
        "of another kind": "gx" + good[2:],
        "no member's": "gm_" + NOBODY.replace("-", "") + good[35:],
    }


@pytest.mark.parametrize("name", [
    "none", "empty", "its id alone", "the secret of another", "the secret of nobody", "in capitals", "longer",
    "with something before it", "of another kind", "no member's",
])  # fmt: skip
def test_what_is_no_token(staff: Staff, name: str) -> None:
    said = (
        "no member has this token (any more): its deadline has passed, or it has left; join again"
    )
    assert staff.twins.refused(CLIENT, [tokens(staff)[name]]) == ("GL006", said)


def test_of_one_that_is_too_late(staff: Staff) -> None:
    late = (
        "update gapless.member set ttl = '1 ms', expires_at = clock_timestamp() - interval '300 ms'"
    )
    staff.run(late + " where member_id = {me}")
    state, text = staff.twins.refused(CLIENT, [staff.token])
    assert (state, text[:57]) == (
        "GL006",
        'member "billing of orders" came too late: its deadline wa',
    )
    assert text.endswith(" s ago; join again")
    assert 0.3 <= float(text.split("deadline was ")[1].split(" s ago")[0]) < 60
    for place in PLACES[:-1]:
        if place != HERE:
            assert staff.rows(CLIENT, [staff.tokens[place]])


def test_of_one_whose_group_was_dropped(staff: Staff) -> None:
    staff.run("delete from gapless.member_group where member_id = {me}")
    said = 'the group of member "billing of orders" was dropped'
    assert staff.twins.refused(CLIENT, [staff.token]) == ("GL006", said)
    assert staff.rows(CLIENT, [staff.tokens["mail", "orders"]])


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_in_a_transaction_that_does_not_see_what_is_true_now(
    staff: Staff, module_dsn: str, isolation: str
) -> None:
    with connect(module_dsn, role="test") as other:
        for what in ("client_of('x')", "end_client(gen_random_uuid())"):
            with pytest.raises(psycopg.Error) as caught, other.transaction():
                other.execute(f"set transaction isolation level {isolation}")
                other.execute(f"select gapless.{what}")
            assert caught.value.sqlstate == "25000"
            assert f", not {isolation.upper()}: " in str(caught.value)


def test_who_works_with_a_token_is_taken_for_gone_by_nobody(
    employed: Staff, module_dsn: str
) -> None:
    """Its row is locked, and its fence: nobody waits, and other rows are free."""
    locked = "update gapless.member set name = name where member_id = %s"
    place = "update gapless.consumer_offsets set epoch = epoch where "
    lease = LEASE.format(me=f"'{employed.me}'", topic=employed.topic, partition=1)
    with (
        connect(module_dsn, role="test") as one, connect(module_dsn, role="test") as other,
        one.transaction(force_rollback=True),
    ):  # fmt: skip
        other.execute("set lock_timeout = '20 ms'")
        one.execute(CLIENT, [employed.token])
        one.execute(lease)
        one.execute(STAYS)
        for text in (f"update gapless.member set name = name where member_id = '{employed.me}'",
                     place + employed.here()):  # fmt: skip
            with pytest.raises(psycopg.errors.LockNotAvailable), other.transaction():
                other.execute(text)
        with other.transaction(force_rollback=True):
            other.execute(locked, [employed.ids["mail", "orders"]])
            other.execute(f"{place} not ({employed.here()})")


def ask_lease(staff: Staff, partition: int = 1) -> str:
    return LEASE.format(me=f"'{staff.me}'", topic=staff.topic, partition=partition)


@pytest.mark.parametrize(
    ("target", "is_going"), [("{me}", False), ("{other}", True), ("null", True)]
)
def test_a_lease_that_a_client_holds(staff: Staff, target: str, is_going: bool) -> None:
    """It is one of many that are alike; only the place is another."""
    staff.run(HIS_LEASES)
    staff.run(HIS_FENCES + ", next_offset = 3")
    staff.run(
        "update gapless.consumer_offsets set next_offset = 7, token = {other}, epoch = 9 where {here}"
    )
    staff.run("update gapless.lease set token = {other}, epoch = 9 where {here}")
    staff.run(f"update gapless.lease set target = {target} where {{here}}")
    rows, changed = staff.call(ask_lease(staff))
    assert rows == [(9, NOBODY, 7, is_going)]
    assert changed == {}


NOT_HELD = {
    "nobody's": "update gapless.lease set owner = null where {here}",
    "another's": "update gapless.lease set owner = {other} where {here}",
    "of a later owner": "update gapless.lease set token = {other} where {here}",
    "of an epoch before": "update gapless.lease set epoch = 8 where {here}",
    "of an epoch later": "update gapless.lease set epoch = 6 where {here}",
    "a seek has it": "update gapless.consumer_offsets set token = null where {here}",
    "fenced": "update gapless.consumer_offsets set epoch = 8 where {here}",
    "without a place": "delete from gapless.consumer_offsets where {here}",
    "without a lease": "delete from gapless.lease where {here}",
}


@pytest.mark.parametrize("name", NOT_HELD)
def test_a_lease_that_it_does_not_hold(staff: Staff, name: str) -> None:
    """Though it holds all others there are."""
    staff.run(HIS_LEASES)
    staff.run(HIS_FENCES)
    staff.run(NOT_HELD[name])
    said = 'partition 1 of group "billing" is not (any more) this member\'s: nothing was changed; poll again'
    assert staff.twins.refused(ask_lease(staff)) == ("GL007", said)
    assert staff.rows(ask_lease(staff, 2))


@pytest.mark.parametrize(
    ("spelled", "group", "refused"),
    [
        ("{0}", "billing", False), ("{0}", "mail", True), ("{0}", "nobody", True), ("{1}", "billing", True),
        ("", "billing", True), ("none", "billing", True),
    ],
)  # fmt: skip
def test_a_token_that_was_told_with_a_group_and_a_member(
    staff: Staff, spelled: str, group: str, refused: bool
) -> None:
    told = spelled.format(staff.me, staff.ids["billing", "other"])
    member = None if spelled == "none" else told
    ask = "select gapless.token_in(%s, %s, %s)"
    params = [staff.token, group, member]
    if refused:
        said = f'the token is not of a member of group "{group}" that has this id'
        assert staff.twins.refused(ask, params) == ("GL404", said)
        return
    for each in (told, told.upper(), told.replace("-", "")):
        assert staff.twins.value(ask, staff.token, group, each) == staff.token
    staff.run("delete from gapless.member where member_id = {me}")
    assert staff.twins.value(ask, staff.token, "mail", told) == staff.token, (
        "nothing is known of it"
    )


# What is in hand, when all is everywhere else: unit 1 of the partition, and a letter at 3.
IN_HAND = {
    "a unit": ("delete from gapless.delivery where {here} and first_offset > 1", True),
    "nothing": ("delete from gapless.delivery where {here}", False),
    "what is finished": ("update gapless.delivery set finished = true where {here}", False),
    "of an owner before": ("update gapless.delivery set epoch = 0 where {here}", False),
    "of an owner later": ("update gapless.delivery set epoch = 2 where {here}", False),
    "of nobody": ("update gapless.delivery set epoch = null where {here}", False),
}
LETTERS_IN_HAND = {
    "a letter": ("update gapless.dead_letter set epoch = 1 where {here}", True),
    "a letter of nobody": ("update gapless.dead_letter set epoch = null where {here}", False),
    "a letter of an owner before": ("update gapless.dead_letter set epoch = 0 where {here}", False),
    "no letter": ("delete from gapless.dead_letter where {here}", False),
    "a dead one": (
        "update gapless.dead_letter set state = 'dead', next_attempt_ts = null where {here}", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*IN_HAND, *LETTERS_IN_HAND])
def test_what_is_in_hand(staff: Staff, name: str) -> None:
    """Of this owner of this partition; all other partitions are full of it."""
    if name in IN_HAND:
        change, expected = IN_HAND[name]
    else:
        change, expected = LETTERS_IN_HAND[name]
        staff.letters(3, 3, epoch=1)
        staff.run("delete from gapless.delivery where {here}")
    staff.run(change)
    ask = "select gapless.has_delivered('billing', %s, 1, 1)"
    assert staff.twins.value(ask, staff.topic) is expected


UP = (
    "select greatest(pg_postmaster_start_time(), max(backend_start)), pg_postmaster_start_time()"
    " from pg_stat_activity where backend_type = 'walwriter'"
)
# The deadline, and the ttl, where the server is up since %(up)s.
OVERDUE = {
    "it is to come": ("clock_timestamp() + interval '1 min'", "interval '1 ms'", False),
    "it is to come, and the server began just now": (
        "clock_timestamp() + interval '1 min'", "clock_timestamp() - %(up)s + interval '1 h'", False,
    ),
    "it has passed": ("clock_timestamp() - interval '1 ms'", "interval '0'", True),
    "the server began since": (
        "clock_timestamp() - interval '1 ms'", "clock_timestamp() - %(up)s + interval '1 h'", False,
    ),
    "and has been up for as long": (
        "%(up)s + (clock_timestamp() - %(up)s) * 0.4", "(clock_timestamp() - %(up)s) * 0.8", True,
    ),
    "it was renewed between the start and the writer's": (
        "clock_timestamp() - (%(up)s - %(begun)s) / 4",
        "clock_timestamp() - %(up)s + (%(up)s - %(begun)s) / 4", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OVERDUE)
def test_whether_a_deadline_has_passed(twins: Twins, name: str) -> None:
    """Who could not renew it, because the server was not there, gets its time once more."""
    deadline, ttl, expected = OVERDUE[name]
    ((up, begun),) = twins.conn.execute(UP).fetchall()
    ask = f"select gapless.is_overdue(({deadline})::timestamptz, ({ttl})::interval)"
    ((found,),) = twins.conn.execute(ask, {"up": up, "begun": begun}).fetchall()
    if name == "and has been up for as long":  # it has 5 s at least
        expected = twins.value("select clock_timestamp() - %s > interval '5 s'", up)
    assert found is expected


@pytest.mark.parametrize(
    ("allowed", "at_most", "then"),
    [
        ("0", "5 s", "5s"), ("4s", "5 s", "4s"), ("5s", "5 s", "5s"), ("6s", "5 s", "5s"),
        ("5001ms", "5 s", "5s"), ("0", "1.5 s", "1500ms"), ("2h", "1 h", "1h"), ("1ms", "1 h", "1ms"),
    ],
)  # fmt: skip
def test_for_how_long_a_transaction_may_be_idle(
    twins: Twins, module_dsn: str, allowed: str, at_most: str, then: str
) -> None:
    with connect(module_dsn, role="test") as other:
        other.execute(f"set idle_in_transaction_session_timeout = '{allowed}'")
        ask = f"select gapless.bound_idle('{at_most}')::text, {IDLE}"
        other.execute("select gapless.bound_idle('1 h')")
        assert other.execute(f"select {IDLE}").fetchall() == [(allowed,)], "for the transaction"
        assert other.execute(ask).fetchall() == [("", then)]
