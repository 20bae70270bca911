"""Members join and leave, and say that they are there: each writes its own rows."""

from lease.twins.members import ME, NOW, OVER, SUSPECT, THIRD, TTL, YOU, row
from support.twins import Twins


def test_a_heartbeat(twins: Twins) -> None:
    for member, number in ((ME, 9004), (YOU, 9002)):
        twins.conn.execute(row(member, number, **SUSPECT, expires=OVER))
    changed = twins.changes(f"select gapless.beat('{ME}')")
    assert list(changed) == [f"member {ME}"]
    assert changed[f"member {ME}"]["beat"] == (3, 4)
    query = f"select suspect_at, backend_pid, expires_at - {NOW} between '1 s' and {TTL} from gapless.member where beat = 4"
    assert twins.conn.execute(query).fetchall() == [(None, twins.conn.info.backend_pid, True)]
    assert twins.value(f"select gapless.beat('{ME}')") is True
    assert twins.changes(f"select gapless.beat('{THIRD}')") == {}
    assert twins.value(f"select gapless.beat('{THIRD}')") is False


def test_joining_and_leaving(twins: Twins) -> None:
    """Two members do the same: each call is of one, and of one group."""
    ids = twins.topic_ids
    groups = "'{billing,mail}', '{orders,other}'"
    twins.conn.execute(f"select gapless.join_group('{YOU}', 9002, 'you', 5, '10 s', {groups})")
    changed = twins.changes(
        f"select gapless.join_groups('{ME}', 9004, 'me', null, 2, '10 s', {groups}, 3)"
    )
    assert set(changed) == {
        f"member {ME}", f"member_group billing orders {ME}", f"member_group mail other {ME}",
    }  # fmt: skip
    query = (
        "select name, member_no, capacity, partitions_per_worker, sessions, state, kind, backend_pid = pg_backend_pid(),"
        f" expires_at - {NOW} between '1 s' and '10 s' from gapless.member where member_no < 9100 order by 1"
    )
    assert twins.conn.execute(query).fetchall() == [
        ("me", 9004, None, 2, 3, "active", "supervisor", True, True),
        ("you", 9002, 5, 1, 2, "active", "supervisor", True, True),
    ]
    enter = "gapless.enter_group('{}', '{}', {})"
    changed = twins.changes(f"select {enter.format(ME, 'mail', ids['orders'])}")
    assert list(changed) == [f"member_group mail orders {ME}"]
    for arguments in (
        (ME, "mail", ids["orders"]),
        (ME, "nobody", ids["orders"]),
        (ME, "mail", 0),
        (THIRD, "mail", ids["other"]),
    ):
        assert twins.value(f"select {enter.format(*arguments)}") is False
    assert twins.value(f"select {enter.format(YOU, 'mail', ids['orders'])}") is True
    live = "select gapless.live_members('mail', %s)::text[]"
    assert twins.value(live, ids["orders"]) == [YOU, ME]
    changed = twins.changes(f"select gapless.drain_member('{YOU}')")
    assert changed == {f"member {YOU}": {"state": ("active", "draining")}}
    assert twins.value(live, ids["orders"]) == [ME]
    assert twins.value("select gapless.live_members('billing', %s)::text[]", ids["other"]) == []
    changed = twins.changes(f"select gapless.quit_group('{ME}', 'mail', {ids['orders']})")
    assert list(changed) == [f"member_group mail orders {ME}"]
    changed = twins.changes(f"select gapless.leave_group('{ME}')")
    assert set(changed) == {
        f"member {ME}", f"member_group billing orders {ME}", f"member_group mail other {ME}",
    }  # fmt: skip
    assert twins.value("select gapless.next_member_no() < gapless.next_member_no()") is True
