"""Cron texts against cronsim, a well-kept library, and what it means when clocks change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import psycopg
import pytest
from cronsim import CronSim
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.errors import UsageError
from gapless.features.scheduled.cron import check_cron

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(scope="module")
def server(server_dsn: str, template: str) -> Iterator[Connection]:
    with psycopg.connect(make_conninfo(server_dsn, dbname=template), autocommit=True) as conn:
        conn.execute("set time zone 'UTC'")
        yield conn


def _next(server: Connection, cron: str, after: datetime, zone: str, count: int) -> list[datetime]:
    found = []
    for _ in range(count):
        row = server.execute("select gapless.cron_next(%s, %s, %s)", [cron, after, zone]).fetchone()
        assert row is not None
        after = row[0]
        found.append(after)
    return found


def _texts(seed: int) -> Iterator[str]:
    random = Random(seed)
    reach = [(0, 59), (0, 23), (1, 28), (1, 12), (0, 6)]

    def field(low: int, high: int) -> str:
        kind = random.randrange(6)
        a, b = sorted(random.sample(range(low, high + 1), 2))  # cronsim reads 3-3/4 as 3/4
        return ["*", str(a), f"{a}-{b}", f"*/{random.randint(1, 12)}", f"{a},{b}",
                f"{a}-{b}/{random.randint(1, 5)}"][kind]  # fmt: skip

    while True:
        yield " ".join(field(low, high) for low, high in reach)


def test_it_is_refused_alike_where_it_is_declared(server: Connection) -> None:
    """@gapless.schedule refuses a text as the database does; one that never fires is left to that."""
    random, texts = Random(5), _texts(5)
    pieces = ["*", ",", "-", "/", " ", "0", "7", "61", "x", "mon", "jan", "@daily", "\t", "SUN", ""]
    for _ in range(300):
        cron, at = next(texts), random.randrange(9)
        cron = cron[:at] + random.choice(pieces) + cron[at + random.randrange(3) :]
        here = there = ""
        try:
            server.execute("select gapless.cron_next(%s, now())", [cron])
        except psycopg.Error as error:
            there = error.diag.message_primary or ""
        try:
            check_cron(cron)
        except UsageError as error:
            here = str(error)
        assert here == ("" if "never fires" in there else there), cron


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(4))
def test_as_cronsim_says(server: Connection, seed: int) -> None:
    random = Random(seed + 100)
    texts = _texts(seed)
    for _ in range(60):
        cron = next(texts)
        after = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randrange(2_000_000))
        expected = CronSim(cron, after)
        for due in _next(server, cron, after, "UTC", 4):
            assert due == next(expected), cron


@pytest.mark.few(3)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("cron", ["*/15 * * * *", "0 * * * *", "30 */2 * * *", "0 9 * * 1-5"])
def test_as_cronsim_says_when_clocks_change(server: Connection, cron: str, zone: str) -> None:
    """Of those that follow time, and of times that no clock leaves out."""
    for month, day in ((3, 7), (3, 28), (4, 4), (10, 3), (10, 24), (10, 31)):
        after = datetime(2026, month, day, 12, tzinfo=ZoneInfo(zone))
        expected = CronSim(cron, after)
        for due in _next(server, cron, after, zone, 40):
            assert due == next(expected).astimezone(UTC), (cron, zone, after)


@pytest.mark.parametrize(
    ("cron", "after", "dues"),
    [
        # Spring: 02:00 to 03:00 is left out on 29 March 2026.
        ("30 2 * * *", "2026-03-28 12:00", ["2026-03-29 03:30+02", "2026-03-30 02:30+02"]),
        ("0 3 * * *", "2026-03-28 12:00", ["2026-03-29 03:00+02", "2026-03-30 03:00+02"]),
        ("*/30 * * * *", "2026-03-29 01:00", ["2026-03-29 01:30+01", "2026-03-29 03:00+02"]),
        # Autumn: 02:00 to 03:00 comes twice on 25 October 2026.
        ("30 2 * * *", "2026-10-24 12:00", ["2026-10-25 02:30+02", "2026-10-26 02:30+01"]),
        ("30 * * * *", "2026-10-25 01:00",
         ["2026-10-25 01:30+02", "2026-10-25 02:30+02", "2026-10-25 02:30+01",
          "2026-10-25 03:30+01"]),
        ("0 12 29 2 *", "2026-03-01 00:00", ["2028-02-29 12:00+01", "2032-02-29 12:00+01"]),
        ("0 0 13 * fri", "2026-01-31 00:00", ["2026-02-06 00:00+01", "2026-02-13 00:00+01"]),
        ("@weekly", "2026-01-31 00:00", ["2026-02-01 00:00+01", "2026-02-08 00:00+01"]),
        ("0 0 * * 7", "2026-01-31 00:00", ["2026-02-01 00:00+01"]),
        ("0 0 1 JAN,Mar *", "2026-01-31 00:00", ["2026-03-01 00:00+01", "2027-01-01 00:00+01"]),
    ],
)  # fmt: skip
def test_in_berlin(server: Connection, cron: str, after: str, dues: list[str]) -> None:
    start = datetime.fromisoformat(after).replace(tzinfo=BERLIN)
    found = _next(server, cron, start, "Europe/Berlin", len(dues))
    assert found == [datetime.fromisoformat(f"{due}:00") for due in dues]
