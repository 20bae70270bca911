"""How soon all partitions were worked on again after a fault had ended, by kind of fault."""

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from chaos.history import Fault, Outcome, Record, select
from chaos.stall import WAITS

_OF_PARTITION = f"""
select array_agg(at order by at), array_agg(since order by at) from ({WAITS}) w
group by group_id, partition_id
"""


def recoveries(conn: Connection[Any], records: Sequence[Record]) -> dict[str, list[float]]:
    """Return for how long, from the end of each fault, the slowest partition left an event waiting.

    Only of faults that ended while producers were at it. Other faults may go on meanwhile.
    """
    clock_s = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()
    waits = conn.execute(_OF_PARTITION).fetchall()
    until_s = max((each.at_ns for each in select(records, Outcome)), default=0) / 1e9 - 1
    found: dict[str, list[float]] = defaultdict(list)
    for fault in ends(select(records, Fault)):
        if fault.at_ns / 1e9 > until_s:
            continue
        end_s = fault.at_ns / 1e9 + clock_s
        waited = [
            times[n] - end_s
            for times, since in waits
            if (n := bisect_right(times, end_s)) < len(times) and since[n] <= end_s
        ]
        found[fault.kind].append(max(waited, default=0.0))
    return dict(found)


def ends(faults: Sequence[Fault]) -> list[Fault]:
    """Return the last word of each fault: its end, or its beginning if it lasts for no time."""
    lasting = {fault.kind for fault in faults if fault.phase == "end"}
    return [fault for fault in faults if fault.phase == "end" or fault.kind not in lasting]
