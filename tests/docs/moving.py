"""Other products beside gapless: their jobs in SQL, and programs that insert them and work on them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from threading import Event, Lock, Thread

import psycopg
import pytest
from psycopg import Connection

from docs.blocks import ROOT, blocks_of

FROM = ROOT / "docs" / "start" / "from"
KEYS = 5


def blocks(page: str, language: str) -> list[str]:
    """Return the texts of a guide's blocks, those too that are not run with the page."""
    return [each.text for each in blocks_of(FROM / page) if each.language == language]


@dataclass(frozen=True, kw_only=True)
class Product:
    """A product's guide, and its SQL. Parameters: the number of a job, its key, the seconds until it is due.

    claim returns (id, number). give_back: None where a worker holds a job by a lock, and rolls back. left: how many
    jobs wait or are in hand. keyed: its events have keys.
    """

    page: str
    topic: str
    table: str
    insert: str
    claim: str
    finish: str
    give_back: str | None
    left: str
    keyed: bool = False
    make: Callable[[Connection], object] | None = None

    @property
    def switch(self) -> str:
        (found,) = [text for text in blocks(self.page, "sql") if text.startswith("begin;")]
        return found

    @property
    def repeat(self) -> str:
        return self.switch[self.switch.index("do $$") : self.switch.rindex("commit;")]

    def create(self, conn: Connection) -> None:
        if self.make is None:
            made = next(text for text in blocks(self.page, "sql") if "create table" in text)
            conn.execute(made.encode())
            conn.execute(f"delete from {self.table}".encode())
        else:
            self.make(conn)


def _make_procrastinate(conn: Connection) -> None:
    schema = pytest.importorskip("procrastinate.schema", reason="procrastinate is not installed")
    conn.execute(schema.SchemaManager.get_schema().encode())


def _make_pgmq(conn: Connection) -> None:
    install = pytest.importorskip("pgmq.install", reason="pgmq is not installed")
    conn.execute(install.get_embedded_install_sql().encode())
    conn.execute("select pgmq.create('boxes')")


_PGMQ = Product(
    page="pgmq.md",
    topic="boxes",
    table="pgmq.q_boxes",
    insert="insert into pgmq.q_boxes (vt, message, headers) values (clock_timestamp() + make_interval(secs => %(in_s)s),"
    " jsonb_build_object('n', %(n)s::int), jsonb_build_object('x-pgmq-group', %(key)s::text))",
    claim="update pgmq.q_boxes set read_ct = read_ct + 1, vt = clock_timestamp() + interval '1 hour' where msg_id ="
    " (select msg_id from pgmq.q_boxes where vt <= clock_timestamp() order by msg_id limit 1 for update skip locked)"
    " returning msg_id, (message ->> 'n')::int",
    finish="delete from pgmq.q_boxes where msg_id = %s",
    give_back="update pgmq.q_boxes set vt = clock_timestamp() where msg_id = %s",
    left="select count(*) from pgmq.q_boxes",
    keyed=True,
)
_PROCRASTINATE = Product(
    page="procrastinate.md",
    topic="chores",
    table="procrastinate_jobs",
    insert="insert into procrastinate_jobs (queue_name, task_name, lock, args, scheduled_at) values ('chores', 'sweep',"
    " %(key)s, jsonb_build_object('n', %(n)s::int), now() + make_interval(secs => nullif(%(in_s)s, 0)))",
    claim="update procrastinate_jobs set status = 'doing' where id = (select id from procrastinate_jobs"
    " where status = 'todo' and coalesce(scheduled_at, now()) <= now() order by id limit 1 for update skip locked)"
    " returning id, (args ->> 'n')::int",
    finish="update procrastinate_jobs set status = 'succeeded' where id = %s",
    give_back="update procrastinate_jobs set status = 'todo' where id = %s",
    left="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
    keyed=True,
)
PRODUCTS = {
    "skip-locked": Product(
        page="skip-locked.md",
        topic="jobs",
        table="jobs",
        insert="insert into jobs (kind, args, run_at) values"
        " ('thumbnail', jsonb_build_object('n', %(n)s::int, 'key', %(key)s::text), now() + make_interval(secs => %(in_s)s))",
        claim="select id, (args ->> 'n')::int from jobs where state = 'ready' and run_at <= now()"
        " order by id limit 1 for update skip locked",
        finish="update jobs set state = 'done' where id = %s",
        give_back=None,
        left="select count(*) from jobs where state = 'ready'",
    ),
    "river": Product(
        page="river.md",
        topic="sorts",
        table="river_job",
        insert="insert into river_job (kind, args, scheduled_at) values"
        " ('sort', jsonb_build_object('n', %(n)s::int, 'key', %(key)s::text), now() + make_interval(secs => %(in_s)s))",
        claim="update river_job set state = 'running' where id = (select id from river_job where"
        " state in ('available', 'retryable', 'scheduled') and scheduled_at <= now() order by id limit 1"
        " for update skip locked) returning id, (args ->> 'n')::int",
        finish="update river_job set state = 'completed', finalized_at = now() where id = %s",
        give_back="update river_job set state = 'retryable', scheduled_at = now() where id = %s",
        left="select count(*) from river_job where state in ('available', 'retryable', 'scheduled', 'running')",
    ),
    "pgmq": _PGMQ,
    "procrastinate": _PROCRASTINATE,
    "pgmq, installed": Product(
        page="pgmq.md",
        topic="boxes",
        table="pgmq.q_boxes",
        insert="select pgmq.send('boxes', jsonb_build_object('n', %(n)s::int),"
        " jsonb_build_object('x-pgmq-group', %(key)s::text), %(in_s)s::int)",
        claim="select msg_id, (message ->> 'n')::int from pgmq.read('boxes', 3600, 1)",
        finish="select pgmq.delete('boxes', %s::bigint)",
        give_back="select pgmq.set_vt('boxes', %s::bigint, 0)",
        left=_PGMQ.left,
        keyed=True,
        make=_make_pgmq,
    ),
    "procrastinate, installed": Product(
        page="procrastinate.md",
        topic="chores",
        table="procrastinate_jobs",
        insert="select procrastinate_defer_jobs_v1(array[row('chores', 'sweep', 0, %(key)s::text, null,"
        " jsonb_build_object('n', %(n)s::int), now() + make_interval(secs => nullif(%(in_s)s, 0)))"
        "::procrastinate_job_to_defer_v1])",
        claim="select id, (args ->> 'n')::int from procrastinate_fetch_job_v2(null, null) where id is not null",
        finish="select procrastinate_finish_job_v1(%s, 'succeeded', false)",
        give_back="select procrastinate_retry_job_v1(%s, now(), null, null, null)",
        left=_PROCRASTINATE.left,
        keyed=True,
        make=_make_procrastinate,
    ),
}


@dataclass(kw_only=True)
class Before:
    """The old programs: they insert jobs, and work on them, each in a session of its own, until they are told to stop."""

    product: Product
    dsn: str
    inserted: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    given_back: set[int] = field(default_factory=set)
    errors: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = count(1)
        self._lock = Lock()
        self._no_more_jobs = Event()
        self._stop = Event()
        self._producers = [Thread(target=self._run, args=(self._produce, who)) for who in range(2)]
        self._workers = [Thread(target=self._run, args=(self._work, who)) for who in range(2)]

    def __enter__(self) -> Before:
        for each in (*self._producers, *self._workers):
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_producers()
        self._stop.set()
        for each in self._workers:
            each.join()

    def end_producers(self) -> None:
        self._no_more_jobs.set()
        for each in self._producers:
            each.join()

    def insert(self, conn: Connection, who: int, in_s: int = 0) -> None:
        with self._lock:
            number = next(self._numbers)
        key = f"{who}-{number % KEYS}"
        conn.execute(self.product.insert.encode(), {"n": number, "key": key, "in_s": in_s})
        self.inserted.append(number)

    def _run(self, role: Callable[[Connection, int], None], who: int) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True) as conn:
                role(conn, who)
        except BaseException as error:  # noqa: BLE001 - for the test's thread to raise
            self.errors.append(error)

    def _produce(self, conn: Connection, who: int) -> None:
        while not self._no_more_jobs.is_set():
            self.insert(conn, who)
            time.sleep(0.002)

    def _work(self, conn: Connection, _: int) -> None:
        holds = self.product.give_back is None
        while not self._stop.is_set():
            with conn.transaction() if holds else nullcontext():
                job = conn.execute(self.product.claim.encode()).fetchone()
                if job is not None:
                    time.sleep(0.002)
                    self._end(conn, *job)
            if job is None:
                time.sleep(0.01)

    def _end(self, conn: Connection, job: int, number: int) -> None:
        if number % 10 or number in self.given_back:
            conn.execute(self.product.finish.encode(), [job])
            self.done.append(number)
            return
        self.given_back.add(number)
        if self.product.give_back is None:
            raise psycopg.Rollback
        conn.execute(self.product.give_back.encode(), [job])
