"""The sequencer's role: one has it, and loses it to the other at once, whatever happens to it."""

from __future__ import annotations

import os
from signal import SIGKILL, SIGSTOP, SIGTERM

import psycopg
import pytest
from psycopg import sql

from stage.worker.fleet import Fleet, Instance, Load, until
from stage.worker.ledger import assert_exactly_once
from support.patience import patience

ROLES = """
select count(*) from pg_locks
where locktype = 'advisory' and classid = 7427001 and objid = 3 and granted
  and database = (select oid from pg_database where datname = current_database())
"""

ASLEEP = """
select count(*) from pg_locks
where locktype = 'advisory' and classid = 7427001 and objid = 2 and mode = 'ExclusiveLock'
  and database = (select oid from pg_database where datname = current_database())
"""


def pair(fleet: Fleet) -> tuple[Instance, Instance]:
    a = fleet.start("a")
    until(a.sequencer, "a sequences", within=a.log)
    b = fleet.start("b")
    fleet.until_owners(a=2, b=2)
    return a, b


def gap_s(fleet: Fleet) -> float:
    """The longest time in which nothing got an offset."""
    return float(
        fleet.value(
            "select max(gap) from (select at - lag(at) over (order by id) as gap from ledger) g"
        )
    )


@pytest.mark.parametrize(
    "number",
    [pytest.param(SIGKILL, id="kill"), pytest.param(SIGSTOP, id="stop", marks=pytest.mark.long)],
)
def test_the_role_goes_to_the_other(
    fleet: Fleet, number: int, record_property: pytest.RecordProperty
) -> None:
    a, b = pair(fleet)
    victim = a.sequencer()
    assert victim is not None
    with Load(fleet) as load:
        load.go_on()
        os.kill(victim, number)
        until(lambda: b.sequencer() or a.sequencer() not in {None, victim}, "another one")
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert fleet.value(ROLES) == 1
    longest_s = gap_s(fleet)
    record_property("longest_gap_s", longest_s)
    print(f"sequencer, signal {number}: {longest_s:.2f} s without offsets")  # noqa: T201
    assert longest_s < patience(4.0 if number == SIGSTOP else 1.5)


@pytest.mark.long
def test_a_leaving_supervisor_gives_the_role_away_at_once(
    fleet: Fleet, record_property: pytest.RecordProperty
) -> None:
    a, b = pair(fleet)
    with Load(fleet) as load:
        load.go_on()
        a.signal(SIGTERM)
        assert a.ended() == 0
        until(b.sequencer, "b sequences")
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    record_property("longest_gap_s", gap_s(fleet))
    print(f"sequencer, leave: {gap_s(fleet):.3f} s without offsets")  # noqa: T201


@pytest.mark.long
def test_alone_a_stopped_sequencer_is_replaced_by_its_supervisor(fleet: Fleet) -> None:
    a = fleet.start("a", connect_timeout_s=1, patch={"gapless.worker.children.SILENCE_S_MAX": 0.5})
    fleet.until_owners(a=4)
    victim = until(a.sequencer, "a sequences")
    os.kill(victim, SIGSTOP)
    fleet.publish()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert a.sequencer() not in {None, victim}


@pytest.mark.long
def test_an_idle_sequencer_keeps_the_role(fleet: Fleet) -> None:
    """A candidate must not take sleep for standstill; nor a transaction that stays open."""
    a, b = pair(fleet)
    first = a.sequencer()
    with fleet.conn.transaction():
        fleet.publish()
        since = fleet.now()
        until(lambda: fleet.now() - since > 3.0, "longer than a standstill")
    fleet.until_handled()
    assert a.sequencer() == first
    assert b.sequencer() is None
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_where_transactions_can_be_prepared_it_looks_by_itself(fleet: Fleet) -> None:
    """Nobody wakes it: whoever does may not prepare its transaction."""
    name = sql.Identifier(fleet.conn.info.dbname)
    fleet.conn.execute(sql.SQL("alter database {} set gapless.wake = 'auto'").format(name))
    a = fleet.start(
        "a", wait_period_ms=3_600_000, patch={"gapless.worker.sequencer.WAIT_S_MAX": 3600.0}
    )
    fleet.until_owners(a=4)
    until(lambda: fleet.value(ASLEEP), "it sleeps", within=a.log)
    with psycopg.connect(fleet.dsn, autocommit=True) as publisher:
        publisher.execute("begin")
        publisher.execute("select gapless.publish('t', '{}')")
        publisher.execute("prepare transaction 'asleep'")
        publisher.execute("commit prepared 'asleep'")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
