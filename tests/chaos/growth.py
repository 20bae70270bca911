"""`bin/chaos --soak`: everything at once, unharmed, while what could grow is looked at again and again.

Judged is the last sample beside one of the middle: by then caches are full, plans made, tables at their size.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.process import running, title
from chaos.scene import Scene

SAMPLES = 12  # of a run of any length
MEMORY_KB_MAX = 4096  # more than this in half a run, and as much again for each hour, is a leak
FILES_MAX = 16  # a thread of a handler opens a history and a session when it is first needed
TABLE_BYTES_MAX = 256 << 10
LATENCY_S_MAX = 0.5
LATENCY_EVERY_S_MIN = 10.0  # between two samples
SOAK: dict[str, object] = {"chunkEvents": 10_000, "retentionCheckS": 5}
# Tables that hold what is, not what was: a row for each partition, member or event in hand.
_FLAT = """
select c.relname, pg_total_relation_size(c.oid) from pg_class c
where c.relnamespace = 'gapless'::regnamespace and c.relkind = 'r' and c.relname in (
  'consumer_offsets', 'queue_floor', 'queue_range', 'lease', 'member', 'member_group', 'sequencer', 'scheduled',
  'delivery', 'chunk_state', 'outbox_message_default'
)
"""
# From the publishing to the effect, over what was handled since the last sample.
_LATENCY = """
select coalesce(percentile_cont(0.5) within group (
  order by extract(epoch from e.at) - (e.seen ->> 'created_us')::bigint / 1e6
), 0)::float8
from chaos.effect e
where e.at > clock_timestamp() - make_interval(secs => %s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample of a moment: of each process memory and descriptors, of each table bytes."""

    at_s: float
    memory_kb: dict[str, int]
    files: dict[str, int]
    table_bytes: dict[str, int]
    latency_s: float


def watch(scene: Scene, seconds: float) -> list[Sample]:
    """Look at what may grow, so long."""
    every_s = seconds / SAMPLES
    samples = []
    for _ in range(SAMPLES):
        time.sleep(every_s)
        samples.append(_look(scene, every_s))
    return samples


def growth(samples: Sequence[Sample]) -> list[str]:
    """Return what grew from the middle to the end by more than it may, one line each (pure)."""
    middle, last = samples[len(samples) // 2], samples[-1]
    hours = (last.at_s - middle.at_s) / 3600
    found = [
        *_more(middle.memory_kb, last.memory_kb, MEMORY_KB_MAX * (1 + hours), "kB of memory"),
        *_more(middle.files, last.files, FILES_MAX, "descriptors"),
    ]
    for name, size in last.table_bytes.items():
        if size > 2 * middle.table_bytes.get(name, 0) + TABLE_BYTES_MAX:
            found.append(f"{name} grew from {middle.table_bytes.get(name, 0)} to {size} bytes")
    # Of a shorter time a worker that hangs until it is killed decides.
    is_told = last.at_s - samples[-2].at_s >= LATENCY_EVERY_S_MIN
    if is_told and last.latency_s > 2 * middle.latency_s + LATENCY_S_MAX:
        found.append(f"the latency grew from {middle.latency_s:.2f} to {last.latency_s:.2f} s")
    return found


def _more(then: dict[str, int], now: dict[str, int], more_max: float, what: str) -> list[str]:
    return [
        f"{name} has {now[name] - before} more {what} than in the middle"
        for name, before in then.items()
        if now.get(name, 0) - before > more_max
    ]


def _look(scene: Scene, every_s: float) -> Sample:
    memory_kb, files = {}, {}
    for process in running(scene.supervisors):
        for pid in [process.pid, *process.children()]:
            with suppress(OSError):  # it has just ended
                name = f"{title(pid).strip()} ({pid})"
                memory_kb[name] = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4
                files[name] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    conn = scene.admin()
    latency = conn.execute(_LATENCY, [every_s]).fetchone()
    assert latency is not None
    return Sample(
        at_s=time.monotonic(),
        memory_kb=memory_kb,
        files=files,
        table_bytes=dict(conn.execute(_FLAT).fetchall()),
        latency_s=latency[0],
    )
