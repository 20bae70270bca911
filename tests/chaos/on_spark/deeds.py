"""What a cluster, its tasks and its drivers have to go through.

As the faults of chaos.arena: a deed harms, yields how long, and mends; a driver that is gone is
followed by a new one.
"""

import signal
import time
from collections.abc import Callable, Iterator
from functools import partial

from chaos.arena import Arena, kill
from chaos.faults import pause
from chaos.on_spark.cluster import Cluster
from chaos.process import LOOK_AGAIN_S, Process, is_stopped, is_up
from chaos.run import wait_until

AIM_S = 60.0
STOP_S = 1.0  # for a process to be seen stopped
END_S = 60.0  # for a driver whose Spark is gone to see that, and leave
BEYOND_TTL_S = 4.0  # the ttl of a run is 3 s
DEEDS: dict[str, Callable[[Arena, Cluster], Iterator[float]]] = {}
problems: list[str] = []


def deed(act: Callable[[Arena, Cluster], Iterator[float]]) -> Callable[..., Iterator[float]]:
    DEEDS[act.__name__] = act
    return act


@deed
def kill_task(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """kill -9 of the Python process of a task, inside a handler."""
    pid = _hold(arena, cluster)
    if pid is not None:
        arena.note("kill_worker", pid)
        kill(pid, signal.SIGKILL)
    yield 0.5


@deed
def kill_executor(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """kill -9 of the JVM of an executor, while a handler runs under it."""
    pid = _hold(arena, cluster)
    if pid is not None:
        executor = cluster.executor_of(pid)
        if executor is not None:
            arena.note("kill_machine", f"{executor} {pid}")
            kill(executor, signal.SIGKILL)
        kill(pid, signal.SIGCONT)  # a stopped one would not see that its executor is gone
    yield 1.0


@deed
def pause_driver(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """SIGSTOP of a driver and its JVM beyond the ttl, while its executors go on."""
    for driver in _pick(arena, cluster):
        pids = [driver.pid, *cluster.jvms(driver)]
        yield from pause(arena, "pause_machine", pids, BEYOND_TTL_S)
        _expect(cluster, driver, None)


@deed
def pause_task(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """SIGSTOP of a task inside a handler, of an executor too, until the driver was replaced."""
    pid = _hold(arena, cluster)
    if pid is not None:
        executor = cluster.executor_of(pid)
        victims = [pid, *([executor] if executor and arena.random.random() < 0.5 else [])]
        yield from pause(arena, "pause_machine", victims, BEYOND_TTL_S)


@deed
def kill_jvm(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """kill -9 of the JVM of a driver: it has to leave the group and end, with 1."""
    yield from _signal_jvm(arena, cluster, "kill_jvm", signal.SIGKILL)


@deed
def pause_jvm(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """SIGSTOP of the JVM of a driver, for ever: the driver has to leave, and to end it."""
    yield from _signal_jvm(arena, cluster, "pause_jvm", signal.SIGSTOP)


def _signal_jvm(
    arena: Arena, cluster: Cluster, kind: str, number: signal.Signals
) -> Iterator[float]:
    for driver in _pick(arena, cluster):
        jvms = cluster.jvms(driver)
        arena.note(kind, f"{driver.pid} {jvms}")
        for pid in jvms:
            kill(pid, number)
        yield 0
        _expect(cluster, driver, 1)


@deed
def kill_driver(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """kill -9 of a driver's Python; its JVM has to end by itself, and its executors."""
    for driver in _pick(arena, cluster):
        arena.note("kill_driver", driver.pid)
        driver.signal(signal.SIGKILL)
        yield 1.0


@deed
def kill_driver_and_jvm(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """kill -9 of a driver and its JVM at once, as the end of its machine would."""
    for driver in _pick(arena, cluster):
        arena.note("kill_driver_and_jvm", driver.pid)
        driver.signal_all(signal.SIGKILL)
        yield 1.0


@deed
def dismiss_driver(arena: Arena, cluster: Cluster) -> Iterator[float]:
    """A driver leaves as it should, with 0."""
    for driver in _pick(arena, cluster):
        arena.note("dismiss_driver", driver.pid)
        driver.signal(signal.SIGTERM)
        yield 0
        _expect(cluster, driver, 0)


def _pick(arena: Arena, cluster: Cluster) -> list[Process]:
    """One of the drivers that work, if there is one soon."""
    give_up_s = time.monotonic() + END_S
    while not (found := [driver for driver in cluster.alive() if is_up(driver)]):
        if time.monotonic() > give_up_s:
            return []
        cluster.replace()
        time.sleep(LOOK_AGAIN_S)
    return [arena.random.choice(found)]


def _hold(arena: Arena, cluster: Cluster) -> int | None:
    """Stop the process of a task inside a handler, if there is one soon; it cannot leave it."""
    give_up_s = time.monotonic() + AIM_S
    while time.monotonic() < give_up_s:
        pids = cluster.tasks()
        for _ in range(50):  # to look for processes takes longer than a handler
            for pid in pids:
                if arena.is_handling(pid) and _stop_inside(arena, pid):
                    return pid
            time.sleep(0.002)
    problems.append(f"no task was inside a handler for {AIM_S:.0f} s")
    return None


def _stop_inside(arena: Arena, pid: int) -> bool:
    """Stop a process if it is still inside its handler then; else it goes on."""
    kill(pid, signal.SIGSTOP)
    if wait_until(partial(is_stopped, pid), STOP_S) and arena.is_handling(pid):
        return True
    kill(pid, signal.SIGCONT)
    return False


def _expect(cluster: Cluster, driver: Process, code: int | None) -> None:
    """Note a driver that did not end as it should; None: it goes on."""
    ended = driver.end(END_S if code is not None else 0.5)
    if ended != code:
        problems.append(f"{driver.name} ended with {ended} instead of {code}")
