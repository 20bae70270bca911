"""One bad deploy, one grant that is gone: nothing is given up in a hurry, and all of it is said (I8)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import tenacity
from psycopg.conninfo import make_conninfo
from psycopg.errors import DeadlockDetected

from gapless.log.topics import ensure_topic
from gapless.status import snapshot
from support.fleet import Fleet, until
from support.ledger import assert_all_once, assert_exactly_once
from support.long import long_but

ERROR = "select error from gapless.lease where partition_id = 0"

REFUSE = """
create function refuse() returns trigger language plpgsql as
$$ begin raise exception 'not now' using errcode = 'XX001'; end $$;
create trigger refuse before insert on gapless.log_segment for each row execute function refuse();
"""


@pytest.mark.long
def test_a_database_that_is_not_ready_is_waited_for(fleet: Fleet) -> None:
    a = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.publish({}, {"sql": "select from mended"}, {})
    fleet.publish({}, partition=1)
    error = until(lambda: fleet.value(ERROR), "it is seen", within=a.log)
    assert error.startswith("retrying: g/t/0@2: the database is not as the handler expects it")
    assert 'SQLSTATE 42P01, relation "mended" does not exist: grant or create it' in error
    assert fleet.states() == {}
    fleet.conn.execute("create table mended ()")
    fleet.until_settled()
    assert fleet.states() == {}
    assert_exactly_once(fleet.conn)
    assert fleet.value(ERROR) is None


# What an event does, and what is said: where, and with which words.
FULL = """
do $$ begin
  if to_regclass('mended') is null then raise 'no space' using errcode = '53100'; end if;
end $$
"""
LIMITS = {
    "53100": (FULL, "retrying: g/t/0@1: the database's disk is full: make room there"),
    "25P03": (
        "set local idle_in_transaction_session_timeout = '200ms'",
        "g/t/0: idle_in_transaction_session_timeout ended the session",
    ),
}


@pytest.mark.parametrize("state", long_but(LIMITS, "25P03"))
def test_a_limit_of_the_database_has_a_sentence(fleet: Fleet, state: str, tmp_path: Path) -> None:
    """It is no grant that is missing, no lost connection and no crash of a worker."""
    a = fleet.start("a")
    fleet.until_owners(a=4)
    statement, said = LIMITS[state]
    once = {"once": str(tmp_path / "once")} if state == "25P03" else {}
    fleet.publish({"sql": statement, "sleep_s": 0.5, **once})
    until(lambda: said in f"{a.log()} {fleet.value(ERROR)}", "it is said", within=a.log)
    fleet.conn.execute("create table mended ()")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    for word in ("Traceback", "connection lost", "grant or create it"):
        assert word not in a.log()


# The deed of an event, with which settings; its SQLSTATE in the letter.
DEADLY: dict[str, tuple[dict[str, object], dict[str, object], str | None]] = {
    "a statement that takes too long": (
        {"sql": "select pg_sleep(3600)"}, {"statement_timeout_ms": 300}, "57014",
    ),
    "a keyboard interrupt": ({"interrupt": True}, {}, None),
    "a database that is not ready for long": (
        {"sql": "select from mended"}, {"patch": {"gapless.consume.verdict.patience.PATIENCE_S": 0.3}}, "42P01",
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", DEADLY)
def test_a_unit_that_fails_is_dead_and_its_neighbours_go_on(fleet: Fleet, name: str) -> None:
    deed, settings, sqlstate = DEADLY[name]
    a = fleet.start("a", **settings)
    fleet.until_owners(a=4)
    fleet.publish({}, deed, {})
    fleet.until_settled()
    assert fleet.states() == {(0, 2): "dead"}
    assert fleet.value("select sqlstate from gapless.dead_letter") == sqlstate
    assert not a.deaths()
    assert_all_once(fleet.conn)


@pytest.mark.long
def test_settings_of_a_handler_stay_with_its_unit(fleet: Fleet) -> None:
    a = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.publish({}, {"sql": "set statement_timeout = 50"}, {"raise": "no"})
    fleet.publish({"sql": "select pg_sleep(0.1)"}, {"sql": "set role pg_monitor"}, {}, {})
    fleet.until_settled()
    assert fleet.states() == {(0, 3): "dead"}
    assert not a.deaths()
    assert_all_once(fleet.conn)


@pytest.fixture
def consumer(fleet: Fleet) -> Iterator[str]:
    """A login role that may consume, and write the test's ledger."""
    role = f"{fleet.conn.info.dbname}_c"
    fleet.conn.execute(f"create role {role} login in role gapless_consumer")
    fleet.conn.execute(f"grant all on ledger to {role}")
    fleet.conn.execute(f"alter role {role} set search_path = gapless, public")
    yield role
    fleet.close()
    fleet.conn.execute(f"drop owned by {role}")
    fleet.conn.execute(f"drop role {role}")


@pytest.mark.long
def test_a_revoked_grant_is_waited_for(fleet: Fleet, consumer: str) -> None:
    """Nobody ends for it, but the workers once the ttl is over; who gives it back finds all well."""
    a = fleet.start("a", dsn=make_conninfo(fleet.dsn, user=consumer))
    fleet.until_owners(a=4)
    fleet.publish({})
    fleet.until_handled()
    fleet.conn.execute(f"revoke gapless_consumer from {consumer}")
    fleet.publish({}, {})
    said = "supervisor: waits until it may again: permission denied"
    until(lambda: a.logged(said), "it is said", within=a.log)
    until(lambda: a.logged("cut off for longer than the ttl"), "it tries for long", within=a.log)
    assert a.process.poll() is None
    (member,) = snapshot(fleet.conn).members
    assert (member.condition, member.revoked_role) == ("revoked", consumer)
    assert member.remedy == f'grant gapless_consumer to "{consumer}"'
    fleet.conn.execute(f"grant gapless_consumer to {consumer}")
    fleet.until_handled(40)
    assert_exactly_once(fleet.conn)
    assert a.log().count(said) == 1
    assert "grant this role gapless_consumer again" in a.log()
    assert a.logged("supervisor: it may again")
    assert "Traceback" not in a.log()


@pytest.mark.long
def test_or_ends_the_supervisor_that_is_to_end(fleet: Fleet, consumer: str) -> None:
    a = fleet.start("a", dsn=make_conninfo(fleet.dsn, user=consumer), exit_on_revoked=True)
    fleet.until_owners(a=4)
    fleet.conn.execute(f"revoke gapless_consumer from {consumer}")
    until(lambda: a.process.poll() is not None, "it ends", within=a.log)
    assert "permission denied" in a.log()


def secure(fleet: Fleet, how: str, but: str = "") -> None:
    """Switch row security of all tables, or all but some: enable or disable."""
    retry = tenacity.retry_if_exception_type(DeadlockDetected)  # with those who work meanwhile
    tenacity.Retrying(retry=retry, stop=tenacity.stop_after_attempt(9), reraise=True)(
        fleet.conn.execute,
        f"do $$ begin execute (select string_agg(format('alter table %s {how} row level security',"
        " c.oid::regclass), '; ') from pg_class c where c.relnamespace = 'gapless'::regnamespace"
        f" and c.relkind in ('r', 'p') and c.relname not in ('{but}')); end $$",
    )


@pytest.mark.parametrize("runs", long_but([False, True], True), ids=["at the start", "later"])
def test_row_security_by_mistake(fleet: Fleet, consumer: str, runs: bool) -> None:
    """It is named, nobody is told to skip what is only hidden, and off again all continues."""
    ensure_topic(fleet.conn, "t", partitions=4)
    if not runs:
        secure(fleet, "enable")
    patch = {"gapless.worker.service.HOLE_RETRY_S": 0.1}
    a = fleet.start("a", dsn=make_conninfo(fleet.dsn, user=consumer), patch=patch)
    if runs:
        fleet.until_owners(a=4)
        secure(fleet, "enable", but="consumer_offsets', 'topic")  # which its handler reads itself
        fleet.publish({}, partition=0)
        fleet.until_handled()  # workers go on: their functions read as their owner
    else:
        until(lambda: a.logged("row security hides rows of "), "it is said", within=a.log)
    obstacles = {each.name: each.remedy for each in snapshot(fleet.conn).obstacles}
    assert "alter table gapless.lease disable row level security" in obstacles["lease"]
    secure(fleet, "disable")
    fleet.until_owners(a=4)
    fleet.publish({})
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert "gapless skip" not in a.log()
    assert snapshot(fleet.conn).obstacles == ()


@pytest.mark.long
def test_a_run_that_fails_is_one_line(fleet: Fleet) -> None:
    a = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.conn.execute(REFUSE)
    fleet.publish({})
    said = "sequencer: SQLSTATE XX001: not now"
    until(lambda: a.log().count(said) >= 3, "it is tried again", within=a.log)
    fleet.conn.execute("drop trigger refuse on gapless.log_segment")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert "Traceback" not in a.log()
