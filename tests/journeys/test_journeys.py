"""How far a reader travels: functions, files and changes of file of what happens most, bounded.

`bin/journeys` prints the table. A journey gets a bound when it was made short, so that it stays so.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless.cli.main import main
from gapless.consume.drive import Driver
from gapless.consume.step import step
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.features.gateway.gateway import Limits
from gapless.features.gateway.serve import ServeSpec, make_server
from gapless.features.gateway.sessions import Sessions
from gapless.features.metrics.serve import open_socket
from gapless.lease import hold
from gapless.worker.leased import Leased
from journeys.table import Row, changed, classes, say, table, twice
from journeys.trail import Trail, trail
from support.leased import lease_no, shared
from support.turn import turn
from support.world import Group, World, make_handler

EVENTS = 10
WARM = 3
# functions, files, changes of file: at most
CHANGED_MAX = 7
TWICE_MAX = 0
BOUNDS = {
    "a turn: 10 events, and rest": (37, 10, 36),
    "a step of 10 events": (34, 8, 28),
    "a step of 10 events read ahead": (28, 6, 26),
    "10 units, one fails": (73, 17, 190),
    "a redrive": (43, 11, 60),
    "an acquire": (24, 13, 36),  # two of them say to the log which partition and epoch it is
    "publish": (26, 9, 28),
    "publish over HTTP": (70, 21, 78),
    "gapless status": (158, 41, 276),  # the first page of the console, with all problems
    "gapless topics list": (66, 24, 84),  # it names who has locked a table
}


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    """Collect the table, and print it at the end."""
    found: list[Row] = []
    yield found
    say(table(found))


@pytest.fixture
def report(rows: list[Row], pytestconfig: pytest.Config) -> Callable[[str, Trail], None]:
    """Take a journey into the table; fail when it is longer than its bound."""

    def take(name: str, found: Trail) -> None:
        rows.append(Row(name, found.functions, found.files, found.changes))
        if pytestconfig.getoption("verbose") > 0:
            say(name, *found.names(), " > ".join(found.story()))
        for value, bound in zip(rows[-1][1:], BOUNDS.get(name, ()), strict=False):
            assert value <= bound, f"{name}: {rows[-1]}, at most {BOUNDS[name]}"

    return take


Report = Callable[[str, Trail], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still: on a busy machine a driver looks more often, turn for turn."""
    monkeypatch.setattr("gapless.consume.drive.monotonic", lambda: 1000.0)


def warm(world: World, group: Group, driver: Driver) -> None:
    """Let the session prepare its statements, and the driver find its rhythm."""
    for _ in range(WARM):
        world.units(*([1] * EVENTS))
        driver.turn()


@pytest.mark.usefixtures("clock")
def test_a_turn_of_a_worker(world: World, group: Group, report: Report) -> None:
    driver = Driver(turn(group.conn, group.assignment, make_handler(nothing)))
    warm(world, group, driver)
    world.units(*([1] * EVENTS))
    with trail() as found:
        done = driver.turn()
    assert done.events == EVENTS
    report("a turn: 10 events, and rest", found)


def test_a_step_that_reads_what_was_published(world: World, group: Group, report: Report) -> None:
    called = turn(group.conn, group.assignment, make_handler(nothing))
    for _ in range(WARM):
        world.units(*([1] * EVENTS))
        step(called)
    world.units(*([1] * EVENTS))
    with trail() as found:
        done = step(called)
    assert done.events == EVENTS
    report("a step of 10 events", found)


def test_a_step_of_what_was_read_ahead(world: World, group: Group, report: Report) -> None:
    called = turn(group.conn, group.assignment, make_handler(nothing), batch_size=EVENTS)
    world.units(*([1] * EVENTS * 100))
    for _ in range(WARM):
        step(called)
    with trail() as found:
        done = step(called)
    assert done.events == EVENTS
    report("a step of 10 events read ahead", found)


@pytest.mark.usefixtures("clock")
def test_a_unit_that_fails(world: World, group: Group, report: Report) -> None:
    driver = Driver(turn(group.conn, group.assignment, group.handler))
    for _ in range(WARM):
        world.units(*([1] * EVENTS))
        group.failing.add(group.next_offset() + EVENTS // 2)
        driver.turn()
    world.units(*([1] * EVENTS))
    group.failing.add(group.next_offset() + EVENTS // 2)
    with trail() as found:
        done = driver.turn()
    assert (done.events, done.dead) == (EVENTS, 1)
    report("10 units, one fails", found)


@pytest.mark.usefixtures("clock")
def test_a_redrive(world: World, group: Group, report: Report) -> None:
    driver = Driver(turn(group.conn, group.assignment, group.handler))
    for _ in range(WARM):
        world.units(1)
        group.failing.add(group.next_offset())
        driver.turn()
    group.failing.clear()
    world.rows(
        "select gapless.redrive_letter(%s, %s, 0, c_offset) from gapless.dead_letter_queue",
        group.name,
        world.topic.name,
    )
    assert driver.has_due()
    driver.turn()
    with trail() as found:
        done = driver.turn()
    assert done.handled == 1
    report("a redrive", found)


def test_an_acquire(world: World, report: Report) -> None:
    group = world.group()
    hold.release(group.conn, group.assignment, lease_no(group))
    leased = Leased(
        shared(group, make_handler(nothing)), group.assignment.partition, lease_no(group)
    )
    with trail() as found:
        while not leased.is_owned:
            assert leased.turn() is None
    report("an acquire", found)
    group.conn.close()


def test_a_publish(world: World, report: Report) -> None:
    with connect(world.dsn, role="test") as conn:
        for _ in range(WARM):
            gapless.publish(conn, world.topic.name, {"n": 1}, key="k")
        with trail() as found:
            gapless.publish(conn, world.topic.name, {"n": 1}, key="k")
    report("publish", found)


def test_a_publish_over_http(world: World, report: Report) -> None:
    """From the bytes of a request to those of its answer; the shortest, for others look meanwhile."""
    body = b'{"payload": {"n": 1}, "key": "k"}'
    head = f"POST /v1/topics/{world.topic.name}/events HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"

    async def play() -> list[Trail]:
        listening = open_socket("127.0.0.1:0")
        server = make_server(sessions, spec)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname()[:2])
        trails = []
        for _ in range(WARM + 10):
            with trail() as found:
                writer.write(head.encode() + body)
                answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 202 " in answer
            await reader.readuntil(b"}")
            trails.append(found)
        writer.close()
        server.handle_exit(signal.SIGTERM, None)
        await serving
        return trails[WARM:]

    limits = Limits(event_bytes_max=1 << 20, batch_bytes_max=1 << 20, batch_events_max=100)
    spec = ServeSpec(
        dsn=world.dsn, sessions=1, connect_timeout_s=5, drain_timeout_s=5, limits=limits
    )
    sessions = Sessions(world.dsn, sessions=1, connect_timeout_s=5)
    try:
        trails = asyncio.run(play())
    finally:
        sessions.close()
    report("publish over HTTP", min(trails, key=lambda found: (found.functions, found.changes)))


@pytest.mark.long
def test_a_command(world: World, report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--dsn", world.dsn, "topics", "list", "--json"]
    assert main(words) == 0
    with trail() as found:
        assert main(words) == 0
    assert world.topic.name in capsys.readouterr().out
    report("gapless topics list", found)


@pytest.mark.long
def test_a_look(
    world: World, group: Group, report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dsn", world.dsn, "status"]
    assert main(words) == 0
    with trail() as found:
        assert main(words) == 0
    assert group.name in capsys.readouterr().out
    report("gapless status", found)


@pytest.mark.long
def test_state_that_changes(rows: list[Row]) -> None:
    """How many attributes of each class are assigned to after __init__."""
    most = sorted(((len(changed(node)), name) for name, _, node in classes()), reverse=True)
    say("attributes changed after __init__:", *(f"{name} {n}" for n, name in most[:8]))
    assert most[0][0] <= CHANGED_MAX


@pytest.mark.long
def test_a_class_name_has_one_meaning() -> None:
    found = twice()
    say(f"class names in several files: {len(found)}", *sorted(found))
    assert len(found) <= TWICE_MAX


def nothing(unit: Unit, conn: Connection[Any]) -> None:
    """Handle a unit."""
