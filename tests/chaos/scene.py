"""Where a run takes place: a server of its own, a network, machines with supervisors, producers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chaos.effects import make_tables
from chaos.process import LOOK_AGAIN_S, Process, Proxy, environment, is_up
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.postgres.cluster import Cluster
from gapless.features.server.server import throwaway_cluster
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic

TOPIC = "orders"
ROLE = "chaos_app"  # what supervisors and producers connect as: no superuser
STRANGER = "chaos_stranger"  # may connect, and nothing else
MACHINES_MAX = 8
SERVER_OPTIONS = {
    "max_connections": "150",
    "max_prepared_transactions": "4",
    "fsync": "off",
    "max_wal_size": "1GB",
}
# Shorter than the defaults, so that a run sees many of each; `--figures` runs with the defaults.
QUICK: dict[str, object] = {
    "memberTtlMs": 1500,
    "heartbeatMs": 300,
    "suspectGraceMs": 500,
    "maxProcessingMs": 2000,
    "connectTimeoutS": 3,
    "batchSize": 20,
}


@dataclass
class Scene:
    """Everything that runs."""

    cluster: Cluster
    folder: Path
    proxy: Proxy
    settings: dict[str, object]
    topics: list[str] = field(default_factory=lambda: [TOPIC])
    supervisors: list[Process] = field(default_factory=list)  # in no order; ended ones are removed
    leaving: list[Process] = field(default_factory=list)  # supervisors that were asked to
    producers: list[Process] = field(default_factory=list)  # and clients
    again: dict[str, Callable[[], Process]] = field(default_factory=dict)  # starts another such one
    started: list[Process] = field(default_factory=list)  # all that ever were
    _conn: Connection | None = None

    @property
    def admin_dsn(self) -> str:
        """A superuser's, past the proxy."""
        return self.cluster.dsn()

    @property
    def operator_dsn(self) -> str:
        """An ordinary role's, past the proxy."""
        return make_conninfo(self.admin_dsn, user=ROLE)

    def dsn(self, line: int) -> str:
        """An ordinary role's, through a line of the proxy."""
        return make_conninfo(
            host="127.0.0.1",
            port=self.proxy.ports[line],
            user=ROLE,
            dbname=conninfo_to_dict(self.admin_dsn)["dbname"],
            sslmode="disable",
            gssencmode="disable",
        )

    def admin(self) -> Connection:
        """A superuser's session; opened anew when the server was restarted since."""
        if self._conn is not None and not self._conn.closed:
            with suppress(psycopg.Error):
                self._conn.execute("select 1")
                return self._conn
            self._conn.close()
        self._conn = eventually_connect(self.admin_dsn)
        return self._conn

    def move_to(self, cluster: Cluster) -> None:
        """Have everybody find another server where the former one was."""
        self.cluster = cluster
        for line in range(MACHINES_MAX):
            self.proxy.order(line, upstream=_socket(cluster), reset=True)

    def start_supervisor(
        self,
        line: int,
        *,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] = MappingProxyType({}),
        **odd: object,
    ) -> Process:
        """Start one more `gapless run` on a machine; odd: settings of its own."""
        name = f"s{len(self.started)}"
        settings = {
            f"GAPLESS_{key.upper()}": str(value)
            for key, value in (self.settings | {"instanceName": name} | odd).items()
        }
        process = self._python(
            name,
            line,
            ["-m", "gapless", "run", "--no-console", *arguments],
            {"GAPLESS_HANDLERS": "chaos.shop"}
            | settings
            | {"GAPLESS_DSN": self.dsn(line), "GAPLESS_LOGFORMAT": "json"}
            | dict(env),
        )
        self.supervisors.append(process)
        return process

    def start_producer(self, line: int, seed: int, rate: float) -> Process:
        """Start a producer that never stops by itself; rate: transactions a second, about."""
        name = f"p{len(self.started)}"
        process = self._python(
            name,
            line,
            ["-m", "chaos.load", self.dsn(line), str(self.folder), name, str(seed), str(rate)],
            {},
        )
        self.producers.append(process)
        self.again[name] = lambda: self.start_producer(line, seed, rate)
        return process

    def start_client(self, kind: str, line: int, seed: int) -> Process:
        """Start a client, of the queue groups or of what is for later; it is ended as producers are."""
        name = f"p{len(self.started)}"
        words = ["-m", f"chaos.{kind}_client", self.dsn(line), str(self.folder), name, str(seed)]
        process = self._python(name, line, words, {})
        self.producers.append(process)
        self.again[name] = lambda: self.start_client(kind, line, seed)
        return process

    def start_steady(self, line: int, partitions: int) -> Process:
        """Start the even load of the figures."""
        arguments = ["-m", "chaos.steady", self.dsn(line), str(partitions)]
        return self._python(f"steady{len(self.started)}", line, arguments, {})

    def dismiss(self, supervisor: Process) -> None:
        """Ask a supervisor to leave; it is one of ours no more."""
        if is_up(supervisor):
            self.leaving.append(supervisor)
        supervisor.signal(signal.SIGTERM)
        if supervisor in self.supervisors:
            self.supervisors.remove(supervisor)

    def free_line(self) -> int:
        """The machine with the fewest supervisors."""
        used = [process.line for process in self.supervisors]
        return min(range(MACHINES_MAX), key=used.count)

    def kill_all(self) -> None:
        """Kill everything that was started, and what it left behind."""
        for process in self.started:
            process.signal_all(signal.SIGKILL)
            if process.is_running():
                process.popen.wait()
        self._kill_orphans()

    def close(self) -> None:
        self.kill_all()
        if self._conn is not None:
            self._conn.close()

    def orphans(self) -> list[int]:
        """Processes of this run that outlived the one that was started."""
        mark = f"{MARK}={self.folder}".encode()
        started = {process.pid for process in self.started if process.is_running()}
        return [
            int(folder.name)
            for folder in Path("/proc").glob("[0-9]*")
            if int(folder.name) not in started and mark in _environ(folder)
        ]

    def _kill_orphans(self) -> None:
        for pid in self.orphans():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _python(self, name: str, line: int, words: list[str], env: Mapping[str, str]) -> Process:
        return self.start(name, line, [sys.executable, *words], env)

    def start(self, name: str, line: int, command: list[str], env: Mapping[str, str]) -> Process:
        """Start any process of the run, in a session of its own."""
        log_path = self.folder / f"{name}.log"
        with log_path.open("ab") as log:
            popen = subprocess.Popen(
                command,
                env=environment() | {MARK: str(self.folder)} | dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(Process(name, line, popen, log_path))
        return self.started[-1]


MARK = "CHAOS_FOLDER"  # in the environment of all that a run starts: the folder of its history


@contextmanager
def open_scene(folder: Path, settings: dict[str, object], partitions: int) -> Iterator[Scene]:
    """Yield a scene with a server and a network, nobody on it yet; everything is ended after."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(throwaway_cluster(SERVER_OPTIONS))
        _furnish(cluster, partitions)
        proxy = Proxy(_socket(cluster), MACHINES_MAX)
        stack.callback(proxy.close)
        scene = Scene(cluster, folder, proxy, settings)
        stack.callback(lambda: scene.cluster.stop("immediate"))  # it may be another one by then
        stack.callback(scene.close)
        yield scene


def _socket(cluster: Cluster) -> str:
    parts = conninfo_to_dict(cluster.dsn())
    return f"{parts['host']}/.s.PGSQL.{parts['port']}"


def _furnish(cluster: Cluster, partitions: int) -> None:
    with connect(cluster.dsn(), role="chaos") as conn:
        migrate(conn)
        # Though one stranger prepares its transaction, publishers notify, as on most servers.
        conn.execute(f"alter database {conn.info.dbname} set gapless.wake = 'on'")
        ensure_topic(conn, TOPIC, partitions=partitions)
        create_chunks(conn)
        conn.execute(f"create role {ROLE} login")
        conn.execute(f"create role {STRANGER} login")
        make_tables(conn)
        conn.execute(f"grant gapless_operator to {ROLE}")
        conn.execute(f"grant usage on schema chaos to {ROLE}")
        conn.execute(
            "grant insert, select on chaos.effect, chaos.business, chaos.order_done,"
            f" chaos.call, chaos.parcel, chaos.job to {ROLE}"
        )
        conn.execute(f"grant select on chaos.clock_step to {ROLE}")


def eventually_connect(dsn: str, timeout_s: float = 60.0) -> Connection:
    """Connect in autocommit, however often the server refuses."""
    give_up_s = time.monotonic() + timeout_s
    while True:
        try:
            return psycopg.connect(dsn, autocommit=True, application_name="chaos/admin")
        except psycopg.OperationalError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(LOOK_AGAIN_S)


def _environ(folder: Path) -> list[bytes]:
    with suppress(OSError):
        return (folder / "environ").read_bytes().split(b"\0")
    return []
