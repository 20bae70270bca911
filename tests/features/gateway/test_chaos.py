"""Two gateways that are killed and stopped, a server that restarts, and clients that go on."""

import json
import signal
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import httpx
import pytest
from psycopg import Connection

from chaos.gateway_checker import Moments, Place, check_accepted, check_jobs, check_stream
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.server import acquire, stop
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from support.fleet import until
from support.gateways import EVENTS, Serve, Served
from support.records import value
from support.servers import open_folder

STREAM = "/v1/topics/orders/stream"
VISIBILITY_S = 2.0
ANSWER_S = 4.0
PRODUCERS = 4
ROUNDS = 8
COMMITTED_NOT_ANSWERED = "publish.after=kill@25"
LOG = "select %s::int, c_offset, (payload ->> 'n')::int from gapless.read('orders', %s)"


class Balancer:
    """Two gateways; the one that was killed is started again at another port."""

    def __init__(self, serve: Serve, dsn: str) -> None:
        self._serve, self._dsn = serve, dsn
        self.dice = Random(2026)
        self.gateways = [self._start(), self._start()]

    def _start(self) -> Served:
        return self._serve(GAPLESS_DSN=self._dsn, GAPLESS_FAILPOINTS=COMMITTED_NOT_ANSWERED)

    def any(self) -> str:
        return self.dice.choice(self.gateways).url

    def mend(self) -> int:
        """Replace what has died; return how many."""
        dead = [n for n, each in enumerate(self.gateways) if each.process.poll() is not None]
        for number in dead:
            with suppress(AssertionError):  # it may hit its point while it starts
                self.gateways[number] = self._start()
        return len(dead)


class Clients:
    """Threads that publish, follow, take; each goes on until it is told to end."""

    def __init__(self, balancer: Balancer) -> None:
        self.balancer = balancer
        self.asked: set[int] = set()
        self.accepted: list[int] = []
        self.seen: dict[str, list[Place]] = defaultdict(list)
        self.takes: dict[Place, list[Moments]] = defaultdict(list)
        self.acknowledged: list[Place] = []
        self.publishing_ends = threading.Event()
        self.reading_ends = threading.Event()
        self.troubles: list[str] = []

    def publish(self, producer: int) -> None:
        n = producer
        while not self.publishing_ends.is_set():
            self.asked.add(n)
            self._publish_until_accepted(n)
            self.accepted.append(n)
            n += PRODUCERS

    def _publish_until_accepted(self, n: int) -> None:
        body = {"payload": {"n": n}, "key": str(n % 5)}
        while True:
            with suppress(httpx.HTTPError):
                url, key = self.balancer.any(), {"Idempotency-Key": f"k{n}"}
                done = httpx.post(url + EVENTS, json=body, headers=key, timeout=ANSWER_S)
                if done.status_code == 202:
                    return
                if done.status_code != 503:
                    self.troubles.append(done.text)
            time.sleep(0.05)

    def follow(self, name: str, pause_s: float) -> None:
        """As an EventSource does: an id counts when its event is complete."""
        last_id = ""
        params = {"from": "earliest"}
        while not self.reading_ends.is_set():
            headers = {"Last-Event-ID": last_id} if last_id else {}
            with (
                suppress(httpx.HTTPError),
                httpx.stream(
                    "GET", self.balancer.any() + STREAM, params=params, headers=headers,
                    timeout=ANSWER_S,
                ) as answer,
            ):  # fmt: skip
                if answer.status_code not in (200, 503):
                    self.troubles.append(f"{name}: {answer.status_code} {answer.read()!r}")
                for found_id, data in _messages(answer):
                    last_id = found_id or last_id
                    if data:
                        event = json.loads(data)
                        self.seen[name].append((event["partition"], event["offset"]))
                        time.sleep(pause_s)
            time.sleep(0.05)

    def take(self, dies: float) -> None:
        """Take and acknowledge; now and then a client is gone with what it has in hand."""
        while not self.reading_ends.is_set():
            with suppress(httpx.HTTPError):
                self._take(self.balancer.dice.random() < dies)
            time.sleep(0.02)

    def _take(self, dies: bool) -> None:
        path = self.balancer.any() + "/v1/groups/letters/"
        wanted = {"topic": "orders", "max_events": 5, "visibility_s": VISIBILITY_S}
        asked_s = time.monotonic()
        done = httpx.post(path + "take", json=wanted, timeout=ANSWER_S)
        if done.status_code != 200:
            return
        came_s = time.monotonic()
        for each in done.json()["events"]:
            place = each["partition"], each["offset"]
            self.takes[place].append((asked_s, came_s))
            held = {"topic": "orders", "receipt": each["receipt"], "offset": each["offset"]}
            if not dies:
                done = httpx.post(path + "acknowledge", json=held, timeout=ANSWER_S)
                if done.status_code == 200:
                    self.acknowledged.append(place)


def _messages(answer: httpx.Response) -> Iterator[tuple[str, str]]:
    found_id = data = ""
    for line in answer.iter_lines() if answer.status_code == 200 else ():
        if line.startswith("id: "):
            found_id = line.removeprefix("id: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line:
            yield found_id, data
            found_id = data = ""


@contextmanager
def _half_open(balancer: Balancer) -> Iterator[None]:
    """Connections whose clients are gone without a word, some in the middle of a request."""
    socks = []
    for said in (
        b"",
        b"POST " + EVENTS.encode() + b" HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
        b"G",
    ):
        host, _, port = balancer.any().removeprefix("http://").rpartition(":")
        with suppress(OSError):
            socks.append(socket.create_connection((host, int(port)), timeout=5))
            socks[-1].sendall(said)
    yield
    for sock in socks:
        sock.close()


def _fault(balancer: Balancer, number: int) -> None:
    victim = balancer.dice.choice(balancer.gateways).process
    if number % 2:
        victim.kill()
        victim.wait()
    else:
        victim.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        victim.send_signal(signal.SIGCONT)


def _log(conn: Connection[Any]) -> dict[Place, int]:
    def has_all() -> bool:  # a gateway may be sequencing right now, and then this run is none
        return not sequence(conn) and not value(conn, "select gapless.pending()")

    until(has_all, "every event has an offset")
    found = [
        row for partition in (0, 1) for row in conn.execute(LOG, [partition, partition]).fetchall()
    ]
    return {(partition, offset): n for partition, offset, n in found}


@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_is_accepted_is_in_the_log_once_and_streams_go_on_elsewhere(serve: Serve) -> None:
    with open_folder() as folder:
        home = folder / "home"
        server = acquire(home)
        with connect(server.dsn, role="test") as conn:
            migrate(conn)
            create_chunks(conn)
            ensure_topic(conn, "orders", partitions=2)
            conn.execute("select gapless.create_group('letters', 'orders', mode => 'queue')")
        balancer = Balancer(serve, server.dsn)
        clients = Clients(balancer)
        publishing = [
            threading.Thread(target=clients.publish, args=(n,), daemon=True)
            for n in range(PRODUCERS)
        ]
        reading = [
            threading.Thread(target=clients.follow, args=("quick", 0.0), daemon=True),
            threading.Thread(target=clients.follow, args=("slow", 0.01), daemon=True),
            threading.Thread(target=clients.take, args=(0.3,), daemon=True),
            threading.Thread(target=clients.take, args=(0.0,), daemon=True),
        ]
        for each in (*publishing, *reading):
            each.start()
        died = 0
        with _half_open(balancer):
            for number in range(ROUNDS):
                time.sleep(1.0)
                if number == ROUNDS // 2:
                    stop(home)
                    server = acquire(home)
                else:
                    _fault(balancer, number)
                died += balancer.mend()
        clients.publishing_ends.set()
        until(lambda: _ended(balancer, publishing), "producers end")
        with connect(server.dsn, role="test") as conn:
            log = _log(conn)
            until(lambda: _caught_up(clients, log), "readers are at the end")
            until(lambda: _all_done(conn), "what the dead had in hand is handled")
        clients.reading_ends.set()
        for each in reading:
            each.join(30)
        stop(home)
    assert clients.troubles == []
    assert died >= ROUNDS // 2 - 1
    assert check_accepted(clients.asked, clients.accepted, list(log.values())) == []
    for name in ("quick", "slow"):
        assert check_stream(clients.seen[name], set(log)) == []
    assert check_jobs(set(log), clients.takes, clients.acknowledged, VISIBILITY_S) == []


def _ended(balancer: Balancer, threads: list[threading.Thread]) -> bool:
    balancer.mend()
    return not any(each.is_alive() for each in threads)


def _caught_up(clients: Clients, log: dict[Place, int]) -> bool:
    clients.balancer.mend()
    return all(len(set(clients.seen[name])) >= len(log) for name in ("quick", "slow"))


def _all_done(conn: Connection[Any]) -> bool:
    found = conn.execute(
        "select coalesce(sum(open + in_hand + lapsed + waiting), 0) from gapless.queue_state('letters')"
    ).fetchone()
    return found == (0,)
