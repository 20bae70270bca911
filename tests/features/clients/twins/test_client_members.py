"""join(), leave(), end_client(): who is a member, and what that changes in its group and nowhere else."""

import hashlib

import pytest

from support.staff import HERE, LATE, NOBODY, PLACES, STAYS, Staff, left
from support.twins import Changes

JOIN = "select member_id::text, token, expires_at from gapless.join('billing', 'orders', %s, %s)"
GROUP = "consumer_group billing orders"
OTHERS = "11111111-0000-4000-8000-000000000000"
MANY = """
with made as (
  insert into gapless.member (member_id, kind, token_digest, name, ttl, expires_at, backend_pid, sessions)
  select gen_random_uuid(), %(kind)s, case when %(kind)s = 'client' then 'x'::bytea end, 'one of many', '1 h',
    clock_timestamp() + interval '1 h', 0, 0
  from generate_series(1, %(n)s)
  returning member_id
)
insert into gapless.member_group (member_id, group_id, topic_id) select member_id, %(group)s, %(topic)s from made
"""


def join(staff: Staff, ttl: str = "30 s", name: str | None = None) -> tuple[str, str, Changes]:
    ((member_id, token, _),), changed = staff.call(JOIN, [ttl, name])
    staff.conn.execute(STAYS)  # what the test does next may take longer
    return member_id, token, changed


def test_who_joins(staff: Staff) -> None:
    """It has its share of this group; of what there was only a plan is changed."""
    member_id, token, changed = join(staff)
    row = {column: now for column, (was, now) in changed.pop(f"member {member_id}").items()}
    secret = token.removeprefix("gm_" + member_id.replace("-", "") + "_")
    assert (len(token), len(secret)) == (100, 64)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert (row["kind"], row["token_digest"]) == ("client", "\\x" + digest)
    assert (row["name"], row["ttl"], row["state"]) == (
        f"client {member_id[:8]}",
        "00:00:30",
        "active",
    )
    assert (row["backend_pid"], row["sessions"], row["beat"]) == (0, 0, 0)
    assert changed.pop(f"member_group billing orders {member_id}")["group_id"] == (None, "billing")
    planned = changed.pop(GROUP)
    assert planned["planned_for"][1] == f'["{staff.me}", "{member_id}"]'
    number = planned["generation"][1]
    lease = changed.pop("lease billing orders 2")
    assert lease["target"] == (staff.me, member_id)
    assert lease["generation"][1] == number
    assert changed == {}
    ask = "select group_id, topic_id, name from gapless.client_of(%s)"
    assert staff.rows(ask, [token]) == [("billing", staff.topic, f"client {member_id[:8]}")]


def test_a_deadline_is_the_ttl_from_now(staff: Staff) -> None:
    ((member_id, _, told),), _ = staff.call(JOIN, ["40 min", "one"])
    assert staff.twins.value(
        "select %s = expires_at and expires_at - clock_timestamp() between '39 min' and '40 min'"
        " from gapless.member where member_id = %s and name = 'one'",
        told, member_id,
    )  # fmt: skip
    assert (
        staff.twins.value("select current_setting('idle_in_transaction_session_timeout')") == "5s"
    )


@pytest.mark.parametrize(
    ("ttl", "stored"),
    [
        ("3 s", "00:00:03"), ("1 h", "01:00:00"), ("1 mon -30 days +30 s", "00:00:30"), ("2.999999 s", None),
        ("1 h 0.000001 s", None), ("0", None), ("-30 s", None), ("1 mon -30 days", None), (None, None),
    ],
)  # fmt: skip
def test_how_long_a_ttl_is(staff: Staff, ttl: str | None, stored: str | None) -> None:
    if stored is None:
        state, text = staff.twins.refused(JOIN, [ttl, None])
        assert (state, text[:32]) == ("GL400", "a ttl is from 3 s to 1 h, not " + text[30:32])
        assert text.endswith("null") is (ttl is None)
        return
    member_id, _, _ = join(staff, ttl or "")
    ask = "select ttl::text from gapless.member where member_id = %s"
    assert staff.twins.value(ask, member_id) == stored


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("é" * 100, True), (" ", True), ("a", True), ("é" * 101, False), ("", False), ("a\tb", False), ("\x7f", False),
        ("a\n", False),
    ],
)  # fmt: skip
def test_what_is_a_name(staff: Staff, name: str, is_one: bool) -> None:
    if is_one:
        member_id, _, _ = join(staff, name=name)
        ask = "select name from gapless.member where member_id = %s"
        assert staff.twins.value(ask, member_id) == name
    else:
        said = "a name of a member has 1 to 100 characters, none of them a control character"
        assert staff.twins.refused(JOIN, ["30 s", name]) == ("GL400", said)


@pytest.mark.parametrize("more", [998, 999])
def test_the_thousandth_client_is_the_last(staff: Staff, more: int) -> None:
    """Supervisors do not count, nor clients of other groups, nor of this group of another topic."""
    for place in PLACES:
        if place != HERE:
            group, topic = place
            values = {"group": group, "topic": staff.twins.topic_ids[topic]}
            staff.conn.execute(MANY, {"kind": "client", "n": 400, **values})
    values = {"group": "billing", "topic": staff.topic}
    staff.conn.execute(MANY, {"kind": "supervisor", "n": 5, **values})
    staff.conn.execute(MANY, {"kind": "client", "n": more, **values})
    ask = "select count(*) from gapless.join('billing', 'orders')"
    if more == 998:
        assert staff.twins.value(ask) == 1
    else:
        said = (
            'group "billing" has 1000 clients, of which each has to leave, or to pass its deadline'
        )
        assert staff.twins.refused(ask) == ("GL409", said)


def test_those_whose_deadline_has_passed_are_in_nobody_s_way(staff: Staff) -> None:
    """However many: who joins evicts them."""
    many = {"kind": "client", "n": 1000, "group": "billing", "topic": staff.topic}
    staff.conn.execute(MANY, many)
    staff.conn.execute(
        "update gapless.member set ttl = '1 ms', expires_at = clock_timestamp() - interval '300 ms'"
        " where name = 'one of many'"
    )
    join(staff)
    count = "select count(*) from gapless.member where name = 'one of many'"
    assert staff.twins.value(count) == 0


def test_what_no_client_can_serve_is_not_joined(staff: Staff) -> None:
    ask = "select * from gapless.join(%s, 'orders')"
    state, text = staff.twins.refused(ask, ["sender"])
    assert (state, text[:24]) == ("GL409", 'group "sender" is a queu')
    assert staff.twins.refused(ask, ["nobody"])[0] == "GL404"


@pytest.mark.parametrize("place", [HERE, ("mail", "other")])
def test_who_joins_notices_who_is_gone(staff: Staff, place: tuple[str, str]) -> None:
    staff.hire(OTHERS, place)
    staff.hire(NOBODY, place)
    staff.conn.execute(LATE, [OTHERS])
    _, _, changed = join(staff)
    left(changed, f"member {OTHERS}", f"member_group {' '.join(place)} {OTHERS}")
    reason = changed[f"eviction {OTHERS}"]["reason"][1]
    assert reason.startswith("its deadline passed: silent for ")
    assert f"member {NOBODY}" not in changed
    assert OTHERS not in str(changed.get(GROUP))


def his_units(staff: Staff) -> Changes:
    """What becomes of all that he has in hand, when he has left."""
    rows = staff.rows(
        "select first_offset, partition_id from gapless.delivery where "
        + staff.here().rsplit(" and ", 1)[0]
    )
    return {f"delivery billing orders {p} {n}": {"epoch": (1, None)} for n, p in rows}  # fmt: skip


def test_who_leaves(staff: Staff) -> None:
    """His partitions are another's at once; what else is called his, of other groups, stays so."""
    staff.hire(NOBODY)
    staff.run("update gapless.lease set owner = {me}, target = {me} where partition_id = 1")
    expected = his_units(staff)
    rows, changed = staff.call("select gapless.leave(%s) as was_one", [staff.token])
    idle = staff.twins.value("select current_setting('idle_in_transaction_session_timeout')")
    assert (rows, idle) == ([(True,)], "5s")
    staff.conn.execute(STAYS)
    left(changed, f"member {staff.me}", f"member_group billing orders {staff.me}")
    generation = changed[GROUP]["generation"]
    assert changed.pop(GROUP)["planned_for"] == (f'["{staff.me}"]', f'["{NOBODY}"]')
    for partition in range(3):
        expected[f"consumer_offsets billing orders {partition}"] = {"installed_offset": (1, None)}
        expected[f"lease billing orders {partition}"] = {
            "owner": (staff.me, None), "token": (staff.fences[partition], None),
            "target": (staff.me, NOBODY), "generation": generation,
        }  # fmt: skip
    assert changed == expected
    rows, changed = staff.call("select gapless.leave(%s) as was_one", [staff.token])
    assert (rows, changed) == ([(False,)], {})


def test_who_leaves_has_not_what_another_has(staff: Staff) -> None:
    staff.hire(NOBODY)
    staff.run("update gapless.lease set owner = {other}, target = {other} where {here}")
    _, changed = staff.call("select gapless.leave(%s)", [staff.token])
    assert not [name for name in changed if " billing orders 1 " in f"{name} "]


def test_an_error_that_is_none_of_a_member_is_not_kept_back(staff: Staff) -> None:
    """Only that it is no member any more is an answer."""
    staff.run("update gapless.lease set token = {other} where {here}")
    staff.run(
        "alter table gapless.lease add constraint all_have check (owner is not null) not valid"
    )
    assert staff.twins.refused("select gapless.leave(%s)", [staff.token])[0] == "23514"


def test_who_is_ended(staff: Staff) -> None:
    staff.hire(NOBODY)
    rows, changed = staff.call("select gapless.end_client(%s) as was_one", [staff.me])
    assert rows == [(True,)]
    left(changed, f"member {staff.me}", f"member_group billing orders {staff.me}")
    said = changed.pop(f"eviction {staff.me}")
    me = staff.twins.value("select session_user::text")
    assert (said["name"][1], said["reason"][1]) == ("billing of orders", f"ended by {me}")
    audit = changed.pop("audit end-client billing orders None")["detail"][1]
    assert audit == f'{{"member": "billing of orders", "member_id": "{staff.me}"}}'
    generation = changed[GROUP]["generation"]
    assert changed.pop(GROUP)["planned_for"] == (f'["{staff.me}"]', f'["{NOBODY}"]')
    assert changed == {
        f"lease billing orders {n}": {"target": (staff.me, NOBODY), "generation": generation}
        for n in range(3)
    }
    rows, changed = staff.call("select gapless.end_client(%s) as was_one", [staff.me])
    assert (rows, changed) == ([(False,)], {})


@pytest.mark.parametrize("who", ["a supervisor", "nobody", None])
def test_who_is_ended_by_nobody(staff: Staff, who: str | None) -> None:
    if who == "a supervisor":
        staff.hire(NOBODY)
        staff.run(
            "update gapless.member set kind = 'supervisor', token_digest = null where member_id = {other}"
        )
    rows, changed = staff.call(
        "select gapless.end_client(%s) as was_one", [None if who is None else NOBODY]
    )
    assert (rows, changed) == ([(False,)], {})
