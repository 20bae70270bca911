"""Two installations in one database, with the same names of everything: apart from each other."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection

from db.installation import Installation
from gapless.db.schema import in_schema

Pair = tuple[Installation, Installation]
HANDLERS = ("bill", "send")
_BOTH = "select gapless.publish('orders', %s::json, %s), audit.publish('orders', %s::json, %s)"


@pytest.fixture
def two(installation: Callable[[str], Installation]) -> Pair:
    """The default schema and another one; the other one has more partitions."""
    made = installation("gapless"), installation("audit")
    for each, partitions in zip(made, (2, 3), strict=True):
        each.install(partitions)
    return made


def publish_to_both(conn: Connection, numbers: range) -> None:
    """Publish in one transaction to both."""
    for n in numbers:
        conn.execute(_BOTH, [str(n), f"k{n % 7}", str(n), f"k{n % 7}"])


@pytest.mark.long
def test_supervisors_of_two_share_nothing_and_may_be_killed(two: Pair) -> None:
    ours, theirs = two
    victims = [each.start(*HANDLERS) for each in two]
    for each in two:
        each.start(*HANDLERS)
        each.until_owned()
    publish_to_both(ours.conn, range(40))
    for each, victim in zip(two, victims, strict=True):
        each.until_did("bill", 10)
        each.kill(victim)
        publish_to_both(ours.conn, range(40, 80) if each is ours else range(80, 120))
    for each in two:
        each.until_did("bill", 120)
        each.until_did("send", 120)
        assert sorted(each.did("bill")) == list(range(120))
        assert each.did("send") == ["of an order"] * 120
        assert each.value("select count(*) from gapless.dead_letter") == 0
        # Who was killed was evicted by its own peer.
        assert each.value("select count(*) from gapless.member") == 1
    _distinct(ours, theirs)


def _distinct(ours: Installation, theirs: Installation) -> None:
    """No worker has served both."""
    pids = ours.conn.execute("select installation, array_agg(distinct pid) from did group by 1")
    of = dict(pids.fetchall())
    assert not set(of[ours.schema]) & set(of[theirs.schema])


@pytest.mark.long
def test_uninstall_leaves_the_other_whole(two: Pair) -> None:
    ours, theirs = two
    ours.start(*HANDLERS)
    theirs.start(*HANDLERS)
    publish_to_both(ours.conn, range(10))
    for each in two:
        each.until_did("bill", 10)
    theirs.drain()
    said = theirs.run("uninstall", "--yes")
    assert "removed schema audit" in said
    assert ours.conn.execute("select to_regnamespace('audit')").fetchone() == (None,)
    ours.publish(10)
    ours.until_did("bill", 11)
    assert ours.value("select count(*) from gapless.migration") > 0
    roles = ours.conn.execute("select from pg_roles where rolname ~ '^gapless_(prod|cons|oper)'")
    assert roles.rowcount == 3
    ours.conn.execute("delete from did where installation = 'audit'")  # offsets begin anew
    theirs.install()
    theirs.publish("anew")
    theirs.start("bill")
    theirs.until(lambda: "anew" in theirs.did("bill"), "it is there again")


@pytest.mark.long
def test_a_lock_of_one_is_not_in_the_way_of_the_other(two: Pair) -> None:
    """The wake handshake, presence, leases, blocks: each class of each is a number of its own."""
    ours, theirs = two
    take = "select pg_advisory_lock(742700{}, n) from generate_series(0, 9) n"
    with psycopg.connect(ours.dsn, autocommit=True) as holder:
        for number in range(1, 7):
            holder.execute(in_schema(take.format(number), "gapless"))
        theirs.start(*HANDLERS)
        theirs.publish(1)
        theirs.until_did("send", 1)
        assert not ours.value("select pg_try_advisory_xact_lock(7427001, 3)")
        assert theirs.value("select pg_try_advisory_xact_lock(7427001, 9)")
        holder.execute("select 1")  # nobody took it for a dead worker of theirs
        of_holder = "select pid = %s from pg_locks where locktype = 'advisory' and classid = %s"
        pid = holder.info.backend_pid
        for number in range(7_427_001, 7_427_007):
            assert set(ours.sql(of_holder, pid, number)) == {(True,)}


@pytest.mark.long
def test_a_captured_table_may_be_a_topic_of_both(two: Pair) -> None:
    ours, theirs = two
    for each in two:
        each.run("capture", "add", "public.stock", "stock.changes")
    ours.conn.execute("insert into stock values (1, 1)")
    ours.run("capture", "remove", "public.stock")
    ours.conn.execute("insert into stock values (2, 1)")
    for each in two:
        each.start("watch")
        each.until_did("watch", 1)
    theirs.until_did("watch", 2)
    assert len(ours.did("watch")) == 1


def test_both_are_installed_at_once(installation: Callable[[str], Installation]) -> None:
    made = [installation(name) for name in ("gapless", "audit", "ledger")]
    with ThreadPoolExecutor() as pool:
        said = list(pool.map(lambda each: each.run("init"), made))
    assert all(f"schema {each.schema}:" in text for each, text in zip(made, said, strict=True))


@pytest.mark.long
def test_a_handler_of_one_publishes_to_the_other(two: Pair) -> None:
    """It names no cause of another log, and is not taken for one that says no cause (GL004)."""
    ours, theirs = two
    with ours.conn.transaction():  # of one batch, as many units
        for n in range(10):
            ours.publish(n, key=f"k{n}")
    for n in range(10, 20):
        ours.publish(n)
    ours.start("cross")
    theirs.start("send")
    theirs.until_did("send", 20)
    assert sorted(theirs.did("send")) == list(range(20))
    assert sorted(ours.did("cross")) == list(range(20))
    assert ours.value("select count(*) from gapless.dead_letter") == 0
    assert theirs.value("select count(cause) from gapless.outbox_message_t") == 0
