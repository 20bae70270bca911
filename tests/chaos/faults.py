"""The faults of processes: they end, or pause, or leave, or come."""

import signal
from collections.abc import Iterator

from chaos.arena import SHORT_S, Arena, fault, kill
from chaos.process import Process, running, title

# -- processes end --------------------------------------------------------------------------------


@fault
def kill_worker(arena: Arena) -> Iterator[float]:
    """kill -9 of one child of a supervisor: a worker, or its sequencer."""
    victim = arena.pick()
    if victim is not None and (pid := arena.aim(victim)):
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
def kill_sequencers(arena: Arena) -> Iterator[float]:
    """kill -9 of every sequencer, the active one too: for a moment nobody gives offsets."""
    pids = _sequencers(arena)
    arena.note("kill_sequencers", " ".join(map(str, pids)))
    for pid in pids:
        kill(pid, signal.SIGKILL)
    yield 0


@fault
def kill_producer(arena: Arena) -> Iterator[float]:
    """kill -9 of a producer or a client, wherever it is in its transaction."""
    scene = arena.scene
    alive = running(scene.producers)
    if alive:
        victim = arena.random.choice(alive)
        arena.note("kill_producer", victim.pid)
        victim.signal_all(signal.SIGKILL)
        scene.producers.remove(victim)
        scene.again[victim.name]()
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
    guest = arena.start_supervisor()
    arena.harmed.add(guest.pid)
    arena.note("come_and_go", guest.pid)
    yield arena.random.uniform(0.5, 3.0)
    arena.scene.dismiss(guest)


# -- processes pause ------------------------------------------------------------------------------


@fault
def pause_worker(arena: Arena) -> Iterator[float]:
    victim = arena.pick()
    if victim is not None and (pid := arena.aim(victim)):
        yield from pause(arena, "pause_worker", [pid])


@fault
def pause_sequencers(arena: Arena) -> Iterator[float]:
    """SIGSTOP of all sequencers there are: the active one keeps its role and does nothing."""
    yield from pause(arena, "pause_sequencers", _sequencers(arena))


@fault
def pause_supervisor(arena: Arena) -> Iterator[float]:
    victim = arena.pick()
    if victim is not None:
        yield from pause(arena, "pause_supervisor", [victim.pid])


@fault
def pause_machine(arena: Arena) -> Iterator[float]:
    """SIGSTOP of a supervisor and all its children: a virtual machine that is moved."""
    victim = arena.pick()
    if victim is not None:
        arena.harmed.add(victim.pid)
        yield from pause(arena, "pause_machine", [victim.pid, *victim.children()])
        arena.harmed.discard(victim.pid)


def pause(
    arena: Arena, kind: str, pids: list[int], seconds: float | None = None
) -> Iterator[float]:
    target = " ".join(map(str, pids))
    arena.note(kind, target)
    for pid in pids:
        kill(pid, signal.SIGSTOP)
    yield arena.lasting() if seconds is None else seconds
    for pid in pids:
        kill(pid, signal.SIGCONT)  # harmless to whoever else has that pid by now
    arena.note_end(kind, target)


def _list(victim: Process) -> str:
    return " ".join(map(str, victim.children()))


def _sequencers(arena: Arena) -> list[int]:
    children = [pid for each in running(arena.scene.supervisors) for pid in each.children()]
    return [pid for pid in children if "sequencer" in title(pid)]
