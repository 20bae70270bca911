"""Sessions that are ended by the server: each kind, and connections that cannot be had."""

import subprocess
import sys
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

import gapless
from gapless import testing
from support.commands import environment
from support.fleet import Fleet, Load, until
from support.ledger import assert_exactly_once, entries, handovers
from support.long import long_but

APP = '''
import gapless

SEEN = """
insert into seen select %s, current_setting('application_name'),
  current_setting('idle_in_transaction_session_timeout'), current_setting('statement_timeout')
"""

@gapless.handler(topic="t", group="ordered")
def ordered(unit, conn):
    conn.execute(SEEN, [unit.group])

@gapless.handler(topic="t", group="shared", mode="queue")
def shared(unit, conn):
    conn.execute(SEEN, [unit.group])
'''
MEMBERS = "select array_agg(member_id order by member_id) from gapless.member"


def test_workers_begin_on_guarded_sessions(dsn: str, conn: Connection[Any], tmp_path: Path) -> None:
    """A transaction left idle for longer than a turn may take ends, and its locks with it."""
    testing.install(dsn, topics={"t": 1})
    conn.execute("create table seen (group_id text, name text, idle text, statement text)")
    (tmp_path / "app.py").write_text(APP)
    settings = {"GAPLESS_MAXPROCESSINGMS": "20000", "GAPLESS_STATEMENTTIMEOUTMS": "7000"}
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "gapless", "run", "app.py", "--workers", "1"],
        cwd=tmp_path,
        env=environment(GAPLESS_DSN=dsn, **settings),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        gapless.publish(conn, "t", 1)
        seen = "select * from seen order by 1"
        until(lambda: len(conn.execute(seen).fetchall()) == 2, "handled by both")
    finally:
        supervisor.terminate()
        supervisor.wait()
    assert conn.execute(seen).fetchall() == [
        ("ordered", "gapless/worker ordered/t/0", "25s", "7s"),
        ("shared", "gapless/queue worker shared", "25s", "7s"),
    ]


@pytest.mark.long
@pytest.mark.parametrize("whose", long_but(["supervisor", "worker%", "sequencer", "%"], "%"))
def test_terminated_sessions_come_back(fleet: Fleet, whose: str) -> None:
    fleet.start("a", reconnect_grace_ms=3000, member_ttl_ms=5000)
    fleet.until_owners(a=4)
    fleet.start("b", reconnect_grace_ms=3000, member_ttl_ms=5000)
    fleet.until_owners(a=2, b=2)
    members = fleet.value(MEMBERS)
    with Load(fleet) as load:
        for _ in range(3):
            load.go_on()
            assert fleet.terminate(f"gapless/{whose}") > 0
            load.go_on()
        until(lambda: fleet.owners() == {"a": 2, "b": 2}, "balanced", within=fleet.state)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    if whose in {"supervisor", "sequencer"}:
        assert fleet.value(MEMBERS) == members, "nobody was evicted"
        assert not list(handovers(entries(fleet.conn)))[2:], "nothing moved after b had joined"


@pytest.mark.long
def test_an_ended_session_is_not_the_death_of_a_worker(fleet: Fleet) -> None:
    """An operator may end a worker's session as often as he likes: no unit is to blame for it."""
    a = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.publish({"sleep_s": 0.3}, {})
    busy = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name like 'gapless/worker g/t/0' and state = 'idle in transaction'"
    )
    for _ in range(6):
        until(lambda: fleet.value(busy), "in the handler", within=a.log)
        fleet.terminate("gapless/worker g/t/0")
        until(lambda: not fleet.value(busy), "ended")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_too_few_connections(fleet: Fleet) -> None:
    """A clear line, forks that become rare, and all is well when there are enough again."""
    role = f"{fleet.conn.info.dbname}_r"
    fleet.conn.execute(f"create role {role} login connection limit 4 in role gapless_consumer")
    try:
        fleet.conn.execute(f"grant all on ledger to {role}")
        # A server whose superuser is called like the schema makes tables there, not in public.
        fleet.conn.execute(f"alter role {role} set search_path = gapless, public")
        a = fleet.start(
            "a", dsn=make_conninfo(fleet.dsn, user=role), total_partitions=8, groups=[("g", "t")]
        )
        until(lambda: a.logged("too many connections"), "a clear line", within=a.log)
        until(lambda: a.deaths() >= 20, "it goes on trying", within=a.log)
        since = fleet.now()
        ended = a.deaths()
        until(lambda: fleet.now() - since > 2.0, "two seconds later")
        assert a.deaths() - ended < 30, "forks are bounded"
        fleet.conn.execute(f"alter role {role} connection limit -1")
        fleet.until_owners(a=8)
        for partition in range(8):
            fleet.publish(partition=partition, partitions=8)
        fleet.until_handled()
        assert_exactly_once(fleet.conn)
    finally:
        fleet.close()
        fleet.conn.execute(f"drop owned by {role}")
        fleet.conn.execute(f"drop role {role}")


@pytest.mark.long
def test_nobody_but_the_owner_gets_a_lock_for_long(fleet: Fleet) -> None:
    """A session that hogs a partition's lock without being a worker keeps it from nobody."""
    fleet.start("a")
    fleet.until_owners(a=4)
    with psycopg.connect(fleet.dsn, autocommit=True) as hog:
        lease_no = fleet.value("select min(lease_no) from gapless.lease")
        fleet.terminate("gapless/worker g/t/0")
        hog.execute("select pg_advisory_lock(7427003, %s)", [lease_no])
        fleet.publish()
        fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_a_missing_grant_is_named_and_nothing_is_lost(fleet: Fleet) -> None:
    """The schema's owner may not end the sessions of the fleet's role: slow, said, and safe."""
    name = fleet.conn.info.dbname
    role, owner = f"{name}_r", f"{name}_o"
    fleet.conn.execute(f"create role {role} login in role gapless_consumer")
    fleet.conn.execute(f"create role {owner}")
    try:
        fleet.conn.execute(f"grant all on ledger to {role}")
        fleet.conn.execute(f"alter role {role} set search_path = gapless, public")
        fleet.conn.execute(f"grant usage, create on schema gapless to {owner}")
        fleet.conn.execute(f"grant select on all tables in schema gapless to {owner}")
        fleet.conn.execute(f"alter function gapless.break_zombie owner to {owner}")
        grant = f'grant "{role}" to "{owner}", or grant pg_signal_backend'
        dsn = make_conninfo(fleet.dsn, user=role)
        a = fleet.start("a", dsn=dsn)
        until(lambda: a.logged(grant), "said at the start", within=a.log)
        fleet.until_owners(a=4)
        b = fleet.start("b", dsn=dsn)
        fleet.until_owners(a=2, b=2)
        a.signal_all(SIGSTOP)
        said = "an evicted owner still holds it"
        until(lambda: b.logged(said) and b.log().count(grant) >= 2, "said again", within=b.log)
        assert not b.deaths()
        a.signal_all(SIGCONT)
        for partition in range(4):
            fleet.publish(partition=partition)
        fleet.until_handled()
        assert_exactly_once(fleet.conn)
    finally:
        fleet.close()
        for each in (role, owner):
            fleet.conn.execute(f"reassign owned by {each} to current_user")
            fleet.conn.execute(f"drop owned by {each}")
            fleet.conn.execute(f"drop role {each}")


@pytest.mark.long
def test_the_clocks_of_the_machines_play_no_part(fleet: Fleet) -> None:
    """A day ahead, a day behind: nobody is evicted for it, and the dead are found as ever."""
    day_s = 86_400.0
    a = fleet.start("a", odd={"clock_ahead_s": day_s})
    fleet.until_owners(a=4)
    fleet.start("b", odd={"clock_ahead_s": -day_s})
    fleet.until_owners(a=2, b=2)
    members = fleet.value(MEMBERS)
    with Load(fleet) as load:
        since = fleet.now()
        until(lambda: fleet.now() - since > 3.0, "twice the ttl")
        assert fleet.value(MEMBERS) == members, "nobody was evicted"
        load.go_on()
        a.signal_all(SIGKILL)
        fleet.until_owners(b=4)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
