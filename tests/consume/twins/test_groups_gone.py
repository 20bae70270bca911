"""Groups that go: what goes with them and what stays of others, who keeps them, and when they expire."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gapless.db.connect import connect
from support.twins import GROUPS, QUEUES, Twins

DROP = "create temp table n on commit drop as select gapless.drop_group('{}') as n"
# Everything a group may have; the conditions of subscriptions are of two texts, of which all have the first.
FULL = """
select gapless.subscribe(g, t, 'a', sql_condition => 'e.key is not null')
from unnest('{billing,mail}'::text[]) g, unnest('{other,orders}'::text[]) t;
select gapless.subscribe(g, 'orders', g, sql_condition => format('e.key <> %L', g))
from unnest('{billing,mail}'::text[]) g;
select gapless.subscribe(g, 'other', 'j', condition => '$.n > 1') from unnest('{billing,mail}'::text[]) g;
insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)
select subscription_id, 1, 3, 'raised' from gapless.subscription;
insert into gapless.filter_tally (group_id, topic_id, partition_id, filter_no, kept, passed, unasked)
select group_id, topic_id, partition_id, filter_no, 1, 1, 1 from gapless.consumer_offsets;
insert into gapless.delivery (group_id, topic_id, partition_id, first_offset, last_offset, attempts)
select group_id, topic_id, partition_id, 4, 4, 1 from gapless.consumer_offsets;
select gapless.set_aside(s.group_id, s.topic_id, s.partition_id, n, array[(
  select m.message_ids[n] from gapless.log_segment m
  where m.topic_id = s.topic_id and m.partition_id = s.partition_id and m.base_offset = 1)],
  'dead', 'why', 'trace', _parks => true)
from gapless.consumer_offsets s, generate_series(1, 2) n;
insert into gapless.group_pause (group_id, topic_id, partition_id)
select group_id, topic_id, 1 from gapless.consumer_group;
insert into gapless.classic_group (group_id, topic_id, view_name) select group_id, topic_id, 'v' from gapless.consumer_group;
insert into gapless.group_expiry (group_id, expires_after) select distinct group_id, '1 day'::interval from gapless.consumer_group;
insert into gapless.queue_range (first_offset, last_offset, lease_no, tries)
select 3, 4, l.lease_no, 0 from gapless.lease l;
select gapless.record_history(72);
delete from gapless.audit;
"""
HAVING = """
select c.relname::text from pg_class c
where c.relnamespace = 'gapless'::regnamespace and c.relkind = 'r' and not c.relispartition
  and c.relname <> 'audit' and exists (
    select from pg_attribute a where a.attrelid = c.oid and a.attname = 'group_id' and not a.attisdropped)
"""
ELSEWHERE = {"attached_group"}  # it goes with its attachment
MEMBER = (
    "with m as (insert into gapless.member (member_id, name, ttl, expires_at, backend_pid, kind, token_digest)"
    " values (gen_random_uuid(), 'm', '1 ms', {until}, 0, '{kind}', {digest}) returning member_id)"
    " insert into gapless.member_group (member_id, group_id, topic_id) select m.member_id, g.group_id, g.topic_id"
    " from m, gapless.consumer_group g where g.group_id = '{group}' and g.topic_id in ({topics})"
)
LATER, PAST = "'infinity'", "clock_timestamp() - interval '1 ms'"


def join(twins: Twins, group: str, kind: str, until: str = LATER) -> None:
    """Let somebody work for the group: a supervisor in both topics, a client in one."""
    is_client = kind == "client"
    ids = [twins.topic_ids["orders"], *([] if is_client else [twins.topic_ids["other"]])]
    words = {"digest": "'x'" if is_client else "null", "topics": str(ids)[1:-1]}
    twins.conn.execute(MEMBER.format(group=group, kind=kind, until=until, **words))


@contextmanager
def at_work(twins: Twins, module_dsn: str, group: str) -> Iterator[None]:
    """Somebody holds the lock of the last partition."""
    with connect(module_dsn, role="test") as conn:
        conn.execute("select pg_advisory_lock(7427003, %s)", [twins.leases[group, "other", 2]])
        yield


@pytest.mark.parametrize("group", ["billing", "sender"])
def test_all_of_a_group_goes(twins: Twins, module_dsn: str, group: str) -> None:
    """Its conditions, too, but for those that others have; others are in use, and their clients silent."""
    twins.conn.execute(FULL)
    twins.seek(3, twins.here(group))
    join(twins, "auditor", "client", PAST)
    join(twins, "auditor", "supervisor")
    leases = {lease for (each, *_), lease in twins.leases.items() if each == group}
    having = twins.conn.execute(HAVING).fetchall()
    query = "select count(*) from gapless.{} where group_id = any (%s)"
    empty = {
        table for (table,) in having if not twins.value(query.format(table), [*GROUPS, *QUEUES])
    }
    assert empty == ELSEWHERE, "a table that is not filled here may keep rows of a group that goes"
    with at_work(twins, module_dsn, "mail"):
        changed = twins.changes(DROP.format(group))
    assert twins.value("select n from n") == 2 * 6
    audits = {
        f"audit drop {group} {topic} {n}": 3 if (topic, n) == ("orders", 1) else 1
        for topic in ("orders", "other")
        for n in range(3)
    }
    for name, offset in audits.items():
        assert changed.pop(name)["detail"] == (None, f'{{"from": {offset}}}')
    conditions = [changed.pop(name) for name in list(changed) if name.startswith("condition ")]
    texts = [row["expression"] for row in conditions]
    assert texts == ([(f"e.key <> '{group}'", None)] if group == "billing" else [])
    stops = [changed.pop(name) for name in list(changed) if name.startswith("subscription_stop ")]
    assert len(stops) == (4 if group == "billing" else 0)
    for name, row in changed.items():
        owner = row.get("group_id", (group, None))[0]
        assert owner == group, name
        assert row.get("lease_no", (min(leases), None))[0] in leases, name
        assert {now for _, now in row.values()} == {None}, name
    for (table,) in having:
        query = f"select count(*) from gapless.{table} where group_id = %s"
        assert twins.value(query, group) == 0, table
    for table in ("queue_floor", "queue_range"):
        query = f"select count(*) from gapless.{table} where lease_no = any (%s)"
        assert twins.value(query, list(leases)) == 0, table
    assert not [name for name in changed if name.startswith("member ")]
    functions = "select count(*) from pg_proc where proname ~ '^condition_[0-9a-f]{32}$'"
    assert twins.value(functions) == (2 if group == "billing" else 3)


CLIENTS = "let them leave first, or stop them and wait for their deadlines"
KEEPERS: dict[str, tuple[list[tuple[str, str]], str]] = {
    "a supervisor": ([("supervisor", LATER)], 'supervisors run for group "billing": stop them first'),
    "one that seems to be gone": ([("supervisor", PAST)], 'supervisors run for group "billing": stop them first'),
    "a client": ([("client", LATER)], f'group "billing" has 1 client: {CLIENTS}'),
    "two, and one that is gone": (
        [("client", LATER), ("client", LATER), ("client", PAST)], f'group "billing" has 2 clients: {CLIENTS}',
    ),
    "both kinds": (
        [("client", LATER), ("supervisor", LATER)],
        'supervisors run for group "billing", and it has 1 client: stop them all first',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEEPERS)
def test_who_keeps_a_group(twins: Twins, name: str) -> None:
    members, said = KEEPERS[name]
    for kind, until in members:
        join(twins, "billing", kind, until)
    assert twins.refused("select gapless.drop_group('billing')") == ("GL423", said)


def test_a_client_that_is_gone_keeps_nothing(twins: Twins) -> None:
    join(twins, "billing", "client", PAST)
    assert twins.value("select gapless.drop_group('billing')") == 0


def test_whose_partition_somebody_has_in_hand_keeps_it(twins: Twins, module_dsn: str) -> None:
    with at_work(twins, module_dsn, "billing"):
        said = 'a worker of group "billing" is running: stop it first'
        assert twins.refused("select gapless.drop_group('billing')") == ("GL423", said)
    assert twins.refused("select gapless.drop_group('nobody')")[0] == "GL404"


EXPIRIES = """
select gapless.create_group('alone', 'orders');
insert into gapless.group_expiry (group_id, expires_after, looked_ts, idle, seen)
select g, '1 hour', clock_timestamp() - interval '100 s', case g when 'billing' then {idle} else '1 min' end::interval,
  case g when 'billing' then {seen} else gapless.group_traces(g) end
from unnest('{{alone,billing,mail,auditor,sender,gone}}'::text[]) g;
select gapless.pause('sender');
delete from gapless.audit;
"""
SAME = "gapless.group_traces(g)"
# idle before and what was seen, what else is so; idle after a look that counts for a minute, null: it is dropped
LOOKS: dict[str, tuple[str, str, str, str | None]] = {
    "nobody came": ("58 min", SAME, "", "00:59:00"),
    "a moment is left": ("3539.999 s", SAME, "", "00:59:59.999"),
    "its time is over": ("59 min", SAME, "", None),
    "somebody had a claim": ("59 min", "'x'", "", "00:00:00"),
    "it is the first look": ("59 min", "null", "", "00:00:00"),
    "somebody is there": ("59 min", SAME, "member", "00:00:00"),
    "it is paused": ("59 min", SAME, "select gapless.pause('billing', 'orders', 1)", "00:00:00"),
    "somebody works for it": ("59 min", SAME, "lock", "00:00:00"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_at_groups_that_expire(twins: Twins, module_dsn: str, name: str) -> None:
    """One more minute is counted for alone and mail; auditor has a member, sender is paused, and gone is none."""
    idle, seen, more, after = LOOKS[name]
    twins.conn.execute(EXPIRIES.format(idle=f"'{idle}'", seen=seen))
    join(twins, "auditor", "supervisor")
    twins.conn.execute(
        "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
        " transaction_id, state, attempts, reason, exception)"
        " select group_id, topic_id, 1, 3, 3, 1, gen_random_uuid(), 'dead', 1, 'no', 'no' from gapless.consumer_group"
    )
    twins.conn.execute(
        "update gapless.group_expiry set seen = gapless.group_traces(group_id) where length(seen) > 1"
    )
    if more == "member":
        join(twins, "billing", "supervisor")
    elif more.startswith("select"):
        twins.conn.execute(more)
    call = "create temp table n on commit drop as select * from gapless.expire_groups(60)"
    if more == "lock":
        with at_work(twins, module_dsn, "billing"):
            changed = twins.changes(call)
    else:
        changed = twins.changes(call)
    found = {
        group: row
        for group in ("alone", "mail", "auditor", "sender", "gone")
        if (row := changed.pop(f"group_expiry {group}"))
    }
    assert {group: found[group].get("idle") for group in found} == {
        "alone": ("00:01:00", "00:02:00"), "mail": ("00:01:00", "00:02:00"), "auditor": ("00:01:00", "00:00:00"),
        "sender": ("00:01:00", "00:00:00"), "gone": ("00:01:00", None),
    }  # fmt: skip
    assert found["gone"]["group_id"] == ("gone", None)
    dropped = twins.conn.execute("select group_id, set_aside from n").fetchall()
    expiry = changed.pop("group_expiry billing")
    if after is None:
        assert dropped == [("billing", 2)]
        assert expiry["group_id"] == ("billing", None)
        detail = '{"idle": "01:00:00", "expires_after": "01:00:00"}'
        for topic in ("orders", "other"):
            assert changed.pop(f"audit expire billing {topic} None")["detail"] == (None, detail)
            assert changed.pop(f"consumer_group billing {topic}")
        assert all(" billing " in key for key in changed)
    else:
        assert dropped == []
        assert changed == {}
        kept = twins.value("select idle::text from gapless.group_expiry where group_id = 'billing'")
        assert kept == after
    traces = "select seen = gapless.group_traces(group_id) from gapless.group_expiry"
    assert {row[0] for row in twins.conn.execute(traces)} == {True}


EXPIRE = "select gapless.set_expiry('billing', {})"
EXPIRED: dict[str, tuple[str, dict[str, Any], bool]] = {
    "another time": ("'2 days'", {"expires_after": ("1 day", "2 days")}, True),
    "the same": ("'1 day'", {}, False),
    "the same, said otherwise": ("'24:00'", {"expires_after": ("1 day", "24:00:00")}, False),
    "never": ("null", {"group_id": ("billing", None), "expires_after": ("1 day", None)}, True),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPIRED)
def test_when_a_group_is_to_expire(twins: Twins, name: str) -> None:
    """Its time begins anew in any case, and each topic's audit says so if it is another one."""
    arguments, columns, is_change = EXPIRED[name]
    twins.conn.execute(
        "insert into gapless.group_expiry (group_id, expires_after, idle, seen)"
        " select g, '1 day', '1 hour', 'x' from unnest('{billing,mail}'::text[]) g"
    )
    changed = twins.changes(
        "create temp table n on commit drop as " + EXPIRE.format(arguments) + " as n"
    )
    assert twins.value("select n from n") is is_change
    row = changed.pop("group_expiry billing")
    assert {**columns, "seen": ("x", None)}.items() <= row.items()
    assert row["idle"] == ("01:00:00", None if name == "never" else "00:00:00")
    noted = {"audit expiry billing orders None", "audit expiry billing other None"}
    assert set(changed) == (noted if is_change else set())
    for each in changed.values():
        said = "null" if name == "never" else '"2 days"'
        assert each["detail"] == (None, f'{{"expires_after": {said}}}')


def test_a_group_that_never_expires(twins: Twins) -> None:
    assert twins.changes(EXPIRE.format("null")) == {}
    assert twins.value(EXPIRE.format("null")) is False
    assert twins.value(EXPIRE.format("'1 min'")) is True
    assert twins.refused(EXPIRE.format("'59 s'"))[0] == "GL400"
    assert twins.refused("select gapless.set_expiry('nobody', '1 day')")[0] == "GL404"


def test_the_group_of_a_pipeline_never_does(twins: Twins) -> None:
    """It reads without a member; another group may expire."""
    twins.conn.execute(
        "insert into gapless.pipeline (name, target) values ('p', 'there'), ('q', 'there')"
    )
    twins.conn.execute("select gapless.create_group('pipeline.p', 'orders')")
    state, text = twins.refused("select gapless.set_expiry('pipeline.p', '1 day')")
    assert (state, text[:34]) == ("GL400", 'group "pipeline.p" is of a pipelin')
    assert twins.value("select gapless.set_expiry('pipeline.p', null)") is False
    assert twins.value(EXPIRE.format("'1 day'")) is True
