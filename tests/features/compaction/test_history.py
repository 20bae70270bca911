"""Real processes: producers, supervisors that are killed, partitions that change, groups that begin in the middle."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread

import psycopg
import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb

from gapless.db.connect import connect
from gapless.features.compaction.latest import set_compaction
from gapless.log.sequence import configure_chunks
from gapless.log.topics import ensure_topic, set_partitions
from support.patience import bounded_patience

pytestmark = pytest.mark.long

APP = Path(__file__).with_name("app.py")
TABLE = """
create table public.seen (
  n bigint generated always as identity, group_id text not null, key text not null, value int not null
)
"""
PUT = """
insert into gapless.outbox_message_t (topic_id, key, payload, headers)
values (gapless.topic_id('prices'), %s, %s::json, %s)
"""
DONE = """
select not gapless.pending()
  and (select lag = 0 from gapless.compactions)
  and not exists (select from gapless.lag where lag > 0)
"""


class Producer:
    """Publishes values of its own keys, each higher than the one before, some of them tombstones."""

    def __init__(self, dsn: str, number: int, stop: Event) -> None:
        self.newest: dict[str, tuple[int, bool]] = {}
        self._dsn, self._number, self._stop = dsn, number, stop
        self._random = Random(number)
        self.thread = Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with psycopg.connect(self._dsn, application_name=f"producer {self._number}") as conn:
            count = 0
            while not self._stop.is_set():
                for _ in range(self._random.randint(1, 6)):
                    count += 1
                    key = f"{self._number}-{self._random.randint(0, 30)}"
                    gone = self._random.random() < 0.2
                    conn.execute(PUT, [key, None if gone else f"{count}", Jsonb({"n": count})])
                    self.newest[key] = count, gone
                conn.commit()
                time.sleep(self._random.random() * 0.01)


class Supervisors:
    """`gapless run` as processes, killed with all they forked."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._env = os.environ | {
            "GAPLESS_DSN": dsn, "GAPLESS_RETENTIONCHECKS": "1", "GAPLESS_MEMBERTTLMS": "1500",
            "GAPLESS_HEARTBEATMS": "300",
        }  # fmt: skip
        self._folder = folder
        self._all: list[subprocess.Popen[bytes]] = []

    def start(self, groups: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{len(self._all)}.log").open("wb") as log:
            made = subprocess.Popen(
                [sys.executable, "-m", "gapless", "run", str(APP)],
                env=self._env | {"HISTORY_GROUPS": groups},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._all.append(made)
        return made

    def kill(self, one: subprocess.Popen[bytes]) -> None:
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()

    def close(self) -> None:
        for each in self._all:
            if each.poll() is None:
                self.kill(each)
        print(*(each.read_text() for each in sorted(self._folder.glob("*.log"))))  # noqa: T201


@pytest.fixture
def supervisors(dsn: str, tmp_path: Path) -> Iterator[Supervisors]:
    made = Supervisors(dsn, tmp_path)
    yield made
    made.close()


def wait_for(conn: Connection, sql: str, what: str, timeout_s: float = 60.0) -> None:
    began = time.monotonic()
    while conn.execute(sql).fetchone() != (True,):
        assert time.monotonic() - began < bounded_patience(timeout_s), what
        time.sleep(0.05)


def test_the_table_is_the_fold_and_no_group_sees_an_older_value(
    dsn: str, conn: Connection, supervisors: Supervisors
) -> None:
    configure_chunks(conn, chunk_events=1000, chunks_ahead=2)
    ensure_topic(conn, "prices", partitions=2, keep_s=0.5)
    conn.execute(TABLE)
    set_compaction(conn, "prices", compact=True)
    stop = Event()
    producers = [Producer(dsn, number, stop) for number in range(3)]
    try:
        began = "select count(*) > {} from public.seen where group_id = '{}'"
        first = supervisors.start("g0")
        wait_for(conn, began.format(200, "g0"), "g0 began")
        supervisors.kill(first)
        set_partitions(conn, "prices", 5)
        second = supervisors.start("g0,g1")
        wait_for(conn, began.format(100, "g1"), "g1 began")
        set_partitions(conn, "prices", 3)
        supervisors.kill(second)
        third = supervisors.start("g0,g1,g2")
        wait_for(conn, began.format(30, "g2"), "g2 began")
        supervisors.kill(third)
        supervisors.start("g0,g1,g2,g3")
        wait_for(conn, began.format(100, "g3"), "g3 began")
    finally:
        stop.set()
        for each in producers:
            each.thread.join()
    wait_for(conn, DONE, "all is handled and taken in", 120.0)
    newest = {key: value for each in producers for key, value in each.newest.items()}
    fold = {key: n for key, (n, gone) in newest.items() if not gone}
    with connect(dsn, role="test") as other:
        found = other.execute("select event_key, payload from gapless.latest('prices')").fetchall()
        assert dict(found) == fold
        assert other.execute("select keys, missing from gapless.compactions").fetchall() == [
            (len(fold), 0)
        ]
        seen: dict[tuple[str, str], list[int]] = {}
        for group, key, value in other.execute("select group_id, key, value from seen order by n"):
            seen.setdefault((group, key), []).append(value)
    for (group, key), values in seen.items():
        assert values == sorted(set(values)), f"{group} saw {key} doubled, or older after newer"
        assert values[-1] == newest[key][0], f"{group} did not see the newest of {key}"
    for group in ("g0", "g1", "g2", "g3"):
        assert {key for key in fold if (group, key) not in seen} == set(), group
