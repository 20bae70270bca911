"""A run: load and faults, a quiet drain, and then the verdict."""

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from psycopg import Connection

from chaos.arena import FAULTS, PRODUCERS_LINE, RATE, Arena
from chaos.chain import BELOW, links
from chaos.chain import GROUPS as CHAIN
from chaos.checker import Violation, check
from chaos.coverage import coverage, missing
from chaos.growth import SOAK, growth, watch
from chaos.history import Note, Writer, read
from chaos.hygiene import leftovers
from chaos.later_shop import due, make_schedules, rest
from chaos.nemesis import Nemesis
from chaos.process import Process, is_up
from chaos.progress import Ended, Mark, Meter, Watch, await_end
from chaos.queue_shop import QUEUES, make_groups
from chaos.scene import QUICK, Scene, open_scene
from chaos.shop import GROUPS
from chaos.stall import Stall, longest_stall
from gapless.log.topics import ensure_topic
from support.patience import patience

PARTITIONS = 4
SUPERVISORS = 3
PRODUCERS = 4
CLIENTS = 2
HANDLERS: dict[str, object] = {"handlers": "chaos.shop,chaos.chain_shop"}
HANDLERS_OF_QUEUES: dict[str, object] = {
    "handlers": "chaos.shop,chaos.chain_shop,chaos.queue_shop",
    "workers": 2,
}
START_S = 30.0
# Of CPU without anything nearer to its end; what kills its worker does so five times.
STILL_S = 60.0
DRAIN_S_MAX = 600.0  # of the clock, for each step of the drain
# A unit that hangs is killed five times, other faults come in between, and what is placed by another
# number of partitions waits for what was placed before.
STALL_S_MAX = 60.0
PACED = ("memberTtlMs", "suspectGraceMs", "maxProcessingMs")
PACE_MAX = 3.0
LOOK_S = 5.0  # a run that is to be conclusive goes on for so long before the next look

# Two people meet unless each of their tries is cut short by a fault, or by want of CPU.
# chaos/test_operators has them meet for certain; a run does not continue for their sake.
RARE = {
    "units redriven by two people at once",
    "units discarded by two people at once, by one of them",
    "units redriven by one and discarded by another",
}
# What of a wrong end is no more than an end that was not waited for.
UNFINISHED = frozenset(
    {
        *(
            "not delivered",
            "not promoted",
            "not sequenced",
            "left waiting",
            "hanging",
            "idle in transaction",
        ),
        *("unserved", "unbalanced", "parked behind nobody"),
    }
)
# What waits for its next attempt counts; what is parked does not: it may be behind one that is dead.
LAG = """
select (
  select count(*) from gapless.dead_letter d where d.state = 'waiting'
) + coalesce(sum(greatest(0, n.last + 1 - c.next_offset)), 0)::int
from gapless.consumer_offsets c
cross join lateral (
  select coalesce(max(s.last_offset), 0) as last from gapless.log_segment s
  where (s.topic_id, s.partition_id) = (c.topic_id, c.partition_id)
) n
"""
# What grows as the groups come nearer to the end: what they passed, and what ended of what was set
# aside. A unit that waits for its next attempt again and again comes nearer to nothing.
_PASSED = """
select
  (select coalesce(sum(next_offset), 0)::bigint from gapless.consumer_offsets),
  (select count(*) from gapless.log_segment),
  (select count(*) from chaos.aside where state <> 'waiting' or what = 'DELETE')
"""
_PLACED = "select count(*) from gapless.lease where owner = target"
_SETTLED = """
select count(*) >= %(groups)s and count(l.owner) = count(*) and bool_and(l.owner = l.target)
and not exists (
  select from (
    select mg.group_id, (
      select count(*) from gapless.lease h
      where h.owner = mg.member_id and h.group_id = mg.group_id and h.topic_id = mg.topic_id
    ) as held
    from gapless.member_group mg
  ) m
  group by m.group_id having max(m.held) - min(m.held) > 1
)
from gapless.lease l
where l.group_id not in (select g.group_id from gapless.consumer_group g where g.mode = 'queue')
"""
SIZE = """
select (select count(*) from gapless.outbox_message_t), (select count(*) from chaos.effect),
  (select count(*) from gapless.dead_letter_queue), (select max(epoch) from gapless.lease)
"""


@dataclass
class Verdict:
    """What came of a run. problems: of the drain and of hygiene, one line each.

    slow: what did not come to its end in time, for want of CPU or while it still came nearer.
    """

    seed: int
    folder: Path
    server: str = ""  # its version
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    size: tuple[int, ...] = ()
    stall: Stall | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 good, 1 something that must not be, 3 inconclusive, 4 slow."""
        if self.violations or self.problems:
            return 1
        if self.slow:
            return 4
        return 3 if self.never else 0


def run(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    say: Callable[[str], None] = lambda _: None,
    kinds: list[str] | None = None,
    more_s: float = 0,
    with_queues: bool = False,
    soak: bool = False,
) -> Verdict:
    """Do a whole run; everything it starts has ended when it returns.

    soak: without faults; what grew is a problem.
    more_s: while it is not conclusive, it goes on for so much longer at most.
    with_queues: queue groups, and SQL clients of them, too.
    """
    verdict = Verdict(seed, folder)
    settings = paced(QUICK) | (HANDLERS_OF_QUEUES if with_queues else HANDLERS)
    settings |= SOAK if soak else {}
    with Meter() as meter, open_scene(folder, settings, PARTITIONS) as scene:
        arena = Arena(scene, Random(seed), Writer(folder, "nemesis"), SUPERVISORS, seed)
        populate(arena, with_queues=with_queues)
        say(f"seed {seed}: {SUPERVISORS} supervisors, {PRODUCERS} producers, {seconds:.0f} s")
        nemesis = Nemesis(arena, kinds)
        began_s = time.monotonic()
        if soak:
            verdict.problems += growth(watch(scene, seconds))
        else:
            rage(arena, nemesis, seconds, more_s)
        verdict.seconds["of faults"] = time.monotonic() - began_s
        say(f"{nemesis.done.total()} faults done; draining")
        verdict.faults = nemesis.done
        verdict.server = scene.admin().info.parameter_status("server_version") or ""
        drain(scene, verdict, meter)
        conn = scene.admin()
        arena.writer.write(Note(what="drained"))
        if not verdict.slow:
            verdict.problems += leftovers(scene, conn, meter)
        judge(verdict, conn, arena, meter)
        if kinds is None and not soak:
            verdict.never = missing(verdict.counts, FAULTS, verdict.faults)
    return verdict


def rage(arena: Arena, nemesis: Nemesis, seconds: float, more_s: float) -> None:
    """Do harm so long, and for `more_s` more at most until all has been met that a run is about."""
    give_up_s = time.monotonic() + seconds + more_s
    nemesis.rage(seconds)
    while is_missing(arena.scene, arena, nemesis) and time.monotonic() < give_up_s:
        nemesis.rage(LOOK_S)


def paced(settings: dict[str, object]) -> dict[str, object]:
    """Give honest work more time on a busy machine: else it is evicted, or killed for being stuck."""
    factor = min(patience(1.0), PACE_MAX)
    return settings | {name: int(int(str(settings[name])) * factor) for name in PACED}


def is_missing(scene: Scene, arena: Arena, nemesis: Nemesis) -> bool:
    counts = cover(scene.admin(), arena)
    return not RARE.issuperset(missing(counts, FAULTS, nemesis.done))


def cover(conn: Connection[Any], arena: Arena) -> dict[str, int]:
    records = read(arena.scene.folder)
    return coverage(conn, records, int(str(QUICK["batchSize"])), arena.eaten)


def populate(arena: Arena, *, with_queues: bool) -> None:
    """Start everybody, and wait until all partitions have an owner."""
    scene = arena.scene
    for group in (*GROUPS, *CHAIN, *(QUEUES if with_queues else ())):
        arena.writer.write(group)
    conn = scene.admin()
    for link in links(arena.seed):
        arena.writer.write(link)
        if link.into is not None:
            ensure_topic(conn, link.into, partitions=BELOW)
            scene.topics.append(link.into)
    make_schedules(conn)
    if with_queues:
        make_groups(conn)
    arena.replace()
    if not wait_until(lambda: _is_settled(conn), START_S):
        logs = "\n".join(process.log_path.read_text() for process in scene.started)
        raise RuntimeError(f"the supervisors do not get going:\n{logs}")
    for _ in range(PRODUCERS):
        scene.start_producer(PRODUCERS_LINE, arena.seed, RATE)
    for kind, number in product(("later", "queue")[: 1 + with_queues], range(CLIENTS)):
        scene.start_client(kind, PRODUCERS_LINE, arena.seed + number)


def drain(scene: Scene, verdict: Verdict, meter: Meter) -> None:
    """Let the producers finish, the groups catch up, and the supervisors leave.

    What is slow is not waited for to its end: then all are ended as they are.
    """
    began_s = time.monotonic()
    conn = scene.admin()
    steps: list[tuple[str, Callable[[], list[str]]]] = [
        ("until all was balanced", lambda: _until_settled(conn, verdict, meter)),
        ("", lambda: _end(scene.producers, verdict, meter)),
        ("until nothing was due", lambda: _until_rest(conn, verdict, meter)),
        ("until all was handled", lambda: _until_handled(conn, verdict, meter)),
        ("", lambda: _until_up(scene)),
        ("", lambda: _end(scene.supervisors, verdict, meter)),
        ("until all had left", lambda: _until_ended(scene.leaving, verdict, meter)),
    ]
    for what, step in steps:
        verdict.slow += step()
        if what:
            verdict.seconds[what] = time.monotonic() - began_s
        if verdict.slow:
            scene.kill_all()
            return


def judge(verdict: Verdict, conn: Connection[Any], arena: Arena, meter: Meter) -> None:
    began_s = time.monotonic()
    verdict.violations = check(conn, verdict.folder)
    if verdict.slow:
        verdict.violations = [v for v in verdict.violations if v.name not in UNFINISHED]
    verdict.seconds["of the checker"] = time.monotonic() - began_s
    verdict.size = conn.execute(SIZE).fetchone() or ()
    verdict.counts = cover(conn, arena)
    stall = longest_stall(conn, read(verdict.folder), verdict.folder)
    if stall is not None:
        verdict.stall = stall
        verdict.seconds[f"was the longest stall, of {stall.partition}"] = stall.seconds
        if stood_still(stall, meter):
            verdict.problems.append(f"{stall.partition} stood still for {stall.seconds:.1f} s")


def stood_still(stall: Stall, meter: Meter) -> bool:
    """Tell whether a partition stood still although there was CPU."""
    clock_s = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()
    since_s = stall.since - clock_s
    return meter.had_s(since_s, since_s + stall.seconds) > STALL_S_MAX


def wait_until(look: Callable[[], bool], seconds: float) -> bool:
    """Wait for something to become true; tell whether it did in time."""
    give_up_s = time.monotonic() + seconds
    while not look():
        if time.monotonic() > give_up_s:
            return False
        time.sleep(0.05)
    return True


def _until_settled(conn: Connection[Any], verdict: Verdict, meter: Meter) -> list[str]:
    def look() -> tuple[bool, Mark]:
        return _is_settled(conn), conn.execute(_PLACED).fetchone() or (0,)

    ended = await_end(meter, Watch(STILL_S, DRAIN_S_MAX), look)
    return _told(ended, verdict, lambda: "not balanced")


def _until_rest(conn: Connection[Any], verdict: Verdict, meter: Meter) -> list[str]:
    def look() -> tuple[bool, Mark]:
        is_due, mark = due(conn)
        return not is_due, mark

    ended = await_end(meter, Watch(STILL_S, DRAIN_S_MAX), look)
    rest(conn)
    return _told(ended, verdict, lambda: "events for later or schedules are due")


def _until_handled(conn: Connection[Any], verdict: Verdict, meter: Meter) -> list[str]:
    def look() -> tuple[bool, Mark]:
        return _lag(conn) == 0, conn.execute(_PASSED).fetchone() or (0, 0, 0)

    ended = await_end(meter, Watch(STILL_S, DRAIN_S_MAX), look)
    return _told(ended, verdict, lambda: f"{_lag(conn)} events not handled")


def _until_up(scene: Scene) -> list[str]:
    wait_until(lambda: all(is_up(process) for process in scene.supervisors), START_S)
    return []


def _end(processes: list[Process], verdict: Verdict, meter: Meter) -> list[str]:
    for process in processes:
        process.signal(signal.SIGTERM)
    return _until_ended(processes, verdict, meter)


def _until_ended(processes: list[Process], verdict: Verdict, meter: Meter) -> list[str]:
    def look() -> tuple[bool, Mark]:
        gone = sum(not process.is_running() for process in processes)
        return gone == len(processes), (gone,)

    ended = await_end(meter, Watch(STILL_S, DRAIN_S_MAX), look)
    codes = {process.name: process.popen.poll() for process in processes}
    verdict.problems += [
        f"{name} ended with {code}"
        for name, code in codes.items()
        if code and not (code == -signal.SIGTERM and _has_not_begun(verdict.folder, name))
    ]
    left = ", ".join(name for name, code in codes.items() if code is None)
    return _told(ended, verdict, lambda: f"{left} not ended")


def _has_not_begun(folder: Path, name: str) -> bool:
    """Tell whether a producer has done nothing yet: then SIGTERM just ends it, as any program."""
    return name.startswith("p") and not any(folder.glob(f"{name}-*.jsonl"))


def _told(ended: Ended, verdict: Verdict, what: Callable[[], str]) -> list[str]:
    """Return what is slow; what is stuck is a problem."""
    if ended == "slow":
        return [f"{what()} after {DRAIN_S_MAX:.0f} s, for want of CPU or still nearer to its end"]
    if ended == "stuck":
        verdict.problems.append(f"{what()}, and no nearer to it in {STILL_S:.0f} s of CPU")
    return []


def _is_settled(conn: Connection[Any]) -> bool:
    """Every partition is with whom it is meant for, and nobody has two more than another."""
    row = conn.execute(_SETTLED, {"groups": len(GROUPS) + len(CHAIN)}).fetchone()
    return bool(row and row[0])


def _lag(conn: Connection[Any]) -> int:
    pending, lag = conn.execute(f"select gapless.pending(), ({LAG})").fetchone() or (True, 0)
    return int(lag) + int(pending)
