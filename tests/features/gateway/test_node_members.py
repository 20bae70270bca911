"""Node clients over plain fetch, and a supervisor, in one group; killed, paused, and nothing lost.

The program of the clients is the one of docs/use/gateway.md, as it stands there.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from docs.blocks import ROOT, blocks_of
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.server import acquire, stop
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from support.commands import environment
from support.fleet import until
from support.gateways import Serve
from support.lease_checks import record
from support.servers import open_folder

PARTITIONS = 4
PROGRAM = """
import { consume } from "./member.mjs";
const [url, name] = process.argv.slice(2);
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
await consume(url, "billing", "orders", async (unit) => {
  for (const { partition, offset, key, attempt, redriven } of unit)
    console.log(JSON.stringify({ name, partition, offset, key, attempt, redriven, at: Date.now() }));
  await new Promise((done) => setTimeout(done, 2));
}, { signal: stop.signal, ttl: 3 });
"""
APP = """
import gapless

@gapless.handler(topic="orders", group="billing")
def bill(unit, conn):
    for event in unit:
        conn.execute(
            "insert into public.billed (p, o, key) values (%s, %s, %s)",
            [event.partition, event.offset, event.key],
        )
"""


class Node:
    """A client: a process of node."""

    def __init__(self, folder: Path, url: str, name: str) -> None:
        self.log_path = folder / f"{name}.jsonl"
        with self.log_path.open("ab") as out, (folder / f"{name}.err").open("ab") as err:
            self.process = subprocess.Popen(
                ["node", str(folder / "play.mjs"), url, name],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.log_path.read_text().splitlines()]

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(60)


@contextmanager
def nodes(folder: Path, urls: list[str]) -> Iterator[list[Node]]:
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    (program,) = [
        each.text
        for each in blocks_of(ROOT / "docs" / "use" / "gateway.md")
        if each.text.startswith("// member.mjs")
    ]
    (folder / "member.mjs").write_text(program)
    (folder / "play.mjs").write_text(PROGRAM)
    started = [Node(folder, url, f"node-{number}") for number, url in enumerate(urls)]
    try:
        yield started
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()


def prepare(conn: Connection[Any]) -> None:
    ensure_topic(conn, "orders", partitions=PARTITIONS)
    conn.execute("select gapless.create_group('billing', 'orders')")
    conn.execute(
        "create table public.billed (p int, o bigint, key text,"
        " at timestamptz default clock_timestamp())"
    )
    record(conn)


def put(conn: Connection[Any], first: int, last: int) -> None:
    for number in range(first, last):
        with conn.transaction():
            for _ in range(1 + number % 2):
                publish(conn, "orders", NewEvent(payload={"n": number}, key=str(number % 17)))
    sequence(conn)


def log_of(conn: Connection[Any]) -> dict[tuple[int, int], str]:
    return {
        (partition, row[0]): row[1]
        for partition in range(PARTITIONS)
        for row in conn.execute(
            "select c_offset, key from gapless.read('orders', %s)", [partition]
        ).fetchall()
    }


def is_done(conn: Connection[Any]) -> bool:
    sequence(conn)
    row = conn.execute(
        "select bool_and(c.next_offset > coalesce(e.end_offset - 1, 0)) from gapless.consumer_offsets c"
        " cross join lateral gapless.log_ends(c.topic_id, c.partition_id) e"
    ).fetchone()
    return row == (True,)


def check(conn: Connection[Any], seen: list[dict[str, Any]]) -> None:
    """Nothing lost, committed once and in order, first deliveries in order, no epoch twice."""
    log = log_of(conn)
    handled = Counter((each["partition"], each["offset"]) for each in seen)
    billed = Counter(
        (row[0], row[1]) for row in conn.execute("select p, o from public.billed").fetchall()
    )
    assert set(handled) | set(billed) == set(log)
    assert not [each for each, times in billed.items() if times > 1]
    moves = conn.execute(
        "select (now).partition_id, (was).next_offset, (now).next_offset from lease_history.fence"
        " where (now).next_offset <> (was).next_offset order by id"
    ).fetchall()
    at = dict.fromkeys(range(PARTITIONS), 1)
    for partition, was, now in moves:
        assert was == at[partition]
        assert now > was
        at[partition] = now
    found = conn.execute("select * from lease_history.violations(false)").fetchall()
    # What a client commits, any session does: S3 is of workers.
    assert [each for each in found if not each[2].startswith("session ")] == []
    assert conn.execute("select * from gapless.check_leases()").fetchall() == []
    first: dict[tuple[int, int], float] = {}
    times = [((each["partition"], each["offset"]), float(each["at"])) for each in seen]
    times += [
        ((row[0], row[1]), row[2])
        for row in conn.execute(
            "select p, o, extract(epoch from at)::float8 * 1000 from public.billed"
        ).fetchall()
    ]
    for place, moment in times:
        first[place] = min(moment, first.get(place, moment))
    last: dict[str, tuple[int, float]] = {}
    for place in sorted(first):
        key = log[place]
        offset, moment = last.get(key, (0, 0.0))
        assert first[place] + 1 >= moment, (key, place, offset)  # Date.now() counts milliseconds
        last[key] = place[1], first[place]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_three_node_clients_share_a_group(
    serve: Serve, dsn: str, conn: Connection, tmp_path: Path
) -> None:
    """One is stopped beyond its deadline and wakes: its late commit moves nothing."""
    prepare(conn)
    gateway = serve()
    put(conn, 0, 60)
    with nodes(tmp_path, [gateway.url] * 3) as clients:
        owners = "select count(distinct owner) from gapless.lease where owner is not null"
        until(lambda: conn.execute(owners).fetchone() == (3,), "all three have partitions")
        put(conn, 60, 200)
        clients[0].process.send_signal(signal.SIGSTOP)
        put(conn, 200, 260)
        until(lambda: is_done(conn), "the others handle all")
        clients[0].process.send_signal(signal.SIGCONT)
        put(conn, 260, 300)
        until(lambda: is_done(conn), "all is handled")
        until(lambda: conn.execute(owners).fetchone() == (3,), "it has joined again")
        for each in clients:
            each.end()
        assert conn.execute("select count(*) from gapless.member").fetchone() == (0,)
        check(conn, [line for each in clients for line in each.lines()])
        evicted = "select count(*) from gapless.eviction where reason like 'its deadline passed%'"
        assert conn.execute(evicted).fetchone() >= (1,)


class Arena:
    """A server, two gateways and a supervisor, each of which is killed or restarted in its turn."""

    def __init__(self, serve: Serve, folder: Path) -> None:
        self._serve, self.folder, self.home = serve, folder, folder / "home"
        self.dsn = acquire(self.home).dsn
        (folder / "app.py").write_text(APP)
        with self.session() as conn:
            migrate(conn)
            create_chunks(conn)
            prepare(conn)
            put(conn, 0, 100)
        self.gateways = [serve(GAPLESS_DSN=self.dsn) for _ in range(2)]
        self.supervisor = self._supervise()

    def session(self) -> Connection[Any]:
        return connect(self.dsn, role="test")

    def fault(self, number: int, clients: list[Node]) -> None:
        if number % 3 == 0:
            for each in clients:
                each.process.send_signal(signal.SIGCONT)
            clients[number % 2].process.send_signal(signal.SIGSTOP)
        elif number in (1, 5):
            self._kill_gateway(number % 2)
        elif number == 2:
            self.supervisor.kill()
            self.supervisor.wait()
            self.supervisor = self._supervise()
        else:
            stop(self.home)
            self.dsn = acquire(self.home).dsn

    def _kill_gateway(self, which: int) -> None:
        """Start it anew where it was, so that clients find it."""
        gone = self.gateways[which]
        gone.process.kill()
        gone.process.wait()
        again = self._serve("--listen", gone.url.removeprefix("http://"), GAPLESS_DSN=self.dsn)
        gone.process = again.process

    def _supervise(self) -> subprocess.Popen[bytes]:
        with (self.folder / "supervisor.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "gapless", "run", str(self.folder / "app.py")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(GAPLESS_DSN=self.dsn),
                cwd=self.folder,
            )


@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.timeout(600)
def test_clients_and_a_supervisor_survive_what_is_killed(serve: Serve) -> None:
    """Gateways are killed, clients stopped, the supervisor killed, the server restarted."""
    with open_folder() as folder:
        arena = Arena(serve, folder)
        urls = [arena.gateways[n].url for n in (0, 0, 1)]
        with nodes(folder, urls) as clients:
            for number in range(7):
                with arena.session() as conn:
                    put(conn, 100 + number * 60, 160 + number * 60)
                time.sleep(1.0)
                arena.fault(number, clients)
            with arena.session() as conn:
                until(lambda: is_done(conn), "all is handled")
                for each in clients:
                    each.end()
                arena.supervisor.terminate()
                arena.supervisor.wait(60)
                check(conn, [line for each in clients for line in each.lines()])
                assert conn.execute("select count(*) > 0 from public.billed").fetchone() == (True,)
                assert all(each.lines() for each in clients)
        stop(arena.home)
