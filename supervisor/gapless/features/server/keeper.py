"""The process that keeps the embedded server as long as it has users, and no longer.

    python -m gapless.features.server.keeper ROOT LOCK ORDER

`acquire` starts it with the descriptor of ROOT's keeper.lock, already locked, so that there is no
moment without an owner. It makes the data folder when there is none, starts the server as its
child, and tells the DSN in state.json. Then it looks for the exclusive lock on users.lock: when it
gets it, no user is left, however they ended. A new user now waits for that lock while the server
stops. With the file `stay` there (control.py) it does not look: the server runs until it is told to
stop. A server that crashes is started again; one that was stopped on purpose is not.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

from gapless.errors import GaplessError
from gapless.features.server.folder import EXCLUSIVE, ServerFolder, ServerState, try_flock
from gapless.features.server.postgres.account import server_account
from gapless.features.server.postgres.binaries import find_binaries, runnable_by
from gapless.features.server.postgres.cluster import Cluster

_LOOK_AGAIN_S = 0.2
_CRASHES_MAX = 5  # in a row, each less than _CALM_S after the start before
_CALM_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The starter's options for the server; later users take the server as it is."""

    options: dict[str, str] = field(default_factory=dict)
    throwaway: bool = False

    def dumps(self) -> str:
        return json.dumps(asdict(self))


class ServerKeeper:
    """Keeps one server; `run` returns when there is no server any more."""

    def __init__(self, folder: ServerFolder, lock: int, order: Order) -> None:
        self._folder = folder
        self._lock = lock  # held until this process ends
        self._order = order
        self._asked_to_stop = False

    def run(self) -> None:
        """Start, keep, stop; report any failure to the processes that wait for the server."""
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, self._ask_to_stop)
        error: str | None = None
        try:
            self._start_and_keep()
        except GaplessError as failure:
            error = str(failure)
        except Exception as failure:  # noqa: BLE001  # told to those who wait, and to the log
            traceback.print_exc()
            error = f"{type(failure).__name__}: {failure} (log: {self._folder.log})"
        if not self._folder.still_has(self._lock):
            return
        if error is not None:
            self._folder.write_state(ServerState(error=error))
        elif self._order.throwaway:
            shutil.rmtree(self._folder.root)

    def _start_and_keep(self) -> None:
        cluster = self._cluster()
        self._folder.stay.unlink(missing_ok=True)  # that request was for an earlier keeper
        # A server whose keeper was killed, on its way down or (not on Linux) left alone.
        cluster.stop()
        if not cluster.is_made:
            cluster.init()
        try:
            self._start(cluster)
            self._keep(cluster)
        finally:
            if self._folder.still_has(self._lock):
                self._folder.clear_state()  # before the server goes: no user is sent to it now
            cluster.stop("immediate" if self._order.throwaway else "fast")

    def _cluster(self) -> Cluster:
        made_by = self._folder.data / "PG_VERSION"
        wanted_major = int(made_by.read_text()) if made_by.exists() else None
        binaries = runnable_by(server_account(), find_binaries(wanted_major))
        return Cluster(
            binaries.bindir,
            self._folder.data,
            self._order.options,
            throwaway=self._order.throwaway,
        )

    def _start(self, cluster: Cluster) -> None:
        cluster.start()
        self._folder.write_state(ServerState(dsn=cluster.dsn()))

    def _keep(self, cluster: Cluster) -> None:
        """Return when the server has to be stopped, or has stopped."""
        crashes = 0
        started_s = time.monotonic()
        while not self._asked_to_stop and self._folder.still_has(self._lock):
            # Once we have it, it is ours until this process ends: new users wait until then.
            stays = self._folder.stay.exists()
            if not stays and try_flock(self._folder.users_lock, EXCLUSIVE) is not None:
                return
            if cluster.exit_code == 0:
                return
            if cluster.exit_code is not None:
                crashes = 1 if time.monotonic() - started_s > _CALM_S else crashes + 1
                if crashes > _CRASHES_MAX:
                    raise GaplessError(
                        f"the embedded PostgreSQL crashes again and again (log: {cluster.log_path})"
                    )
                self._folder.clear_state()
                self._start(cluster)
                started_s = time.monotonic()
            time.sleep(_LOOK_AGAIN_S)

    def _ask_to_stop(self, _signum: int, _frame: FrameType | None) -> None:
        self._asked_to_stop = True


def main(argv: Sequence[str]) -> None:
    """Leave the process that started us, note our process id in the lock, and keep."""
    root, lock_text, order_text = argv
    if os.fork() != 0:
        os._exit(0)  # the starter has no child to wait for, and init takes the keeper over
    os.setsid()
    lock = int(lock_text)
    os.set_inheritable(lock, False)  # noqa: FBT003  # the server must not hold it
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    ServerKeeper(ServerFolder(Path(root)), lock, Order(**json.loads(order_text))).run()


if __name__ == "__main__":
    main(sys.argv[1:])
