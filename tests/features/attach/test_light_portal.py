"""light-portal's outbox, live, through the whole path, every step killed: each event handled once in all."""

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing import get_context
from typing import Any

import pytest
from psycopg import Connection

from features.attach import classic
from gapless.db.connect import connect
from gapless.features.attach import ops
from gapless.features.attach import switch as moves
from gapless.features.attach.ops import AttachRequest, attach_table, list_attachments
from gapless.features.attach.switch import hand_back, place_group, switch_group
from gapless.log.topics import ensure_topic
from support.patience import patience

GROUP = "user-query-group"
TABLE = "public.outbox_message_t"
WISH = AttachRequest(
    table=TABLE, topic="outbox", id="c_offset", places={"table": "public.consumer_offsets"}
)
Step = Callable[[Connection[Any], str], object]

add: Step = lambda conn, dsn: attach_table(conn, WISH, batch_rows=20)  # noqa: E731
group: Step = lambda conn, dsn: place_group(conn, TABLE, GROUP, dsn=dsn)  # noqa: E731
switch: Step = lambda conn, dsn: switch_group(conn, TABLE, GROUP, dsn=dsn)  # noqa: E731
back: Step = lambda conn, dsn: hand_back(conn, TABLE, GROUP, dsn=dsn)  # noqa: E731


@pytest.fixture
def portal(conn: Connection) -> Connection:
    ensure_topic(conn, "outbox", partitions=classic.PARTITIONS)
    conn.execute(classic.TABLES.encode())
    return conn


def killed(step: Step, dsn: str, at: int, *, behind: bool) -> bool:
    """Do a step in a process that is killed before, or behind, its n-th statement; False: it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            _lie_in_wait(at, behind)
            with connect(dsn, role="attach") as conn:
                step(conn, dsn)
        except BaseException:  # noqa: BLE001 - the parent's interpreter is not ours to end
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), "the step failed"
    return status != 0


def _lie_in_wait(at: int, behind: bool) -> None:
    whole, seen = ops.row, count(1)

    def row(*args: Any, **params: Any) -> tuple[Any, ...]:
        is_here = next(seen) == at
        if is_here and not behind:
            os.kill(os.getpid(), signal.SIGKILL)
        found = whole(*args, **params)
        if is_here:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    ops.row = moves.row = row


def through(step: Step, dsn: str, kills_max: int = 6) -> int:
    """Do a step, killed at one place after the other, until it comes to its end; return the kills."""
    for n in range(kills_max):
        if not killed(step, dsn, n + 1, behind=n % 2 == 1):
            return n
    with connect(dsn, role="attach") as conn:
        step(conn, dsn)
    return kills_max


@contextmanager
def running(dsn: str) -> Iterator[Callable[[], None]]:
    """A producer, the old consumers and the new group; call it to stop the producer."""
    fork = get_context("fork")
    ends = [fork.Event(), fork.Event()]
    works = [
        fork.Process(target=classic.produce, args=(dsn, ends[0])),
        *(
            fork.Process(target=classic.consume_classic, args=(dsn, n, ends[1]))
            for n in range(classic.PARTITIONS)
        ),
        fork.Process(target=classic.consume_group, args=(dsn, ends[1])),
    ]
    for each in works:
        each.start()
    try:
        yield ends[0].set
    finally:
        for end in ends:
            end.set()
        for each in works:
            each.join(60)
    assert [each.exitcode for each in works] == [0] * len(works)


def some_more(conn: Connection) -> None:
    """Let whoever handles events handle some."""
    row = "select count(*) from public.handled"
    (before,) = conn.execute(row).fetchone() or (0,)
    give_up_s = time.monotonic() + patience(60)
    while (conn.execute(row).fetchone() or (0,))[0] < before + 20:
        assert time.monotonic() < give_up_s, "nobody handles anything"
        time.sleep(0.02)


def handled_all(conn: Connection) -> bool:
    row = conn.execute(
        "select (select count(*) from public.outbox_message_t),"
        " (select count(distinct c_offset) from public.handled)"
    ).fetchone()
    assert row is not None
    return bool(row[0] == row[1])


def check(conn: Connection) -> dict[str, int]:
    """Each event was handled once in all, and those of a host in their order."""
    give_up_s = time.monotonic() + patience(60)
    while not handled_all(conn):
        assert time.monotonic() < give_up_s, "an event was not handled"
        time.sleep(0.05)
    rows = conn.execute("select host_id, c_offset, who from public.handled order by n").fetchall()
    offsets = [offset for _, offset, _ in rows]
    assert len(offsets) == len(set(offsets)), "an event was handled twice"
    for host in {host for host, _, _ in rows}:
        of_host = [offset for each, offset, _ in rows if each == host]
        assert of_host == sorted(of_host), "an event was handled out of its order"
    return {who: sum(1 for *_, each in rows if each == who) for who in ("old", "group")}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_whole_path(portal: Connection, dsn: str) -> None:
    kills: list[int] = []
    with running(dsn) as stop:
        some_more(portal)
        kills += [through(step, dsn) for step in (add, group, switch)]
        some_more(portal)
        assert list_attachments(portal)[0].groups == [f"{GROUP}: switched"]
        kills.append(through(back, dsn))
        some_more(portal)
        assert list_attachments(portal)[0].groups == [f"{GROUP}: ready"]
        kills.append(through(switch, dsn))
        some_more(portal)
        stop()
        of_whom = check(portal)
    assert min(of_whom.values()) >= 20
    assert min(kills) >= 3, kills
    assert list_attachments(portal)[0].problem is None
