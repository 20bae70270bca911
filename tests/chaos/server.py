"""The faults of the server, and what operators and strangers do to sessions."""

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import psycopg
from psycopg import Connection

from chaos.arena import PRODUCERS_LINE, SHORT_S, Arena, fault, kill
from chaos.faults import kill_worker, pause
from chaos.history import Note
from chaos.process import children_of
from chaos.scene import SERVER_OPTIONS, TOPIC
from support.standby import follow, promote

PARTITIONS = (2, 6)
FOLLOWED_S = (0.5, 2.0)  # so long the standby follows before it is needed
TRIES, AGAIN_S = 5, 0.4
ALSO = 0.5  # of the changes: as often each topic of the chain changes, too


@fault
def pause_backend(arena: Arena) -> Iterator[float]:
    """SIGSTOP of a process of the server that works for one of ours."""
    pids = backends(arena.scene.admin(), "gapless/%")
    if pids:
        yield from pause(arena, "pause_backend", [arena.random.choice(pids)])


@fault
def terminate_sessions(arena: Arena) -> Iterator[float]:
    """pg_terminate_backend of some of our sessions, of one kind."""
    _signal_sessions(arena, "terminate_sessions", "select pg_terminate_backend(%s)")
    yield 0


@fault
def cancel_statements(arena: Arena) -> Iterator[float]:
    """pg_cancel_backend: whatever statement runs right now fails, the session lives."""
    for _ in range(10):
        _signal_sessions(arena, "cancel_statements", "select pg_cancel_backend(%s)")
        yield 0.01


def _signal_sessions(arena: Arena, kind: str, statement: str) -> None:
    conn = arena.scene.admin()
    whose = arena.random.choice(
        [
            "gapless/supervisor",
            "gapless/worker%",
            "gapless/worker%",
            "gapless/sequencer",
            "chaos/p%",
        ]
    )
    pids = backends(conn, whose)
    chosen = arena.random.sample(pids, k=min(len(pids), arena.random.randint(1, 4)))
    arena.note(kind, f"{whose} {len(chosen)}")
    for pid in chosen:
        with suppress(psycopg.Error):
            conn.execute(statement, [pid])


@fault
def kill_backend(arena: Arena) -> Iterator[float]:
    """kill -9 of one of the server's processes: it ends all sessions and recovers."""
    pids = backends(arena.scene.admin(), "gapless/%")
    if pids:
        pid = arena.random.choice(pids)
        arena.note("kill_backend", pid, crash=True)
        kill(pid, signal.SIGKILL)
    yield 0


@fault
def restart_immediate(arena: Arena) -> Iterator[float]:
    arena.note("restart_immediate", "server", crash=True)
    arena.scene.cluster.stop("immediate")
    arena.note_lost("restart_immediate", "server")
    time.sleep(arena.random.uniform(0, 1.0))  # not by yield: other faults need the server
    arena.scene.cluster.start()
    arena.note_end("restart_immediate", "server")
    yield 0


@fault
def restart_fast(arena: Arena) -> Iterator[float]:
    arena.note("restart_fast", "server")
    for pid in children_of(arena.scene.cluster.postmaster_pid or 0):
        kill(pid, signal.SIGCONT)  # the server would wait for one that another fault has stopped
    arena.scene.cluster.restart("fast")
    arena.note_end("restart_fast", "server")
    yield 0


@fault
def promote_standby(arena: Arena) -> Iterator[float]:
    """The server is gone for good, and its standby takes its place, on another timeline.

    What was acknowledged is there: meanwhile COMMIT waits for the standby. What the old one had
    written and not sent is lost, and its offsets, ids and xids go to other events.
    """
    scene = arena.scene
    old = scene.cluster
    arena.note("promote_standby", "server", crash=True)
    old.stop("immediate")
    standby = follow(old, SERVER_OPTIONS | {"synchronous_commit": "on"})
    # Not by yield: an operator who cancels a COMMIT that waits for the standby may have it lost.
    time.sleep(arena.random.uniform(*FOLLOWED_S))
    old.stop("immediate")
    arena.note_lost("promote_standby", "server")
    promote(standby)
    scene.move_to(standby)
    shutil.rmtree(old.data_dir)
    arena.note_end("promote_standby", "server")
    yield 0


@fault
def pause_server(arena: Arena) -> Iterator[float]:
    """SIGSTOP of the whole server: nobody did anything wrong, and nobody is to be evicted for it."""
    postmaster = arena.scene.cluster.postmaster_pid
    if postmaster is not None:
        pids = [postmaster, *children_of(postmaster)]
        arena.note("pause_server", "server")
        for pid in pids:
            kill(pid, signal.SIGSTOP)
        time.sleep(arena.lasting())  # not by yield: other faults need the server
        for pid in pids:
            kill(pid, signal.SIGCONT)
        arena.note_end("pause_server", "server")
    yield 0


@fault
def hold_snapshot(arena: Arena) -> Iterator[float]:
    """A stranger's transaction stays open: vacuum cleans nothing, an old xid is in every snapshot."""
    arena.note("hold_snapshot", "server")
    with suppress(psycopg.Error), _stranger(arena) as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select pg_current_xact_id()")
        yield arena.random.uniform(1.0, 10.0)
    arena.note_end("hold_snapshot", "server")


@fault
def lock_rows(arena: Arena) -> Iterator[float]:
    """Somebody locks the rows of groups, leases and offsets, in an order that is not ours."""
    tables = ["consumer_group", "lease", "consumer_offsets", "member"]
    chosen = arena.random.sample(tables, k=2)
    arena.note("lock_rows", " ".join(chosen))
    with suppress(psycopg.Error), _stranger(arena) as conn:
        for table in chosen:
            conn.execute(f"select from gapless.{table} for update")
            yield arena.random.uniform(*SHORT_S)
    arena.note_end("lock_rows", " ".join(chosen))


@fault
def repartition(arena: Arena) -> Iterator[float]:
    """The topic of the orders gets another number of partitions, now and then the others, too."""
    _, *below = arena.scene.topics
    also = [topic for topic in below if arena.random.random() < ALSO]
    for topic in (TOPIC, *also):
        partitions = arena.random.randint(*PARTITIONS)
        arena.note("repartition", f"{topic} {partitions}")
        for _ in range(TRIES):  # on a busy machine its locks are not free in half a second
            with suppress(psycopg.Error), _stranger(arena) as conn:
                conn.autocommit = True
                conn.execute("select gapless.set_partitions(%s, %s)", [topic, partitions])
                break
            yield AGAIN_S
    yield 0


@fault
def exhaust_connections(arena: Arena) -> Iterator[float]:
    """Take every connection there is, and then what dies cannot come back."""
    arena.note("exhaust_connections", "server")
    taken = refused = 0
    with ExitStack() as open_:  # closed, however the run ends
        while refused < 3 and taken < 200:
            try:
                conn = psycopg.connect(arena.scene.dsn(PRODUCERS_LINE), connect_timeout=2)
            except psycopg.Error:
                refused += 1
                continue
            open_.enter_context(closing(conn))
            taken += 1
        arena.writer.write(Note(what="connections exhausted", detail=str(taken)))
        yield from kill_worker(arena)
        yield arena.random.uniform(0.2, 2.0)
    arena.note_end("exhaust_connections", "server")


@fault
def lock_tables(arena: Arena) -> Iterator[float]:
    """Somebody holds ACCESS EXCLUSIVE on a table that everything needs."""
    table = arena.random.choice(["lease", "consumer_offsets", "member", "log_segment"])
    arena.note("lock_tables", table)
    with suppress(psycopg.Error), _stranger(arena) as conn:
        conn.execute(f"lock table gapless.{table}")
        yield arena.random.uniform(*SHORT_S)
    arena.note_end("lock_tables", table)


def _stranger(arena: Arena) -> Connection:
    """Open a session that waits for nobody: the lock may be held by another fault of ours."""
    return psycopg.connect(arena.scene.admin_dsn, options="-c lock_timeout=500ms")


def backends(conn: Connection, whose: str) -> list[int]:
    """The server's processes for our sessions whose application_name is LIKE that."""
    with suppress(psycopg.Error):
        rows = conn.execute(
            "select pid from pg_stat_activity where application_name like %s order by pid", [whose]
        ).fetchall()
        return [row[0] for row in rows]
    return []
