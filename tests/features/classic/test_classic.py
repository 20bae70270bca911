"""Classic names for programs that watch them: exact, for those who ask, and no way to do harm."""

import os
import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.errors import ObjectNotInPrerequisiteState

from gapless import handler
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.features.attach.ops import AttachRequest, attach_table
from gapless.features.attach.switch import hand_back, switch_group
from gapless.features.classic import ops
from gapless.features.classic.ops import (
    hide_classic,
    list_classic,
    notify_classic,
    show_classic,
    silence_classic,
)
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from gapless.ops.groups import create_group, remove_group
from gapless.testing import drain

VIEW = (
    "select group_id, topic_id, partition_id, next_offset from public.consumer_offsets order by 3"
)
# As light-portal's consumer claims, by the names of the classic tables.
CLAIM = (
    "with to_claim as (select group_id, partition_id, next_offset from public.consumer_offsets"
    " where group_id = 'billing' and topic_id = 1 for update)"
    " update public.consumer_offsets c set next_offset = c.next_offset + 1 from to_claim t"
    " where c.group_id = t.group_id and c.partition_id = t.partition_id"
)
# Nothing of gapless's own that would be run when offsets move or events come.
TRIGGERS = (
    "select t.tgname::text from pg_trigger t where not t.tgisinternal"
    " and t.tgrelid in ('gapless.consumer_offsets'::regclass, 'gapless.log_segment'::regclass)"
)


@pytest.fixture
def billing(conn: Connection, topic: Topic) -> Connection:
    create_group(conn, "billing", "outbox")
    create_group(conn, "other", "outbox")
    return conn


@pytest.mark.long
def test_whoever_asks_is_shown_in_the_classic_table(billing: Connection, dsn: str) -> None:
    seen: list[Any] = []

    @handler(topic="outbox", group="billing")
    def bill(unit: Unit, conn: Connection[Any]) -> None:
        same = (
            "select count(*) from public.consumer_offsets p full join gapless.consumer_offsets c"
            " using (group_id, topic_id, partition_id)"
            " where c.group_id = 'billing' and p.next_offset is distinct from c.next_offset"
        )
        seen.append(conn.execute(same).fetchone())

    assert show_classic(billing, "billing")
    assert not show_classic(billing, "billing")
    for n in range(20):
        publish(billing, "outbox", n, key=str(n))
    assert [row[3] for row in billing.execute(VIEW)] == [1] * 4
    drain(dsn, bill)
    assert seen
    assert set(seen) == {(0,)}, "in the very transaction that moves the offset"
    rows = billing.execute(VIEW).fetchall()
    assert [row[:3] for row in rows] == [("billing", 1, part) for part in range(4)]
    assert sum(row[3] - 1 for row in rows) == 20
    columns = billing.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute"
        " where attrelid = 'public.consumer_offsets'::regclass order by attnum"
    ).fetchall()
    assert columns == [
        ("group_id", "character varying(255)"), ("topic_id", "integer"),
        ("partition_id", "integer"), ("next_offset", "bigint"),
    ]  # fmt: skip


def test_a_classic_claim_moves_nothing(billing: Connection) -> None:
    """An old consumer that is started by mistake would pass events that nobody handles."""
    show_classic(billing, "billing")
    publish(billing, "outbox", 1)
    sequence(billing)
    with pytest.raises(ObjectNotInPrerequisiteState, match="cannot update view"):
        billing.execute(CLAIM)
    assert {row[3] for row in billing.execute(VIEW)} == {1}


def test_nobody_pays_who_does_not_ask(billing: Connection) -> None:
    before = set(billing.execute(TRIGGERS))
    show_classic(billing, "billing")
    assert set(billing.execute(TRIGGERS)) == before
    notify_classic(billing, "outbox")
    assert set(billing.execute(TRIGGERS)) - before == {("classic_notify",)}
    silence_classic(billing, "outbox")
    assert set(billing.execute(TRIGGERS)) == before


def test_an_operator_may_and_a_consumer_may_not(billing: Connection) -> None:
    billing.execute("grant create on schema public to gapless_operator, gapless_consumer")
    calls = (
        "gapless.show_classic('billing')", "gapless.notify_classic('outbox')",
        "gapless.hide_classic('billing')", "gapless.silence_classic('outbox')",
    )  # fmt: skip
    for call in calls:
        with billing.transaction(force_rollback=True):
            billing.execute("set local role gapless_consumer")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                billing.execute(f"select {call}".encode())
    billing.execute("set role gapless_operator")
    for call in calls:
        assert billing.execute(f"select {call}".encode()).fetchone() == (True,)
    billing.execute("reset role")


def test_a_group_that_is_dropped_is_shown_no_more(billing: Connection) -> None:
    show_classic(billing, "billing")
    remove_group(billing, "billing")
    assert billing.execute(VIEW).fetchall() == []
    assert list_classic(billing) == []


def test_what_is_missing_is_named_and_made_anew(billing: Connection) -> None:
    show_classic(billing, "billing")
    notify_classic(billing, "outbox")
    assert [each.problem for each in list_classic(billing)] == [None, None]
    billing.execute("drop view public.consumer_offsets")
    billing.execute("alter table gapless.log_segment disable trigger classic_notify")
    assert [(each.problem, each.remedy) for each in list_classic(billing)] == [
        ("its trigger is disabled", "gapless classic notify outbox --channel event_channel"),
        (
            "view public.consumer_offsets is gone, or is another one",
            "gapless classic show billing/outbox --as public.consumer_offsets",
        ),
    ]
    show_classic(billing, "billing")
    notify_classic(billing, "outbox")
    assert [each.problem for each in list_classic(billing)] == [None, None]


STEPS: dict[str, Callable[[Connection[Any]], object]] = {
    "show": lambda conn: show_classic(conn, "billing"),
    "notify": lambda conn: notify_classic(conn, "outbox"),
    "silence": lambda conn: silence_classic(conn, "outbox"),
    "hide": lambda conn: hide_classic(conn, "billing"),
}


def killed(dsn: str, step: str, at: int, *, behind: bool) -> bool:
    """Do a step in a process that is killed before, or behind, its n-th statement; False: it ended."""
    pid = os.fork()
    if pid == 0:
        whole, seen = ops.row, [0]

        def row(*args: Any, **params: Any) -> tuple[Any, ...]:
            seen[0] += 1
            if seen[0] == at and not behind:
                os.kill(os.getpid(), signal.SIGKILL)
            found = whole(*args, **params)
            if seen[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        ops.row = row
        with connect(dsn, role="classic") as conn:
            STEPS[step](conn)
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0


@pytest.mark.long
def test_killed_at_every_statement(billing: Connection, dsn: str) -> None:
    """What a step made is there as a whole, or not at all; again, it is there."""
    state = (
        "select to_regclass('public.consumer_offsets') is not null,"
        " exists (select from gapless.classic_group), gapless.classic_trigger() is not null,"
        " exists (select from gapless.classic_channel)"
    )
    for step in STEPS:
        kills = 0
        before = billing.execute(state).fetchone()
        for at in (1, 2):
            for behind in (False, True):
                kills += killed(dsn, step, at, behind=behind)
                assert billing.execute(state).fetchone() == before
        assert kills == 4
        assert not killed(dsn, step, 99, behind=False)
        after = billing.execute(state).fetchone()
        assert after is not None
        assert after[0] == after[1]
        assert after[2] == after[3]
        assert after != before
    assert billing.execute(state).fetchone() == (False,) * 4


def test_handing_back_hides_it(conn: Connection, topic: Topic, dsn: str) -> None:
    conn.execute("create table public.box (id bigserial primary key, key text, payload jsonb)")
    attach_table(conn, AttachRequest(table="public.box", topic="outbox"))
    switch_group(conn, "public.box", "old", dsn=dsn, place=1)
    show_classic(conn, "old")
    hand_back(conn, "public.box", "old", dsn=dsn)
    assert list_classic(conn) == []
    assert conn.execute("select to_regclass('public.consumer_offsets')").fetchone() == (None,)
