"""The sequencer's role: one has it, and loses it to the other at once, whatever happens to it."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from time import sleep

import psycopg
import pytest
from psycopg import Connection, sql

from gapless.log.catch_up import sequence_if_alone
from gapless.log.sequence import sequence
from support.fleet import Fleet, Instance, Load, until
from support.ledger import assert_exactly_once
from support.long import long_but
from support.patience import patience

LONG = pytest.mark.long
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

IN_A_RUN = """
select count(*) from pg_locks join pg_stat_activity using (pid)
where not granted and relation = 'gapless.sequencer'::regclass and application_name ~ 'sequencer'
"""

NEVER = {"gapless.worker.sequencer.WAIT_S_MAX": 3600.0}  # no look but where it is told, or due


def start_asleep(fleet: Fleet, **settings: object) -> Instance:
    """Start a supervisor whose sequencer hears of events by notifications alone."""
    a = fleet.start("a", patch=NEVER, **{"wait_period_ms": 3_600_000, **settings})
    fleet.until_owners(a=4)
    until(lambda: fleet.value(ASLEEP), "it sleeps", within=a.log)
    return a


def pair(fleet: Fleet, **settings: object) -> tuple[Instance, Instance]:
    a = fleet.start("a", **settings)
    until(a.sequencer, "a sequences", within=a.log)
    b = fleet.start("b", **settings)
    fleet.until_owners(a=2, b=2)
    return a, b


def gap_s(fleet: Fleet) -> float:
    """The longest time in which nothing got an offset."""
    return float(
        fleet.value(
            "select max(gap) from (select at - lag(at) over (order by id) as gap from ledger) g"
        )
    )


# The most seconds without offsets; a supervisor that leaves gives the role away at once.
GAPS_S: dict[int, float] = {SIGKILL: 1.5, SIGSTOP: 4.0, SIGTERM: 1.5}


@pytest.mark.parametrize("number", long_but(GAPS_S, SIGKILL))
def test_the_role_goes_to_the_other(
    fleet: Fleet, number: int, record_property: Callable[[str, object], None]
) -> None:
    a, b = pair(fleet)
    victim = a.sequencer()
    assert victim is not None
    with Load(fleet) as load:
        load.go_on()
        if number == SIGTERM:
            a.signal(SIGTERM)
            assert a.ended() == 0
        else:
            os.kill(victim, number)
        until(lambda: b.sequencer() or a.sequencer() not in {None, victim}, "another one")
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert fleet.value(ROLES) == 1
    longest_s = gap_s(fleet)
    record_property("longest_gap_s", longest_s)
    print(f"sequencer, signal {number}: {longest_s:.2f} s without offsets")  # noqa: T201
    assert longest_s < patience(GAPS_S[number])


@LONG
@pytest.mark.parametrize("during", ["rest", "run"])
def test_alone_a_stopped_sequencer_is_replaced_by_its_supervisor(fleet: Fleet, during: str) -> None:
    a = fleet.start("a", connect_timeout_s=1, patch={"gapless.worker.children.SILENCE_S_MAX": 0.5})
    fleet.until_owners(a=4)
    victim = until(a.sequencer, "a sequences")
    if during == "rest":
        until(lambda: fleet.value(ASLEEP), "it sleeps", within=a.log)
        os.kill(victim, SIGSTOP)
    else:
        with fleet.conn.transaction():
            fleet.conn.execute("lock table gapless.sequencer in access exclusive mode")
            until(lambda: fleet.value(IN_A_RUN), "it waits in a run", within=a.log)
            os.kill(victim, SIGSTOP)
    fleet.publish()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    until(lambda: a.sequencer() not in {None, victim}, "another one sequences", within=a.log)


@LONG
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


@LONG
def test_where_transactions_can_be_prepared_it_looks_by_itself(fleet: Fleet) -> None:
    """Nobody wakes it: whoever does may not prepare its transaction."""
    name = sql.Identifier(fleet.conn.info.dbname)
    fleet.conn.execute(sql.SQL("alter database {} set gapless.wake = 'auto'").format(name))
    start_asleep(fleet)
    with psycopg.connect(fleet.dsn, autocommit=True) as publisher:
        publisher.execute("begin")
        publisher.execute("select gapless.publish('t', '{}')")
        publisher.execute("prepare transaction 'asleep'")
        publisher.execute("commit prepared 'asleep'")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


def _in_a_savepoint(conn: Connection) -> None:
    with conn.transaction():
        conn.execute("savepoint s")
        conn.execute(PUBLISH)
        conn.execute("rollback to s")
        conn.execute(PUBLISH)


def _rolled_back(conn: Connection) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute(PUBLISH)


def _slowly(conn: Connection) -> None:
    with conn.transaction():
        conn.execute(PUBLISH)
        sleep(0.02)


PUBLISH = "select gapless.publish('t', '{}', key => gen_random_uuid()::text)"
PUBLISHERS: tuple[Callable[[Connection], object], ...] = (
    lambda conn: conn.execute(PUBLISH),
    lambda conn: conn.execute("select gapless.publish('t', '{}', deliver_in => '0.01 s')"),
    _in_a_savepoint,
    _rolled_back,
    _slowly,
)
BESIDE: dict[str, Callable[[Connection], object]] = {
    "nobody": lambda _: sleep(0.01),
    "a stranger who notifies": lambda conn: conn.execute("notify gapless_sequencer"),
    "a gateway": sequence_if_alone,
    "another who sequences": sequence,
}


@contextmanager
def again_and_again(fleet: Fleet, does: Callable[[Connection], object]) -> Iterator[None]:
    """Do that in another session until the block ends."""
    over = threading.Event()

    def run() -> None:
        with psycopg.connect(fleet.dsn, autocommit=True) as conn:
            while not over.is_set():
                does(conn)

    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(run)
        try:
            yield
        finally:
            over.set()
        doing.result()


@pytest.mark.parametrize(
    "beside", [each if each == "nobody" else pytest.param(each, marks=LONG) for each in BESIDE]
)
def test_whoever_publishes_while_it_falls_asleep_or_wakes_up_is_heard(
    fleet: Fleet, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bursts make it wake up and fall asleep again; what is lost then nobody would ever look for.

    It stands still for a moment wherever that could be missed. One that is silent for long is
    replaced, and the next one looks: so none may have been.
    """
    points = ("sequence.before", "sequence.after", "sequencer.asleep", "sequencer.awake")
    monkeypatch.setenv("GAPLESS_FAILPOINTS", ";".join(f"{each}=stall:0.004" for each in points))
    sequencer = start_asleep(fleet).sequencer()

    def burst(seed: int) -> None:
        random = Random(seed)
        with psycopg.connect(fleet.dsn, autocommit=True) as conn:
            for _ in range(random.randint(1, 8)):
                random.choice(PUBLISHERS)(conn)
                sleep(random.random() * 0.004)

    with again_and_again(fleet, BESIDE[beside]), ThreadPoolExecutor(2) as pool:
        for number in range(12):
            list(pool.map(burst, (number, -1 - number)))
            fleet.until_handled()
            until(lambda: not fleet.value("select count(*) from gapless.scheduled"), "promoted")
            assert fleet.instances[0].sequencer() == sequencer, number
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@LONG
@pytest.mark.parametrize("number", [SIGKILL, SIGTERM])
def test_what_is_published_when_a_sleeping_one_ends_the_next_one_looks_for(
    fleet: Fleet, number: int
) -> None:
    """Nobody publishes afterwards: only its first look can find it."""
    a, b = pair(fleet, wait_period_ms=3_600_000, patch=NEVER)
    until(lambda: fleet.value(ASLEEP), "it sleeps")
    victim = a.sequencer()
    assert victim is not None
    os.kill(victim, SIGSTOP)  # so that it does not run for it
    fleet.publish()
    os.kill(victim if number == SIGKILL else a.pid, number)
    os.kill(victim, SIGCONT)
    until(lambda: b.sequencer() or a.sequencer() not in {None, victim}, "another one")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@LONG
def test_what_nobody_tells_of_is_found_by_the_clock(fleet: Fleet) -> None:
    """As when the notification is lost: an event, and one for later whose time it cannot know."""
    sequencer = start_asleep(fleet, wait_period_ms=300).sequencer()
    fleet.conn.execute("set gapless.wake = off")
    fleet.conn.execute("select gapless.publish('t', '{}', deliver_in => '0.3 s')")
    until(lambda: not fleet.value("select count(*) from gapless.scheduled"), "it is in the log")
    fleet.until_handled()
    until(lambda: fleet.value(ASLEEP), "it sleeps again")
    fleet.publish()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert fleet.instances[0].sequencer() == sequencer, "not by the next one"
