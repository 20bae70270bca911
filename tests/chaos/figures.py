"""How long a partition stands still after each kind of fault, at the default settings.

A pause is counted for every partition that the fault concerned: from the fault (a hand-over: from
the former owner's last effect; a restart: from the server taking connections) to the first effect of
the worker that took over, by the database's clock.
"""

import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from psycopg import Connection

from chaos.arena import PRODUCERS_LINE, kill
from chaos.process import Process
from chaos.run import wait_until
from chaos.scene import Scene, open_scene
from chaos.stall import LEASES

SUPERVISORS = 3
PARTITIONS = 8  # the default of totalPartitions
HANDLERS = "chaos.shop:billing"
PATIENCE_S = 60.0
SETTLE_S = (0.5, 1.5)
RESTART_SETTLE_S = (
    6.0  # for 5 s after a start nobody is evicted (sql/lease/functions/member/evict.sql)
)

_BALANCED = """
select count(*) = %(partitions)s and count(l.owner) = count(*)
  and bool_and(l.owner = l.target) and count(distinct l.owner) = %(members)s
  and (select count(*) from gapless.member) = %(members)s
from gapless.lease l
"""
_HELD = """
select l.partition_id from gapless.lease l
join gapless.member m on m.member_id = l.owner where m.name = any(%s) order by 1
"""
_NOW = "select extract(epoch from clock_timestamp())::float8"
_PAUSES = """
select p.partition_id, min(extract(epoch from e.at))::float8 - %(since)s
from unnest(%(partitions)s::int[]) p (partition_id)
left join chaos.effect e on e.partition_id = p.partition_id
  and e.at > to_timestamp(%(since)s) and e.epoch > %(epochs)s[p.partition_id + 1]
group by 1 having min(e.at) is not null
"""
_EPOCHS = "select array_agg(epoch order by partition_id) from gapless.lease"
_HANDOVERS = """
select n.partition_id, extract(epoch from n.first - o.last)::float8
from (
  select partition_id, epoch, min(at) as first from chaos.effect
  where epoch > %(epochs)s[partition_id + 1] group by 1, 2
) n
cross join lateral (
  select max(at) as last from chaos.effect o
  where o.partition_id = n.partition_id and o.epoch < n.epoch
) o
"""


@dataclass
class Figure:
    """The pauses after one kind of fault; target_s: of their median."""

    title: str
    target_s: float
    faults: int = 0
    pauses_s: list[float] = field(default_factory=list)

    @property
    def p50_s(self) -> float:
        return statistics.median(self.pauses_s) if self.pauses_s else float("inf")

    @property
    def max_s(self) -> float:
        return max(self.pauses_s, default=float("inf"))


class Stand:
    """A scene under an even load, and what is known of it."""

    def __init__(self, scene: Scene, random: Random) -> None:
        self.scene = scene
        self.random = random
        self.members = SUPERVISORS

    @property
    def conn(self) -> Connection[Any]:
        return self.scene.admin()

    def now(self) -> float:
        return float(self._value(_NOW))

    def epochs(self) -> list[int]:
        return list(self._value(_EPOCHS))

    def held(self, *victims: Process) -> list[int]:
        names = [victim.name for victim in victims]
        return [row[0] for row in self.conn.execute(_HELD, [names])]

    def victim(self) -> Process:
        return self.random.choice(self.scene.supervisors)

    def start(self) -> Process:
        lines = [process.line for process in self.scene.supervisors]
        free = next(line for line in range(PRODUCERS_LINE) if line not in lines)
        return self.scene.start_supervisor(free)

    def settle(self) -> None:
        """Wait until all is balanced, and a little longer."""
        if not wait_until(self._is_balanced, PATIENCE_S):
            raise RuntimeError(f"not balanced: see {self.scene.folder}")
        time.sleep(self.random.uniform(*SETTLE_S))

    def pauses(self, partitions: list[int], epochs: list[int], since: float) -> list[float]:
        """Wait until others work on all these partitions; return how long that took."""
        params = {"partitions": partitions, "epochs": epochs, "since": since}
        found: list[Any] = []

        def all_there() -> bool:
            found[:] = self.conn.execute(_PAUSES, params).fetchall()
            return len(found) == len(partitions)

        if not wait_until(all_there, PATIENCE_S):
            raise RuntimeError(f"nobody took over: see {self.scene.folder}")
        return [row[1] for row in found]

    def story(self, since: float) -> str:
        """What became of members and leases since then, for people."""
        rows = self.conn.execute(LEASES, {"group": None, "partition": None}).fetchall()
        return "\n".join(
            f"    {at - since:7.3f} s  {what}" for at, what in sorted(rows) if at > since
        )

    def _is_balanced(self) -> bool:
        params = {"partitions": PARTITIONS, "members": self.members}
        return bool(self._value(_BALANCED, params))

    def _value(self, statement: str, params: Any = None) -> Any:
        row = self.conn.execute(statement, params).fetchone()
        return None if row is None else row[0]


Measure = Callable[[Stand], list[float]]


def hand_over(stand: Stand) -> list[float]:
    """A fourth supervisor joins, or one of four leaves."""
    epochs = stand.epochs()
    if stand.members == SUPERVISORS:
        stand.start()
        stand.members += 1
    else:
        stand.scene.dismiss(stand.victim())
        stand.members -= 1
    stand.settle()
    return [row[1] for row in stand.conn.execute(_HANDOVERS, {"epochs": epochs})]


def worker_killed(stand: Stand) -> list[float]:
    pid, partition = stand.random.choice(
        stand.conn.execute(
            "select distinct on (partition_id) pid, partition_id from chaos.effect"
            " where at > clock_timestamp() - interval '1 s' order by partition_id, id desc"
        ).fetchall()
    )
    epochs, since = stand.epochs(), stand.now()
    kill(pid, signal.SIGKILL)
    return stand.pauses([partition], epochs, since)


def _ended(stand: Stand, end: Callable[[Process], None]) -> list[float]:
    victim = stand.victim()
    partitions, epochs, since = stand.held(victim), stand.epochs(), stand.now()
    end(victim)
    found = stand.pauses(partitions, epochs, since)
    victim.popen.wait()
    stand.scene.supervisors.remove(victim)
    stand.start()
    return found


def supervisor_and_workers_killed(stand: Stand) -> list[float]:
    return _ended(stand, lambda victim: victim.signal_all(signal.SIGKILL))


def supervisor_killed(stand: Stand) -> list[float]:
    return _ended(stand, lambda victim: victim.signal(signal.SIGKILL))


def _away(
    stand: Stand, go: Callable[[Process], None], come_back: Callable[[Process], None]
) -> list[float]:
    victim = stand.victim()
    partitions, epochs, since = stand.held(victim), stand.epochs(), stand.now()
    go(victim)
    try:
        return stand.pauses(partitions, epochs, since)
    finally:
        come_back(victim)


def host_gone(stand: Stand) -> list[float]:
    proxy = stand.scene.proxy
    return _away(
        stand, lambda victim: proxy.mode(victim.line, "cut"), lambda v: proxy.mode(v.line, "pass")
    )


def host_paused(stand: Stand) -> list[float]:
    return _away(
        stand,
        lambda victim: victim.signal_all(signal.SIGSTOP),
        lambda victim: victim.signal_all(signal.SIGCONT),
    )


def server_restarted(stand: Stand) -> list[float]:
    epochs = stand.epochs()
    stand.scene.cluster.stop("immediate")
    stand.scene.cluster.start()
    since = stand.now()
    found = stand.pauses(list(range(PARTITIONS)), epochs, since)
    time.sleep(RESTART_SETTLE_S)
    return found


# By the issue: medians, at default settings; ttl 5 s.
KINDS: dict[str, tuple[Measure, str, float]] = {
    "hand-over": (hand_over, "planned hand-over", 0.1),
    "worker": (worker_killed, "worker killed", 0.15),
    "machine": (supervisor_and_workers_killed, "supervisor with its workers killed", 0.3),
    "supervisor": (supervisor_killed, "supervisor alone killed", 0.5),
    "gone": (host_gone, "host gone: cut without FIN", 6.0),
    "paused": (host_paused, "host paused: SIGSTOP", 6.0),
    "restart": (server_restarted, "database restarted (immediate)", 0.5),
}


def figures(
    folder: Path, faults: int, kinds: list[str], say: Callable[[str], None]
) -> list[Figure]:
    """Take the figures of these kinds, over so many faults each."""
    rows = []
    settings: dict[str, object] = {"handlers": HANDLERS}
    with open_scene(folder, settings, PARTITIONS) as scene:
        stand = Stand(scene, Random(1))
        for _ in range(SUPERVISORS):
            stand.start()
        stand.settle()
        scene.start_steady(PRODUCERS_LINE, PARTITIONS)
        time.sleep(SETTLE_S[1])
        for name, (measure, title, target_s) in KINDS.items():
            if name not in kinds:
                continue
            row = Figure(title, target_s)
            for _ in range(faults):
                since = stand.now()
                pauses_s = measure(stand)
                if max(pauses_s, default=0) > target_s:
                    say(f"{title}: {max(pauses_s):.3f} s\n{stand.story(since)}")
                row.pauses_s += pauses_s
                row.faults += 1
                stand.settle()
            say(f"{title}: p50 {row.p50_s:.3f} s, max {row.max_s:.3f} s")
            rows.append(row)
    return rows
