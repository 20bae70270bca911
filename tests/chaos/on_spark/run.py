"""A run with Spark: drivers and supervisors share the groups, and the checker judges them together."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from psycopg import Connection

from chaos.arena import FAULTS, PRODUCERS_LINE, Arena
from chaos.checker import check
from chaos.coverage import hits
from chaos.history import Note, Writer, read
from chaos.hygiene import leftovers
from chaos.on_spark.cluster import Cluster, work_logs
from chaos.on_spark.deeds import DEEDS, problems
from chaos.process import is_up
from chaos.progress import Meter
from chaos.run import SIZE, UNFINISHED, Verdict, drain, wait_until
from chaos.scene import QUICK, Scene, open_scene
from chaos.shop import GROUPS

PARTITIONS = 4
SUPERVISORS = 1
PRODUCERS = 2
RATE = 8.0  # transactions a second of a producer, about
START_S = 180.0
EXECUTORS_END_S = 60.0
# A driver's jobs take their time, and a unit that kills its process is tried again by Spark, too.
SETTINGS = QUICK | {"memberTtlMs": 3000, "maxProcessingMs": 4000}
_DONE = """
select
  (select count(*) from chaos.effect where application like 'gapless/spark task%'),
  (select count(*) from chaos.effect where application like 'gapless/worker%'),
  count(*) filter (where is_task and not was_task), count(*) filter (where was_task and not is_task)
from (
  select is_task, lag(is_task) over (partition by group_id, partition_id order by id) as was_task
  from (
    select *, application like 'gapless/spark task%' as is_task from chaos.effect
  ) e
) e
"""
_COUNTED = (
    "effects of tasks",
    "effects of workers",
    "partitions handed from a worker to tasks",
    "partitions handed from tasks to a worker",
)


def run_on_spark(
    folder: Path,
    deeds: Sequence[str],
    *,
    seed: int,
    drivers: int,
    say: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Do these deeds one after the other, names of DEEDS or of FAULTS, and judge the history."""
    verdict = Verdict(seed, folder)
    problems.clear()
    with Meter() as meter, open_scene(folder, SETTINGS, PARTITIONS) as scene:
        arena = Arena(scene, Random(seed), Writer(folder, "nemesis"), SUPERVISORS, seed)
        cluster = Cluster(scene, drivers)
        populate(arena, cluster)
        say("all at work")
        for name in deeds:
            began_s = time.monotonic()
            for pause_s in DEEDS[name](arena, cluster) if name in DEEDS else FAULTS[name](arena):
                time.sleep(pause_s)
            arena.replace()
            _until_tasks_work(scene, cluster)
            verdict.faults[name] += 1
            say(f"{name}: {time.monotonic() - began_s:.1f} s")
        finish(arena, cluster, verdict, meter)
    return verdict


def populate(arena: Arena, cluster: Cluster) -> None:
    """Start everybody; return when supervisors and a driver have had effects."""
    scene = arena.scene
    for group in GROUPS:
        arena.writer.write(group)
    arena.replace()
    cluster.replace()
    for _ in range(PRODUCERS):
        scene.start_producer(PRODUCERS_LINE, arena.seed, RATE)
    conn = scene.admin()
    if not wait_until(lambda: all(is_up(driver) for driver in cluster.alive()), START_S) or not (
        wait_until(lambda: min(_done(conn)[:2]) > 0, START_S)
    ):
        logs = "\n".join(each.log_path.read_text()[-3000:] for each in scene.started)
        raise RuntimeError(f"the drivers do not get going:\n{logs}\n{work_logs(scene.folder)}")


def finish(arena: Arena, cluster: Cluster, verdict: Verdict, meter: Meter) -> None:
    """Let everybody come to rest and leave; judge."""
    scene, conn = arena.scene, arena.scene.admin()
    cluster.replace()
    wait_until(lambda: all(is_up(driver) for driver in cluster.alive()), START_S)
    scene.supervisors += cluster.alive()
    drain(scene, verdict, meter)
    wait_until(lambda: not scene.orphans(), EXECUTORS_END_S)  # Spark takes its time to end them
    if not verdict.slow:
        verdict.problems += leftovers(scene, conn, meter)
    arena.writer.write(Note(what="drained"))
    verdict.problems += problems
    verdict.violations = check(conn, verdict.folder)
    if verdict.slow:
        verdict.violations = [v for v in verdict.violations if v.name not in UNFINISHED]
    verdict.size = conn.execute(SIZE).fetchone() or ()
    verdict.counts = dict(zip(_COUNTED, _done(conn), strict=True))
    inside, _ = hits(read(verdict.folder))
    verdict.counts["faults that hit a worker inside its handler"] = inside
    verdict.never = [what for what, count in verdict.counts.items() if not count]


def _until_tasks_work(scene: Scene, cluster: Cluster) -> None:
    """Let tasks have effects again before the next deed."""
    conn = scene.admin()
    before = _done(conn)[0]

    def work() -> bool:
        cluster.replace()
        return _done(conn)[0] > before

    if not wait_until(work, START_S):
        problems.append(f"no task had an effect for {START_S:.0f} s")


def _done(conn: Connection[Any]) -> tuple[int, ...]:
    return conn.execute(_DONE).fetchone() or (0, 0, 0, 0)
