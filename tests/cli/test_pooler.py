"""Programs behind PgBouncer: all that needs no session works there; the rest is refused, with a remedy."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy as sa
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import create_async_engine

import gapless
from gapless import NewEvent, ops
from gapless.db.connect import connect
from gapless.errors import ConnectError
from gapless.features.clients import ops as clients
from gapless.features.queue import ops as queue
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.commands import Gapless
from support.every import every
from support.hosts import done
from support.long import long_but
from support.poolers import PGBOUNCER, SESSIONS, pooler, traces

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")

MODES = long_but(("transaction", "session"), "transaction")
TIMES = 7  # psycopg prepares at the sixth
Pool = Callable[[str], str]


@pytest.fixture(scope="module")
def dsn(module_dsn: str) -> str:
    """One database for the file; each program has a topic of its own."""
    return module_dsn


@pytest.fixture(scope="module")
def pool(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Return the DSN of the pooler in a mode."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("poolers")
        yield {
            mode: stack.enter_context(pooler(module_dsn, folder, mode))
            for mode in ("session", "transaction", "statement")
        }.__getitem__


@contextmanager
def sqlalchemy(dsn: str) -> Iterator[Any]:
    engine = sa.create_engine(_url(dsn, "psycopg"))
    with engine.connect() as conn:
        yield conn
    engine.dispose()


@asynccontextmanager
async def async_sqlalchemy(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "psycopg"))
    async with engine.connect() as conn:
        yield conn
    await engine.dispose()


@asynccontextmanager
async def of_asyncpg(dsn: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(_url(dsn, ""), statement_cache_size=0)
    yield conn
    await conn.close()


def _url(dsn: str, driver: str) -> str:
    of = conninfo_to_dict(dsn)
    plus = f"+{driver}" if driver else ""
    return f"postgresql{plus}://{of['user']}@{of['host']}:{of['port']}/{of['dbname']}"


async def _async_psycopg(dsn: str) -> Any:
    return await psycopg.AsyncConnection.connect(dsn)


HOSTS: dict[str, Callable[[str], Any]] = {
    "gapless.connect()": gapless.connect,
    "gapless.connect(autocommit=True)": lambda dsn: gapless.connect(dsn, autocommit=True),
    "psycopg": psycopg.connect,
    "psycopg in autocommit": lambda dsn: psycopg.connect(dsn, autocommit=True),
    "psycopg, async": lambda dsn: _awaited(_async_psycopg(dsn)),
    "psycopg2": lambda dsn: closing(psycopg2.connect(dsn)),
    "asyncpg": of_asyncpg,
    "SQLAlchemy": sqlalchemy,
    "SQLAlchemy, async": async_sqlalchemy,
}


@asynccontextmanager
async def _awaited(opening: Any) -> AsyncIterator[Any]:
    async with await opening as conn:
        yield conn


async def publish_all(host: Callable[[str], Any], dsn: str, topic: str) -> list[int]:
    """Publish in each shape, again and again, and take back what is for later; the payloads."""
    sent: list[int] = []

    def next_ones(count: int, **fields: Any) -> list[NewEvent]:
        sent.extend(range(len(sent), len(sent) + count))
        return [NewEvent(payload=n, key="k", **fields) for n in sent[-count:]]

    async with AsyncExitStackOf(host(dsn)) as conn:
        for _ in range(TIMES):
            for what in (
                next_ones(1)[0],
                next_ones(2),
                next_ones(201),
                next_ones(1, dedupe_key=str(uuid4()))[0],
                [*next_ones(201), *next_ones(1, dedupe_key=str(uuid4()))],
            ):
                await done(gapless.publish(conn, topic, what))
                await _commit(conn)
            later = await done(gapless.publish(conn, topic, -1, deliver_in=3600))
            await _commit(conn)
            assert await done(gapless.cancel(conn, later.scheduled_ids[0]))
            await _commit(conn)
            with pytest.raises(gapless.WaitError):
                await done(gapless.wait_for(conn, f"g-{topic}", later, 0))
            await _commit(conn)
    return sent


class AsyncExitStackOf:
    """A connection's block, of either kind, as an async one."""

    def __init__(self, block: Any) -> None:
        self._block = block

    async def __aenter__(self) -> Any:
        if hasattr(self._block, "__aenter__"):
            return await self._block.__aenter__()
        return self._block.__enter__()

    async def __aexit__(self, *error: object) -> None:
        is_async = hasattr(self._block, "__aexit__")
        await done((self._block.__aexit__ if is_async else self._block.__exit__)(*error))


async def _commit(conn: Any) -> None:
    if hasattr(conn, "commit"):
        await done(conn.commit())


def stored(conn: Connection, topic: str) -> list[int]:
    found = conn.execute(
        "select o.payload::text::int from gapless.outbox_message_t o join gapless.topic t "
        "using (topic_id) where t.name = %s order by o.id",
        [topic],
    )
    return [row[0] for row in found]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("host", HOSTS)
def test_what_is_published_is_there(pool: Pool, conn: Connection, host: str, mode: str) -> None:
    topic = f"{mode}{list(HOSTS).index(host)}"
    ensure_topic(conn, topic, partitions=1)
    ops.create_group(conn, f"g-{topic}", topic)
    dsn = pool(mode)
    assert asyncio.run(publish_all(HOSTS[host], dsn, topic)) == stored(conn, topic)
    if mode == "transaction":
        assert not traces(dsn)


def by_queue(dsn: str, topic: str) -> int:
    """Take from a queue group by calls of functions; how many events were finished."""
    finished = 0
    with gapless.connect(dsn, autocommit=True) as conn:
        for _ in range(TIMES):
            for each in queue.take(conn, f"q-{topic}", topic, max_events=1):
                finished += queue.acknowledge(conn, each.held)
    return finished


def by_client(dsn: str, topic: str) -> int:
    """Be a client of an ordered group by calls of functions."""
    finished = 0
    with gapless.connect(dsn, autocommit=True) as conn:
        joined = clients.join_group(conn, f"g-{topic}", topic)
        member = clients.ClientMember(
            group=f"g-{topic}", member_id=str(joined.member_id), token=joined.token
        )
        for _ in range(TIMES):
            for each in clients.poll_group(conn, member, max_events=1):
                finished += clients.commit_offset(conn, member, each.partition, each.offset + 1)
            clients.renew_member(conn, member)
        assert clients.leave_group(conn, member)
    return finished


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("consume", [by_queue, by_client])
def test_clients_by_sql_handle_each_event_once(
    pool: Pool, conn: Connection, consume: Callable[..., int], mode: str
) -> None:
    topic = f"{consume.__name__}_{mode}"
    ensure_topic(conn, topic, partitions=1)
    ops.create_group(conn, f"q-{topic}", topic, mode="queue")
    ops.create_group(conn, f"g-{topic}", topic)
    for n in range(TIMES):
        gapless.publish(conn, topic, n)
    assert sequence(conn) >= TIMES
    assert consume(pool(mode), topic) == TIMES
    if mode == "transaction":
        assert not traces(pool(mode))


COMMANDS = [
    "topics create {topic} --partitions 1",
    "groups create q-{topic} {topic} --mode queue",
    "publish {topic} 2 --dedupe-key {topic} --wait",
    "publish {topic} - --batch 1 --wait",
    "status --json",
    "tail {topic} --json",
    "queue take q-{topic}/{topic}",
    "pause q-{topic}",
    "dlq redrive --group q-{topic}",
    "retention --apply",
    "init",
]


def test_commands_work(bare: Gapless, pool: Pool, conn: Connection) -> None:
    dsn, topic = pool("transaction"), "commands"

    def works(command: str) -> None:
        lines = "".join(f'{{"payload": {n}}}\n' for n in range(TIMES))
        done = bare(*command.format(topic=topic).split(), "--dsn", dsn, stdin=lines)
        assert done.code == 0, done

    every(works, COMMANDS, str)
    assert stored(conn, topic) == [2, *range(TIMES)]
    assert not traces(dsn)


def test_doctor_names_the_mode(bare: Gapless, pool: Pool) -> None:
    levels = {"transaction": ("warning", "ok"), "session": ("ok", "ok")}
    for mode, (pooler_, wake_up) in levels.items():
        found = {c["name"]: c for c in bare("doctor", "--json", "--dsn", pool(mode)).json["checks"]}
        assert found["pooler"]["level"] == pooler_
        assert f"a pooler in {mode} mode stands between" in found["pooler"]["text"]
        assert found["wake-up"]["level"] == wake_up


@pytest.mark.parametrize(
    ("mode", "words", "remedy"),
    [
        (
            "transaction",
            ("run", "app:billing"),
            "name the server itself, or a pool in session mode",
        ),
        ("transaction", ("replay", "app:billing"), "name the server itself, or a pool in session"),
        ("statement", ("status",), "name the server itself, or a pool in transaction mode"),
        ("statement", ("publish", "t", "1"), "name the server itself, or a pool in transaction"),
        ("statement", ("gateway",), "name the server itself, or a pool in transaction mode"),
    ],
)
def test_the_rest_is_refused_in_one_sentence(
    bare: Gapless, pool: Pool, tmp_path: Path, mode: str, words: tuple[str, ...], remedy: str
) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import gapless\n@gapless.handler(group='g', topic='t')\ndef billing(unit, conn): pass\n"
    )
    said = [word.replace("app:", f"{app}:") for word in words]
    complaint = bare(*said, "--dsn", pool(mode)).complaint()
    assert f"is a pooler in {mode} mode" in complaint
    assert remedy in complaint


def test_startup_parameters_that_a_pooler_refuses_are_named(bare: Gapless, pool: Pool) -> None:
    dsn = f"{pool('transaction')} options='-c work_mem=1MB'"
    assert "leave it out of the DSN and PGOPTIONS" in bare("status", "--dsn", dsn).complaint()


@pytest.mark.parametrize("busy", range(SESSIONS))
def test_a_pooler_is_known_though_others_are_busy_there(pool: Pool, busy: int) -> None:
    """Two that were left to give in turn looked like sessions of two clients, who took turns as well."""
    for mode, is_refused in (("transaction", True), ("session", False)):
        with ExitStack() as stack:
            for _ in range(busy):
                other = stack.enter_context(psycopg.connect(pool(mode)))
                other.execute("select 1")  # in a transaction that stays open
            for _ in range(TIMES):
                try:
                    connect(pool(mode), role="test").close()
                except ConnectError:
                    assert is_refused
                else:
                    assert not is_refused


@pytest.mark.parametrize(
    ("name", "setting"),
    {
        "default_transaction_isolation": "repeatable read",
        "default_transaction_read_only": "on",
        "DateStyle": "SQL, DMY",
        "IntervalStyle": "iso_8601",
    }.items(),
)
def test_defaults_that_cannot_be_overridden_there_are_refused(
    bare: Gapless, empty_dsn: str, tmp_path: Path, name: str, setting: str
) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute(f"alter database {admin.info.dbname} set {name} = '{setting}'")  # type: ignore[arg-type]
    with pooler(empty_dsn, tmp_path, "transaction") as pooled:
        complaint = bare("init", "--dsn", pooled).complaint()
    assert f"{name} is {setting}: alter role" in complaint


LEFT = """
select name from pg_prepared_statements union all select pg_listening_channels()
union all select locktype from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'
"""


def test_a_session_that_was_not_reset_is_as_a_new_one(dsn: str, tmp_path: Path) -> None:
    """Its last client may have prepared under our names, and left with our locks."""
    more = "server_reset_query =\nserver_round_robin = 0\ndefault_pool_size = 2\n"
    with pooler(dsn, tmp_path, "session", more) as pooled:
        for lock in range(TIMES):
            with connect(pooled, role="test") as ours:
                assert not ours.execute(LEFT).fetchall()
                sequence(ours)
                ours.execute(f"select pg_advisory_lock({lock})")  # type: ignore[arg-type]
                ours.execute("listen mine")
                assert len(ours.execute(LEFT).fetchall()) == 3
