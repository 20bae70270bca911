"""The expected output of the demo's pipelines: the hours straight from the file, the archive whole.

As truth.py, this shares no code with what is checked.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from .queries import query  # noqa: TID252 - see __init__.py: two package names
from .truth import FILE, compare, minutes  # noqa: TID252
from .verify import Check  # noqa: TID252

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection

HourRow = tuple[str, str, datetime, int, int, int]


def compute(limit: int | None = None) -> list[HourRow]:
    """Count the departures of each carrier, airport and hour, by plain loops over the raw file."""
    delays_min: dict[tuple[str, str, datetime], list[int]] = defaultdict(list)
    with gzip.open(FILE, "rt", encoding="utf-8", newline="") as lines:
        for row in islice(csv.DictReader(lines), limit):
            if not row["dep_time"]:
                continue
            left_min = minutes(row["sched_dep_time"]) - int(row["origin_utc_offset_min"])
            left_min += int(row["dep_delay_min"])
            midnight = datetime.fromisoformat(row["day"]).replace(tzinfo=UTC)
            hour = midnight + timedelta(hours=left_min // 60)
            delays_min[row["carrier"], row["origin"], hour].append(int(row["dep_delay_min"]))
    return [
        (*key, len(delays), len([one for one in delays if one >= 15]), sum(delays))
        for key, delays in sorted(delays_min.items())
    ]


def verify(conn: Connection[Any], archive: Path, limit: int | None = None) -> list[Check]:
    """Compare the table with the file, and the archive with the log: every place once."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - only where pipelines run

    hours = conn.execute(query("hourly_rows")).fetchall()
    expected = compute(limit)
    places = conn.execute(query("topic_places")).fetchall()
    table = ds.dataset(archive, partitioning="hive").to_table(["partition", "offset"])
    kept = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return [
        Check("hours", len(expected), len(hours), compare(expected, hours, 3)),
        Check("archive", len(places), len(kept), compare(sorted(places), sorted(kept), 2)),
    ]
