"""The past by its doors: Python, the command, the route, `status --since`, and the console."""

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection
from rich.console import Console

from features.history.minutes import HOUR, add, handle, now, record
from gapless import ops
from gapless.cli.main import main
from gapless.errors import UsageError
from gapless.ops.dlq.letters import LETTERS
from gapless.ops.text import stamp
from gapless.status.console import LiveConsole
from gapless.status.view import ConsoleState
from support.gateways import Client, problem
from support.records import Command, value

FIELDS = {"lag", "lag_s", "handled_per_s", "dead_letters", "members", "published_per_s"}


@pytest.fixture
def last(conn: Connection[Any], orders: None) -> int:
    """Return the present minute; the six before it, and it, are recorded, but for two of them."""
    minute = now(conn)
    record(conn, minute - 6)
    record(conn, minute - 5)
    for n in range(minute - 2, minute + 1):
        add(conn, 120)
        handle(conn, 60)
        record(conn, n)
    return minute


def named(document: Any, group: str | None, topic: str | None) -> dict[str, Any]:
    (found,) = (x for x in document["series"] if (x["group"], x["topic"]) == (group, topic))
    return dict(found)


def test_route_and_command_and_python_say_the_same(
    conn: Connection[Any], last: int, open_gateway: Callable[..., Client], command: Command
) -> None:
    since = stamp(HOUR + timedelta(minutes=last - 7))
    until = stamp(HOUR + timedelta(minutes=last, seconds=1))
    asked = {"since": since, "until": until}
    said = open_gateway().get("/v1/history", params=asked).json()
    assert said == command("history", "--since", since, "--until", until)
    past = ops.history(conn, since=since, until=until)
    assert said == past.document()
    assert [(each.group, each.topic) for each in past.series] == [
        (None, None),
        (None, "orders"),
        ("billing", "orders"),
    ]
    assert (said["from"], said["step_s"], said["kept_hours"]) == (since, 60, 72)
    group = named(said, "billing", "orders")
    assert set(group) == {"group", "topic", *FIELDS}
    assert group["lag"] == [None, 10, 10, None, None, 70, 130, 190]
    assert group["handled_per_s"] == [None, None, 0, None, None, None, 1, 1]
    assert group["published_per_s"] == [None] * 8
    assert named(said, None, "orders")["published_per_s"] == [None, None, 0, *[None] * 3, 2, 2]
    assert named(said, None, None)["lag"] == group["lag"]


def test_steps_are_as_many_as_asked_and_fields_those(
    last: int, open_gateway: Callable[..., Client], conn: Connection[Any]
) -> None:
    gateway = open_gateway()
    asked = {"group": "billing", "topic": "orders", "points": "2", "of": "lag,members"}
    said = gateway.get("/v1/history", params={"since": "1h", **asked}).json()
    assert said["step_s"] % 60 == 0
    (only,) = said["series"]
    assert set(only) == {"group", "topic", "lag", "members"}
    assert len(only["lag"]) <= 2
    assert max(lag for lag in only["lag"] if lag is not None) == 190, "the most of a step"
    for only_of, names in (("database", [None]), ("topics", [None, "orders"])):
        of = gateway.get("/v1/history", params={"only": only_of}).json()["series"]
        assert [each["topic"] for each in of] == names
    for points in (1, 2, 7, 180, 720):
        since = HOUR + timedelta(minutes=last - 60 * 71)
        past = ops.history(conn, since=since, points=points)
        assert {len(each.lag) for each in past.series} <= {points, *range(points)}
        assert past.step_s % 60 == 0
        assert past.since <= since, "the steps cover the range"
    hour = ops.history(conn, since="1h", points=60)
    assert (hour.step_s, len(hour.series[0].lag)) == (60, 60)
    until = hour.since + timedelta(minutes=30)
    assert ops.history(conn, since=hour.since, until=until).until == until, "to before then"


def test_pages_are_of_so_many_minutes(
    conn: Connection[Any], orders: None, open_gateway: Callable[..., Client]
) -> None:
    conn.execute("select gapless.create_group('g' || n, 'orders') from generate_series(1, 20) n")
    record(conn, now(conn))
    gateway = open_gateway()
    first = gateway.get("/v1/history", params={"since": "71h", "of": "lag"}).json()
    assert (first["page"], first["pages"], len(first["series"])) == (1, 3, 11)
    pages = [ops.history(conn, since="71h", page=page).series for page in (1, 2, 3)]
    names = [(each.topic or "", each.group or "") for page in pages for each in page]
    assert names == sorted(names)
    assert len(set(names)) == 23
    assert ops.history(conn, since="12h").pages == 1


def test_what_is_refused(
    conn: Connection[Any], last: int, open_gateway: Callable[..., Client]
) -> None:
    gateway = open_gateway()
    for asked, status, sentence in (
        ({"since": "1h", "until": "2h"}, 400, "the range ends before it begins"),
        ({"since": "2100-01-01T00:00Z"}, 400, "has not come yet"),
        ({"since": "80h"}, 400, "is too long ago: history is kept for 3d"),
        ({"since": "9999999999d"}, 400, "is not a time"),
        ({"since": "soon"}, 400, "is not a time"),
        ({"since": "0001-01-01T00:00+14:00"}, 400, "is not a time"),
        ({"until": "0001-01-01T00:00Z"}, 400, "ends before it begins"),
        ({"group": "nobody"}, 404, 'there is no group "nobody"'),
        ({"topic": "nowhere"}, 404, 'topic "nowhere" does not exist'),
        ({"group": "billing", "topic": "nowhere"}, 404, "does not consume"),
        ({"points": "721"}, 400, "from 1 to 720"),
        ({"page": "2"}, 400, "page: 2 must be from 1 to 1"),
        ({"of": "lag,size"}, 400, "'size' is none of"),
        ({"only": "groups"}, 400, "database or topics"),
        ({"only": "topics", "group": "billing"}, 400, "without a group"),
    ):
        answer = gateway.get("/v1/history", params=asked)
        assert sentence in problem(answer, status)["detail"], asked
    record(conn, last + 1, 0)
    assert "it is switched off" in problem(gateway.get("/v1/history"), 404)["detail"]


def test_an_age_is_of_hours_that_passed_in_any_time_zone(
    conn: Connection[Any], orders: None
) -> None:
    """The clock on the wall was set twice in that year; a time without a zone is UTC."""
    record(conn, now(conn), 8760)
    for zone in ("Europe/Berlin", "UTC"):
        conn.execute("select set_config('timezone', %s, false)", [zone])
        for days in range(50, 350, 50):
            since, until = (timedelta(days=days, hours=hours) for hours in (1, 0))
            moment = value(conn, "select clock_timestamp()").timestamp() - since.total_seconds()
            past = ops.history(conn, since=since, until=until)
            assert 0 <= past.since.timestamp() - moment <= 60 + 1, (zone, days)
            naive = past.since.replace(tzinfo=None)
            assert ops.history(conn, since=naive, until=until).since == past.since


def test_nothing_recorded_yet_is_said(
    conn: Connection[Any], orders: None, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="no history yet: gapless run writes it"):
        ops.history(conn)
    assert command("status", "--since", "1h") == {"groups": [], "happenings": []}


def test_status_since_has_the_course_of_each_group(
    conn: Connection[Any],
    last: int,
    command: Command,
    dsn: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (line,) = command("status", "--since", "1h")["groups"]
    assert (line["group"], line["lag"], line["lag_min"], line["lag_max"]) == (
        "billing",
        190,
        10,
        190,
    )
    assert main(["status", "--since", "1h", "--dsn", dsn]) == 0
    header, row, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[:6] == ["TREND", "GROUP", "TOPIC", "LAG", "LAG-MIN", "LAG-MAX"]
    assert "billing" in row
    assert any(sign in row for sign in "█#")
    assert main(["history", "--dsn", dsn]) == 0
    header, *_ = capsys.readouterr().out.splitlines()
    assert 0 < header.index("GROUP") <= 26, "a row fits a terminal"


def test_the_console_opens_with_a_past(conn: Connection[Any], last: int) -> None:
    def drawn() -> str:
        file = io.StringIO()
        console = Console(file=file, force_terminal=True, width=200, height=40)
        live = LiveConsole(LETTERS, ConsoleState(), console)
        with live:
            live.look(conn)
        return file.getvalue()

    with_past = drawn().count("▁") + drawn().count("█")
    conn.execute("delete from gapless.history_series")
    assert with_past > drawn().count("▁") + drawn().count("█")
