"""A standby that is promoted while it lacks the last seconds: what was given is given again.

Offsets, ids and xids of what was lost go to other events. A receiver that dedupes by a unit's key
must not take the one for the other; what survived keeps its key, however often it is handled.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import gapless
from gapless.consume.unit import Unit
from gapless.db.migrate import migrate
from gapless.errors import WaitError
from gapless.features.server.postgres.cluster import Cluster
from gapless.features.server.server import throwaway_cluster
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from gapless.testing import drain
from support.fleet import until
from support.standby import copy_of, cut_off, follow, promote
from support.supervisors import Runs


class Mailbox:
    """What a receiver elsewhere saw: keys with the events under them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[str], UUID]] = []

    def deliver(self, dsn: str, *, refuse: str = "", group: str = "mail") -> None:
        """Handle what is there as an at-least-once group does."""

        @gapless.handler(topic="orders", group=group, delivery="at-least-once")
        def send(unit: Unit) -> None:
            names = [str(event.event_type) for event in unit]
            self.seen.append((unit.idempotency_key, names, unit.transaction_id))
            if refuse in names:
                raise ValueError("refused")

        drain(dsn, send)

    def keys(self) -> dict[str, set[str]]:
        """The keys under which each event was seen."""
        found: dict[str, set[str]] = {}
        for key, names, _ in self.seen:
            for name in names:
                found.setdefault(name, set()).add(key)
        return found


def say(conn: Connection[Any], name: str) -> UUID:
    return gapless.publish(conn, "orders", {}, key="k", event_type=name)


@contextmanager
def promoted(copy: Cluster) -> Iterator[Connection[Any]]:
    """Start what was copied as a standby, and promote it."""
    copy.start()
    try:
        promote(copy)
        with psycopg.connect(copy.dsn(), autocommit=True) as conn:
            yield conn
    finally:
        copy.stop("immediate")


def install(conn: Connection[Any]) -> None:
    migrate(conn)
    create_chunks(conn)
    ensure_topic(conn, "orders", partitions=1)


@pytest.mark.long
@pytest.mark.chaos
def test_what_is_given_again_has_another_key() -> None:
    box = Mailbox()
    with throwaway_cluster() as old:
        with psycopg.connect(old.dsn(), autocommit=True) as conn:
            install(conn)
            ids = {name: say(conn, name) for name in ("first", "refused", "third")}
            sequence(conn)
            box.deliver(old.dsn(), refuse="refused")
        old.stop("fast")
        standby = copy_of(old)
        old.start()
        with psycopg.connect(old.dsn(), autocommit=True) as conn:
            lost = {name: say(conn, name) for name in ("lost", "lost too")}
            sequence(conn)
            box.deliver(old.dsn())
        old.stop("immediate")

        with promoted(standby) as conn:
            later = {name: say(conn, name) for name in ("later", "latest")}
            sequence(conn)
            box.deliver(standby.dsn())
            same = set(lost.values()) & set(later.values())
            assert not same, "a derived transaction_id of something that was lost"
            with pytest.raises(WaitError) as caught:
                gapless.wait_for(conn, "mail", lost["lost"], 0)
            assert caught.value.state == "unknown"
            assert gapless.wait_for(conn, "mail", later["later"], 10) == "handled"
            assert gapless.wait_for(conn, "mail", ids["first"], 10) == "handled"

            # What survived is handled once more: set aside before, and by a new group.
            conn.execute("select gapless.redrive_letter('mail', 'orders', 0, 2, 'ann')")
            box.deliver(standby.dsn())
            box.deliver(standby.dsn(), group="mail2")
            read = conn.execute("select transaction_id from gapless.read('orders', 0)").fetchall()
            assert [row[0] for row in read] == [*ids.values(), *later.values()]
    offsets = {(names[0], key.split("@")[1]) for key, names, _ in box.seen}
    assert {("lost", "4"), ("later", "4~2"), ("lost too", "5"), ("latest", "5~2")} <= offsets
    keys = {
        name: {key for key in found if key.startswith("mail/")}
        for name, found in box.keys().items()
    }
    assert all(len(found) == 1 for found in keys.values()), keys
    assert len(set.union(*keys.values())) == len(keys), "one key, two events"
    assert [id_ for _, names, id_ in box.seen if names == ["refused"]] == [ids["refused"]] * 3


def both(*servers: Cluster) -> str:
    """A DSN of whichever of them takes writes."""
    parts = [conninfo_to_dict(each.dsn()) for each in servers]
    lists = {word: ",".join(str(part[word]) for part in parts) for word in ("host", "port")}
    named = {word: parts[0][word] for word in ("user", "dbname")}
    return make_conninfo(**named, **lists, target_session_attrs="read-write")


@pytest.mark.long
@pytest.mark.chaos
@pytest.mark.parametrize("group", ["once", "outside"])
def test_supervisors_of_a_queue_follow_to_a_server_that_lacks_the_end(
    group: str, tmp_path: Path
) -> None:
    """All events of the log that is left are handled, exactly once where that is promised (Q1, Q4)."""
    with throwaway_cluster() as old:
        with psycopg.connect(old.dsn(), autocommit=True) as conn:
            migrate(conn)
            create_chunks(conn)
        old.stop("fast")
        standby = follow(old)
        conn = psycopg.connect(old.dsn(), autocommit=True)
        runs = Runs(both(old, standby), conn, tmp_path)
        try:
            supervisors = [runs.start(group) for _ in range(2)]
            runs.until_done(runs.publish(count=100))
            runs.publish(*({"sleep": 0.02} for _ in range(60)))
            cut_off(old, standby)
            runs.until_done(runs.publish(*({"sleep": 0.001} for _ in range(150))), 60)
            lost = runs.publish(*({"sleep": 0.05} for _ in range(200)))
            until(lambda: runs.done().keys() & lost, "amid them", within=runs.state)
            for each in supervisors:  # they hear of deaths when the old server is gone
                each.send_signal(signal.SIGSTOP)
                for pid in runs.workers(each):
                    os.kill(pid, signal.SIGKILL)
            old.stop("immediate")
            standby.start()
            promote(standby)
            for each in supervisors:
                each.send_signal(signal.SIGCONT)
            with closing(psycopg.connect(standby.dsn(), autocommit=True)) as runs.conn:
                for _ in range(20):
                    runs.publish(count=20)
                runs.until_empty(group, 120)
                assert_all_handled(runs, group)
        finally:
            runs.close()
            print(runs.logs())  # noqa: T201 - pytest shows it when the test failed
            conn.close()
            standby.stop("immediate")


def assert_all_handled(runs: Runs, group: str) -> None:
    """All events that are left were handled; once, if the group promises that."""
    log = "select (o.payload ->> 'n')::int from gapless.outbox_message_t o"
    left = {n for (n,) in runs.conn.execute(log).fetchall()}
    done = runs.done()
    assert left <= done.keys()
    assert not runs.dead(group)
    assert group == "outside" or done == dict.fromkeys(left, 1)
    timelines = "select distinct timeline from gapless.log_segment order by 1"
    assert runs.conn.execute(timelines).fetchall() == [(1,), (2,)]
