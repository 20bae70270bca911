"""One throwaway PostgreSQL server for the session, one fresh database for each test.

Set GAPLESS_TEST_DSN to use a server that runs already, GAPLESS_PG_BINDIR to choose binaries.
"""

import gc
import os
import shutil
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo
from xdist.scheduler import LoadScopeScheduling

from gapless import failpoints
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.server import embedded
from gapless.log.sequence import create_chunks
from gapless.log.topics import Topic, ensure_topic
from support import again, elsewhere, examples, findings
from support.fast import choose, pytest_ignore_collect  # noqa: F401 - a hook of pytest
from support.long import mark_but_few
from support.servers import DatabaseLike
from support.skips import StrictSkips, expected

SERVER_OPTIONS = {
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "shared_buffers": "128MB",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_size": "512MB",
}
MEMORY_BYTES_MIN = 4 << 30  # a container may have 64 MB of shared memory
REAP_S = 5.0  # a process that was told to end gets this long before it counts as left behind

pytest_plugins = ["support.commands", "support.fleets", "support.twin_fixtures"]
elsewhere.configure()  # before the conftest of a folder asks for the schema

_server = ExitStack()
_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", help="run the tests marked long too, as CI does"
    )
    parser.addoption("--soak", action="store_true", help="run the tests marked soak too (minutes)")
    parser.addoption(
        "--fast", action="store_true", help="only one test an invariant, and what needs no database"
    )
    parser.addoption(
        "--strict-skips", action="store_true", help="fail for a skip that tests/skips.toml lacks"
    )
    again.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Let children have signals as in a terminal: nohup and `&` in a script have them ignored."""
    if config.getoption("--strict-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(StrictSkips(expected()))
    again.configure(config)
    examples.configure(config)
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    findings.look(report, item, call)
    return report


# Processes share the tests: a file stays whole, and so do all tests with Spark: the engine's share a session, and
# a cluster beside it would find too little CPU to come to its end.
SPARK = ("tests/features/spark/engine/", "tests/chaos/on_spark/")


class _Whole(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "spark" if path.startswith(SPARK) else path


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Whole:
    return _Whole(config, log)  # type: ignore[arg-type]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: there are 15,000 tests to keep, and each look walks them all."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


TAKES = {"long": "takes minutes: run with --long", "soak": "takes minutes: run with --soak"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        choose(config, items)
    mark_but_few(items)
    for name, reason in TAKES.items():
        skip = pytest.mark.skip(reason=reason)
        for item in items:
            if name in item.keywords and not config.getoption(f"--{name}"):
                item.add_marker(skip)


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str:
    """Say which server is used; a run without tests for it starts none."""
    if config.getoption("collectonly") or not any(
        "server_dsn" in getattr(item, "fixturenames", ()) for item in items
    ):
        return "postgres: not needed"
    with psycopg.connect(_server_dsn(config)) as conn:
        row = conn.execute("select version()").fetchone()
    assert row is not None
    whose = "GAPLESS_TEST_DSN" if "GAPLESS_TEST_DSN" in os.environ else "throwaway"
    return f"postgres: {row[0].split(' on ')[0]} ({whose}), psycopg {psycopg.__version__}"


def pytest_unconfigure() -> None:
    _server.close()


@pytest.fixture(scope="session")
def server_dsn(pytestconfig: pytest.Config) -> str:
    """A superuser's DSN of the server's database `postgres`."""
    return _server_dsn(pytestconfig)


@pytest.fixture(scope="session")
def admin(server_dsn: str) -> Iterator[Connection]:
    """A session in the server's database `postgres`, for all databases that are made and dropped."""
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template(admin: Connection, server_dsn: str) -> Iterator[str]:
    """The name of a database in which migrate() and create_chunks() ran once."""
    name = f"gapless_template_{uuid4().hex[:12]}"
    base = os.environ.get("GAPLESS_TEST_BASE", "template1")  # of tests/mutate/keep.py: migrated
    admin.execute(
        sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(base))
    )
    with connect(make_conninfo(server_dsn, dbname=name), role="template") as conn:
        migrate(conn)
        create_chunks(conn)
    yield name
    _drop(admin, name)


@pytest.fixture(scope="session")
def database_like(admin: Connection, server_dsn: str) -> DatabaseLike:
    """Make a copy of a database; yield its DSN, and drop it afterwards."""
    return contextmanager(partial(_database, admin, server_dsn))


@pytest.fixture
def empty_dsn(database_like: DatabaseLike) -> Iterator[str]:
    """A fresh database without the gapless schema."""
    with database_like("template1") as made:
        yield made


@pytest.fixture
def dsn(
    request: pytest.FixtureRequest, database_like: DatabaseLike, template: str
) -> Iterator[str]:
    """A database with the schema and its first chunks: a fresh one, unless the test says `writes_nothing`."""
    if request.node.get_closest_marker("writes_nothing"):
        yield request.getfixturevalue("module_dsn")
    else:
        with database_like(template) as made:
            yield made


@pytest.fixture(scope="module")
def module_dsn(database_like: DatabaseLike, template: str) -> Iterator[str]:
    """The same, one for all tests of a file."""
    with database_like(template) as made:
        yield made


@pytest.fixture(scope="module")
def elsewhere(database_like: DatabaseLike, template: str) -> Iterator[Connection]:
    """A session in another database, in which tables of gapless have the same numbers."""
    with database_like(template) as made, connect(made, role="elsewhere") as connection:
        yield connection


@pytest.fixture
def conn(dsn: str) -> Iterator[Connection]:
    """A superuser's session in the test's database, in autocommit."""
    with connect(dsn, role="test") as connection:
        yield connection


@pytest.fixture
def topic(conn: Connection) -> Topic:
    """Topic 1, `outbox`, with 4 partitions."""
    made = ensure_topic(conn, "outbox", partitions=4)
    assert made.topic_id == 1
    return made


@pytest.fixture
def role(dsn: str, server_dsn: str) -> Iterator[Callable[..., str]]:
    """Make login roles with such grants; returns their DSN of the test's database."""
    names: list[str] = []

    def make(*grants: str) -> str:
        name = f"gapless_test_role_{os.getpid()}_{len(names)}"
        names.append(name)
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
            for grant in grants:
                admin.execute(
                    sql.SQL("grant {} to {}").format(sql.Identifier(grant), sql.Identifier(name))
                )
        return make_conninfo(dsn, user=name, password="x")

    yield make
    with psycopg.connect(dsn, autocommit=True) as admin:
        for name in names:
            admin.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture(autouse=True)
def nothing_armed() -> Iterator[None]:
    """Disarm what a test armed, however it ended."""
    yield
    failpoints.arm({})


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Undo what a test, or what it calls, did to the environment: the next one counts on it."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Fail a test that leaves a child process behind."""
    before = _children()
    yield
    give_up = time.monotonic() + REAP_S
    while (left := _children() - before) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert not left, f"child processes left behind: {', '.join(map(_describe, left))}"


def _server_dsn(config: pytest.Config) -> str:
    if "GAPLESS_TEST_DSN" in os.environ:
        return os.environ["GAPLESS_TEST_DSN"]
    found: str | None = getattr(config, "gapless_server_dsn", None)
    if found is None:
        found = _server.enter_context(
            embedded(_memory_folder(), throwaway=True, options=SERVER_OPTIONS)
        )
        config.gapless_server_dsn = found  # type: ignore[attr-defined]
    return found


def _memory_folder() -> Path | None:
    """A place in memory: making a database there takes 0.03 s, on a busy disk up to 1 s."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < MEMORY_BYTES_MIN:
        return None
    return memory / f"gapless-test-{uuid4().hex[:12]}"


def _database(admin: Connection, server_dsn: str, template: str) -> Iterator[str]:
    name = f"gapless_test_{os.getpid()}_{next(_numbers)}"
    # To copy files is three times as fast as to log pages; up to PostgreSQL 14 it is the only way.
    by = "strategy file_copy" if admin.info.server_version >= 150000 else ""
    admin.execute(
        sql.SQL("create database {} template {} {}").format(
            sql.Identifier(name), sql.Identifier(template), sql.SQL(by)
        )
    )
    # Transactions can be prepared on this server, and yet publishers notify, as on most.
    admin.execute(sql.SQL("alter database {} set gapless.wake = 'on'").format(sql.Identifier(name)))
    try:
        yield make_conninfo(server_dsn, dbname=name)
    finally:
        _drop(admin, name)


def _drop(admin: Connection, name: str) -> None:
    # A prepared transaction would keep the database for ever: FORCE does not end it.
    prepared = admin.execute(
        "select gid from pg_prepared_xacts where database = %s", [name]
    ).fetchall()
    if prepared:
        with psycopg.connect(
            make_conninfo(admin.info.dsn, dbname=name, password=admin.info.password or None),
            autocommit=True,
        ) as conn:
            for (gid,) in prepared:
                conn.execute(sql.SQL("rollback prepared {}").format(gid))
    admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _children() -> set[int]:
    """The pids of this process's children; empty where the system cannot tell."""
    return {
        int(pid)
        for listing in Path("/proc/self/task").glob("*/children")
        for pid in listing.read_text().split()
    }


def _describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        words = ""
    return f"{pid} ({words or 'ended, not waited for'})"
