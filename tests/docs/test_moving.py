"""Guides of docs/start/from: jobs move while the other product works; none is lost, doubled, or out of order."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.errors import LockNotAvailable

import gapless
from docs.moving import KEYS, PRODUCTS, Before, Product, blocks
from gapless import testing
from gapless.consume.user.handler import Handler
from support.commands import Run, environment
from support.patience import bounded_patience

JOBS = 300


def _until(holds: Callable[[], bool], before: Before) -> None:
    give_up_s = time.monotonic() + bounded_patience(60)
    while not holds():
        assert not before.errors, before.errors
        assert time.monotonic() < give_up_s
        time.sleep(0.02)


def _switch(conn: Connection, product: Product) -> bool:
    """Run the guide's block, as its reader: once more if it cannot get its lock."""
    try:
        conn.execute(product.switch.encode())
    except LockNotAvailable:
        conn.execute("rollback")
        return False
    return True


@pytest.fixture(params=PRODUCTS.values(), ids=PRODUCTS.keys())
def product(request: pytest.FixtureRequest) -> Product:
    assert isinstance(request.param, Product)
    return request.param


@pytest.fixture
def before(product: Product, conn: Connection, dsn: str) -> Iterator[Before]:
    testing.install(dsn, topics={product.topic: 4})
    product.create(conn)
    made = Before(product=product, dsn=dsn)
    for _ in range(JOBS):
        made.insert(conn, 9)
    with made:
        yield made
    assert not made.errors


def test_no_job_is_lost_or_doubled_by_a_switch(
    before: Before, product: Product, conn: Connection, dsn: str
) -> None:
    _until(lambda: len(before.done) > JOBS // 10, before)
    before.insert(conn, 8, in_s=3600)
    _until(lambda: _switch(conn, product), before)
    before.insert(conn, 8, in_s=3600)
    reached = len(before.inserted) + JOBS
    _until(lambda: len(before.inserted) > reached, before)
    before.end_producers()

    def nothing_is_left() -> bool:
        conn.execute(product.repeat.encode())
        return conn.execute(product.left.encode()).fetchone() == (0,)

    _until(nothing_is_left, before)
    later = [n for (n,) in conn.execute("select (payload ->> 'n')::int from gapless.later")]
    assert len(later) == 2
    handled: list[tuple[str | None, int]] = []

    @gapless.handler(topic=product.topic, group="new")
    def note(unit: gapless.Unit, _: Connection) -> None:
        (event,) = unit  # a job is a unit, however many were moved in one transaction
        handled.append((event.key or event.payload.get("key"), event.payload["n"]))

    assert testing.drain(dsn, note).dead == 0
    assert len(before.done) > JOBS // 10
    assert len(handled) > JOBS
    assert sorted([*before.done, *(n for _, n in handled), *later]) == sorted(before.inserted)
    if product.keyed:
        _assert_in_order(handled, before.given_back)
    rows = conn.execute(
        "select coalesce(key, payload ->> 'key'), (payload ->> 'n')::int from gapless.outbox_message_t order by id"
    ).fetchall()
    _assert_in_order(rows, before.given_back)


def _assert_in_order(events: list[tuple[str | None, int]], but: set[int]) -> None:
    """Jobs of one key are inserted by one program: in the order of their numbers, but those that were given back."""
    of_keys: dict[str | None, list[int]] = {}
    for key, number in events:
        if number not in but:
            of_keys.setdefault(key, []).append(number)
    assert len(of_keys) >= 3 * KEYS
    for numbers in of_keys.values():
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("page", ["pgmq.md", "procrastinate.md"])
def test_the_table_of_a_guide_is_that_of_the_product(page: str, conn: Connection) -> None:
    """A guide may leave columns out; those that it has are the product's, with their types."""
    product = next(each for each in PRODUCTS.values() if each.page == page and each.make is None)
    there = next(each for each in PRODUCTS.values() if each.page == page and each.make is not None)
    product.create(conn)
    here = _columns(conn, product.table)
    for each in blocks(page, "sql")[-1].split(";")[:-1]:
        if "move_" not in each:
            conn.execute(each.encode())
    there.create(conn)
    assert here.items() <= _columns(conn, product.table).items()


def _columns(conn: Connection, table: str) -> dict[str, str]:
    # procrastinate limits the length of names; River and others may as well.
    return {
        name: "text" if kind == "character varying" else kind
        for name, kind in conn.execute(
            "select attname, format_type(atttypid, null) from pg_attribute"
            " where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            [table],
        )
    }


def test_a_worker_of_procrastinate_finds_nothing_after_the_switch(
    conn: Connection, dsn: str, tmp_path: Path
) -> None:
    product = PRODUCTS["procrastinate, installed"]
    testing.install(dsn, topics={product.topic: 4})
    product.create(conn)
    (tmp_path / "chores_before.py").write_text(blocks(product.page, "python")[0])
    work = ["-m", "procrastinate", "--app=chores_before.app", "worker", "--one-shot"]
    _python(tmp_path, "chores_before.py", GAPLESS_DSN=dsn)
    assert "swept 1" in _python(tmp_path, *work, GAPLESS_DSN=dsn)
    _python(tmp_path, "chores_before.py", GAPLESS_DSN=dsn)
    assert _switch(conn, product)
    _python(tmp_path, "chores_before.py", GAPLESS_DSN=dsn)
    assert "swept" not in _python(tmp_path, *work, GAPLESS_DSN=dsn)
    assert _handled(dsn, product.page, "chores.py") == 2


def test_the_client_of_pgmq_sends_and_reads_after_the_switch(
    conn: Connection, dsn: str, tmp_path: Path
) -> None:
    product = PRODUCTS["pgmq, installed"]
    testing.install(dsn, topics={product.topic: 4})
    product.create(conn)
    (tmp_path / "boxes_before.py").write_text(blocks(product.page, "python")[0])
    assert "deliver ann" in _python(tmp_path, "boxes_before.py", GAPLESS_DSN=dsn)
    assert _switch(conn, product)
    assert "deliver" not in _python(tmp_path, "boxes_before.py", GAPLESS_DSN=dsn)
    assert _handled(dsn, product.page, "boxes.py") == 1


def test_tasks_of_celery_become_events_once(conn: Connection, dsn: str, tmp_path: Path) -> None:
    """Also those that come while publishing fails, and those that a broker delivers twice."""
    pytest.importorskip("celery", reason="Celery is not installed")
    for text in blocks("celery.md", "python"):
        (tmp_path / text.split("\n", 1)[0].removeprefix("# ")).write_text(text)
    env = {"GAPLESS_DSN": dsn, "BROKER_URL": f"sqla+sqlite:///{tmp_path}/broker.db"}
    again = "from reports_before import report; [report.apply_async([n], task_id=f'{n}') for n in 'aab']"
    _python(tmp_path, "reports_before.py", **env)
    _python(tmp_path, "-c", again, **env)
    testing.install(dsn)
    with (tmp_path / "log").open("w") as log:
        worker = subprocess.Popen(
            [*_CELERY, "worker", "--pool=solo", "--loglevel=INFO"],
            cwd=tmp_path,
            env=environment(**env),
            stdout=log,
            stderr=log,
        )
    try:
        patience_s = time.monotonic() + bounded_patience(60)
        while (tmp_path / "log").read_text().count("Retry in 5s") < 4:
            assert time.monotonic() < patience_s, (tmp_path / "log").read_text()
            time.sleep(0.1)
        testing.install(dsn, topics={"monthly": 4})
        while (tmp_path / "log").read_text().count("succeeded in") < 4:
            assert time.monotonic() < patience_s, (tmp_path / "log").read_text()
            time.sleep(0.1)
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(bounded_patience(30)) == 0
    assert _handled(dsn, "celery.md", "monthly.py") == 3


def test_a_consumer_of_debezium_continues_where_it_was(
    conn: Connection, dsn: str, gapless: Callable[..., Run]
) -> None:
    create, number = blocks("debezium.md", "sql")[:2]
    (attach,) = (
        line
        for text in blocks("debezium.md", "sh")
        for line in text.split("\n")
        if line.startswith("gapless attach add")
    )
    testing.install(dsn, topics={"sales": 4})
    conn.execute(create.encode())
    conn.execute(number.encode())
    done = gapless(*shlex.split(attach)[1:])
    assert done.code == 0, done
    for sale in range(21, 41):
        with conn.transaction():
            conn.execute(
                "insert into debezium_outbox (aggregatetype, aggregateid, type, payload)"
                " values ('sale', %s, 'SaleMade', jsonb_build_object('n', %s::int))",
                [f"shop {sale % 3}", sale],
            )
            if sale % 2:
                conn.execute("delete from debezium_outbox where n = %s", [sale])
    assert _handled(dsn, "debezium.md", "ledger.py") == 40
    booked = [n for (n,) in conn.execute("select n from booked order by ctid")]
    assert sorted(booked) == [*range(13, 41)]
    for shop in range(3):
        of_shop = [n for n in booked if n % 3 == shop]
        assert of_shop == sorted(of_shop)


_CELERY = [sys.executable, "-m", "celery", "--app=reports_move"]


def _python(folder: Path, *words: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(PYTHONPATH=str(folder), **env),
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _handled(dsn: str, page: str, file: str) -> int:
    """Run the handler of a guide's file to the end; return its number of events."""
    (text,) = (each for each in blocks(page, "python") if each.startswith(f"# {file}\n"))
    names: dict[str, object] = {}
    exec(compile(text, file, "exec"), names)
    (handler,) = (each for each in names.values() if isinstance(each, Handler))
    drained = testing.drain(dsn, handler)
    assert drained.dead == 0
    return drained.events
