"""Resources: opened once in a worker process, closed when it drains; and what a unit says."""

import os
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from psycopg import AsyncConnection, Connection

import gapless
from gapless import testing
from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.errors import ResourceError, UsageError
from gapless.resources import close_all
from support.commands import environment
from support.fleet import until

APP = """
import asyncio, os, time
import gapless

def note(what):
    with open({notes!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{what}}\\n")

note("imported")

@gapless.resource
def client():
    note("client opened")
    yield "client"
    note("client closed")

@gapless.resource
async def pool():
    note("pool opened")
    yield asyncio.get_running_loop()
    note("pool closed")
    {hang}

@gapless.resource
def unused():
    note("unused opened")
    yield 1

@gapless.handler(topic="t", group="g", resources=[client, pool], mode={mode!r})
async def handle(unit, conn):
    assert asyncio.get_running_loop() is pool()
    for event in unit:
        note(f"handled with {{client()}}")
"""


@pytest.fixture
def said(tmp_path: Any) -> Any:
    notes = tmp_path / "notes"
    notes.touch()

    def read(hang: str = "pass", mode: str = "ordered") -> Any:
        text = APP.format(notes=str(notes), hang=hang, mode=mode)
        (tmp_path / "app.py").write_text(text)
        return lambda: [line.split(" ", 1) for line in notes.read_text().splitlines()]

    return read


def run(tmp_path: Any, dsn: str) -> Any:
    import subprocess
    import sys

    return subprocess.Popen(
        [sys.executable, "-m", "gapless", "run", "app.py"],
        cwd=tmp_path,
        env=environment(GAPLESS_DSN=dsn),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("hang", "mode"),
    [("pass", "ordered"), ("time.sleep(3600)", "ordered"), ("pass", "queue")],
)
def test_a_worker_opens_them_once_and_closes_them_when_it_drains(
    tmp_path: Any, dsn: str, conn: Connection, said: Any, hang: str, mode: str
) -> None:
    testing.install(dsn, topics={"t": 1})
    notes = said(hang, mode)
    supervisor = run(tmp_path, dsn)
    try:
        for n in range(5):
            gapless.publish(conn, "t", n)
        until(
            lambda: [what for _, what in notes()].count("handled with client") == 5,
            "handled",
            within=lambda: conn.execute("select reason from gapless.dead_letter").fetchall(),
        )
        supervisor.terminate()
        out, _ = supervisor.communicate(timeout=60)
        assert supervisor.returncode == 0, out
        assert ("they are left open" in out) == (hang != "pass")
    finally:
        supervisor.kill()
    worker = next(pid for pid, what in notes() if what == "client opened")
    told = [what for pid, what in notes() if pid == worker and not what.startswith("handled")]
    assert (
        told
        == ["client opened", "pool opened", "pool closed", "client closed"][
            : 4 if hang == "pass" else 3
        ]
    )
    assert "unused opened" not in [what for _, what in notes()]


def events(dsn: str, conn: Connection) -> None:
    testing.install(dsn, topics={"t": 1})
    for n in range(3):
        gapless.publish(conn, "t", n)


@pytest.mark.long
def test_drain_opens_them_once_and_closes_the_last_one_first(dsn: str, conn: Connection) -> None:
    told: list[str] = []

    @gapless.resource
    def first() -> Iterator[int]:
        told.append("first")
        yield 1
        told.append("first closed")

    @gapless.resource
    def second() -> Iterator[int]:
        told.append("second")
        yield first() + 1
        told.append("second closed")

    @handler(topic="t", delivery="at-least-once", concurrency=3)
    def handle(unit: Unit) -> None:
        told.append(str(second()))

    events(dsn, conn)
    testing.drain(dsn, handle)
    assert told == ["second", "first", "2", "2", "2", "second closed", "first closed"]


def test_one_that_cannot_be_opened_is_nobodys_fault(dsn: str, conn: Connection) -> None:
    @gapless.resource
    def broken() -> Iterator[int]:
        raise ConnectionRefusedError("nobody listens")
        yield 1

    @handler(topic="t")
    def handle(unit: Unit, conn: Connection[Any]) -> None:
        broken()

    @handler(topic="t", resources=[broken])
    def early(unit: Unit, conn: Connection[Any]) -> None:
        """Is never called."""

    events(dsn, conn)
    for each in (handle, early):
        with pytest.raises(ResourceError, match="broken cannot be opened: ConnectionRefusedError"):
            testing.drain(dsn, each)
    assert conn.execute("select count(*) from gapless.dead_letter").fetchone() == (0,)


def test_an_async_one_has_to_be_named(dsn: str, conn: Connection) -> None:
    @gapless.resource
    async def pool() -> AsyncIterator[int]:
        yield 1

    @handler(topic="t")
    async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
        with pytest.raises(UsageError, match=r"resources=\[.*pool\]"):
            pool()

    events(dsn, conn)
    assert testing.drain(dsn, handle).dead == 0


def test_each_thread_has_the_same(dsn: str) -> None:
    opened: list[int] = []

    @gapless.resource
    def slow() -> Iterator[object]:
        opened.append(1)
        threading.Event().wait(0.05)
        yield object()

    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(slow())) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    close_all()
    assert (len(opened), len(set(map(id, found)))) == (1, 1)


def test_one_that_fails_to_close_does_not_keep_the_others_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    @gapless.resource
    def first() -> Iterator[int]:
        yield 1
        told.append("closed")

    @gapless.resource
    def second() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    @gapless.resource
    def twice() -> Iterator[int]:
        yield 1
        yield 2

    assert (first(), second(), twice()) == (1, 1, 1)
    close_all()
    assert told == ["closed"]
    assert "closing it failed" in caplog.text
    assert "yields more than once" in caplog.text


def test_a_child_opens_its_own_and_closes_none_of_its_parents() -> None:
    """Not even when what it has of its parent's would be collected."""
    heard, told = os.pipe()

    @gapless.resource
    def client() -> Iterator[int]:
        try:
            yield os.getpid()
        finally:
            os.write(told, b"closed")

    assert client() == os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        pid = os.fork()
    if pid == 0:
        os._exit(0 if client() == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.write(told, b".")
    assert os.read(heard, 100) == b"."
    close_all()
