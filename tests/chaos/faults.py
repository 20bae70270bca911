"""Every fault there is, by name. A fault is a generator: it harms, yields how long, and mends.

It is written down before the harm is done, with the process ids it is aimed at: so that coverage can
tell what a worker was at. What it started or stopped itself, it replaces.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import psycopg
from psycopg import Connection

from chaos.history import Fault, Note, Writer
from chaos.scene import MACHINES_MAX, Process, Scene, running

PRODUCERS_LINE = MACHINES_MAX - 1  # the machine that producers run on
RATE = 12.0  # transactions a second of a producer, about
PAUSE_S = (0.1, 3.5)  # the ttl of a run is 1.5 s
SHORT_S = (0.05, 0.6)
EATEN_MAX = 3


@dataclass
class Arena:
    """A scene, its fate, and where it is written down."""

    scene: Scene
    random: Random
    writer: Writer
    supervisors: int
    seed: int
    harmed: set[int] = field(default_factory=set)  # lines and processes under a fault that lasts
    eaten: int = 0

    def note(self, kind: str, target: object, *, crash: bool = False) -> None:
        self.writer.write(Fault(kind=kind, target=str(target), crash=crash))

    def note_end(self, kind: str, target: object) -> None:
        self.writer.write(Fault(kind=kind, target=str(target), phase="end"))

    def pick(self) -> Process | None:
        """One of the supervisors that nothing lasting is done to."""
        sound = [p for p in running(self.scene.supervisors) if p.pid not in self.harmed]
        return self.random.choice(sound) if sound else None

    def lasting(self) -> float:
        return self.random.uniform(*self.random.choice((SHORT_S, SHORT_S, PAUSE_S)))

    def replace(self) -> None:
        """Start supervisors and producers until there are as many as there should be."""
        scene = self.scene
        scene.supervisors[:] = running(scene.supervisors)
        while len(scene.supervisors) < self.supervisors:
            scene.start_supervisor(min(scene.free_line(), PRODUCERS_LINE - 1))


Deed = Callable[[Arena], Iterator[float]]
FAULTS: dict[str, Deed] = {}


def fault(deed: Deed) -> Deed:
    FAULTS[deed.__name__] = deed
    return deed


# -- processes end --------------------------------------------------------------------------------


@fault
def kill_worker(arena: Arena) -> Iterator[float]:
    """kill -9 of one child of a supervisor: a worker, or its sequencer."""
    victim = arena.pick()
    if victim is not None and (children := victim.children()):
        pid = arena.random.choice(children)
        arena.note("kill_worker", pid)
        kill(pid, signal.SIGKILL)
    yield 0


@fault
def kill_supervisor(arena: Arena) -> Iterator[float]:
    """kill -9 of the supervisor alone; its workers must follow."""
    victim = arena.pick()
    if victim is not None:
        arena.note("kill_supervisor", f"{victim.pid} {_list(victim)}")
        victim.signal(signal.SIGKILL)
        yield arena.random.uniform(*SHORT_S)
        arena.replace()


@fault
def kill_machine(arena: Arena) -> Iterator[float]:
    """kill -9 of a supervisor and all its children."""
    victim = arena.pick()
    if victim is not None:
        arena.note("kill_machine", f"{victim.pid} {_list(victim)}")
        victim.signal_all(signal.SIGKILL)
        yield arena.random.uniform(*SHORT_S)
        arena.replace()


@fault
def kill_producer(arena: Arena) -> Iterator[float]:
    """kill -9 of a producer, wherever it is in its transaction."""
    scene = arena.scene
    alive = running(scene.producers)
    if alive:
        victim = arena.random.choice(alive)
        arena.note("kill_producer", victim.pid)
        victim.signal_all(signal.SIGKILL)
        scene.producers.remove(victim)
        scene.start_producer(victim.line, arena.seed, RATE)
    yield 0


@fault
def leave(arena: Arena) -> Iterator[float]:
    """A supervisor leaves as it should, and another one comes."""
    victim = arena.pick()
    if victim is not None:
        arena.note("leave", f"{victim.pid} {_list(victim)}")
        arena.scene.dismiss(victim)
        yield arena.random.uniform(0.2, 1.5)
        arena.replace()


@fault
def come_and_go(arena: Arena) -> Iterator[float]:
    """One more supervisor joins, for a short while."""
    guest = arena.scene.start_supervisor(min(arena.scene.free_line(), PRODUCERS_LINE - 1))
    arena.harmed.add(guest.pid)
    arena.note("come_and_go", guest.pid)
    yield arena.random.uniform(0.5, 3.0)
    arena.scene.dismiss(guest)


# -- processes pause ------------------------------------------------------------------------------


@fault
def pause_worker(arena: Arena) -> Iterator[float]:
    victim = arena.pick()
    if victim is not None and (children := victim.children()):
        yield from _pause(arena, "pause_worker", [arena.random.choice(children)])


@fault
def pause_supervisor(arena: Arena) -> Iterator[float]:
    victim = arena.pick()
    if victim is not None:
        yield from _pause(arena, "pause_supervisor", [victim.pid])


@fault
def pause_machine(arena: Arena) -> Iterator[float]:
    """SIGSTOP of a supervisor and all its children: a virtual machine that is moved."""
    victim = arena.pick()
    if victim is not None:
        arena.harmed.add(victim.pid)
        yield from _pause(arena, "pause_machine", [victim.pid, *victim.children()])
        arena.harmed.discard(victim.pid)


@fault
def pause_backend(arena: Arena) -> Iterator[float]:
    """SIGSTOP of a process of the server that works for one of ours."""
    pids = backends(arena.scene.admin(), "gapless/%")
    if pids:
        yield from _pause(arena, "pause_backend", [arena.random.choice(pids)])


def _pause(arena: Arena, kind: str, pids: list[int]) -> Iterator[float]:
    target = " ".join(map(str, pids))
    arena.note(kind, target)
    for pid in pids:
        kill(pid, signal.SIGSTOP)
    yield arena.lasting()
    for pid in pids:
        kill(pid, signal.SIGCONT)  # harmless to whoever else has that pid by now
    arena.note_end(kind, target)


# -- sessions and the server ----------------------------------------------------------------------


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
        ["gapless/supervisor", "gapless/worker%", "gapless/worker%", "gapless/sequencer", "chaos/p%"]
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
    time.sleep(arena.random.uniform(0, 1.0))  # not by yield: other faults need the server
    arena.scene.cluster.start()
    arena.note_end("restart_immediate", "server")
    yield 0


@fault
def restart_fast(arena: Arena) -> Iterator[float]:
    arena.note("restart_fast", "server")
    arena.scene.cluster.restart("fast")
    arena.note_end("restart_fast", "server")
    yield 0


@fault
def exhaust_connections(arena: Arena) -> Iterator[float]:
    """Take every connection there is, and then what dies cannot come back."""
    arena.note("exhaust_connections", "server")
    taken: list[Connection] = []
    refused = 0
    while refused < 3 and len(taken) < 200:
        try:
            taken.append(psycopg.connect(arena.scene.dsn(PRODUCERS_LINE), connect_timeout=2))
        except psycopg.Error:
            refused += 1
    arena.writer.write(Note(what="connections exhausted", detail=str(len(taken))))
    yield from kill_worker(arena)
    yield arena.random.uniform(0.2, 2.0)
    for conn in taken:
        conn.close()
    arena.note_end("exhaust_connections", "server")


@fault
def lock_tables(arena: Arena) -> Iterator[float]:
    """Somebody holds ACCESS EXCLUSIVE on a table that everything needs."""
    table = arena.random.choice(["lease", "consumer_offsets", "member", "log_segment"])
    arena.note("lock_tables", table)
    with suppress(psycopg.Error), psycopg.connect(arena.scene.admin_dsn) as conn:
        conn.execute("set lock_timeout = '500ms'")
        conn.execute(f"lock table gapless.{table}")
        yield arena.random.uniform(*SHORT_S)
    arena.note_end("lock_tables", table)


def backends(conn: Connection, whose: str) -> list[int]:
    """The server's processes for our sessions whose application_name is LIKE that."""
    with suppress(psycopg.Error):
        rows = conn.execute(
            "select pid from pg_stat_activity where application_name like %s order by pid", [whose]
        ).fetchall()
        return [row[0] for row in rows]
    return []


def kill(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _list(victim: Process) -> str:
    return " ".join(map(str, victim.children()))
