"""The life of a forked process: it dies with its parent and keeps nothing of it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import psycopg
from setproctitle import setproctitle

from gapless.db.connect import end_of, is_transient
from gapless.errors import GaplessError
from gapless.resources import close_all, is_any_open
from gapless.telemetry.spans import flush
from gapless.worker.spec import ChildSpec, ExitCode

log = logging.getLogger("gapless.worker")

_PR_SET_PDEATHSIG = 1
CLOSE_S_MAX = 10.0  # seconds for resources, in all
WAIT_S_MAX = 1.0  # where there is no PDEATHSIG, a child checks getppid() this often


def settle(spec: ChildSpec, title: str) -> None:
    """Begin life as a child. Exits at once if the parent is already gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    # Ctrl-C goes to the whole foreground group, systemd's SIGTERM to all processes of a service;
    # only the supervisor acts on them. Not SIG_IGN: processes of handlers would inherit it.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _leave_to_supervisor)
    for each in (signal.SIGCHLD, signal.SIGTSTP):
        signal.signal(each, signal.SIG_DFL)
    for fd in spec.close_fds:
        try:
            os.close(fd)
        except OSError:
            continue  # closed before: the list may name a descriptor twice
    setproctitle(f"gapless: {title}")
    gc.freeze()  # objects of the supervisor live as long as this process: nothing to collect
    if is_orphan(spec):
        os._exit(ExitCode.ORPHANED)


def live(name: str, work: Callable[[], ExitCode]) -> NoReturn:
    """Work until the work is over, or there is no connection; then exit the process."""
    try:
        code = work()
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError) or is_transient(error):
            log.warning("%s: %s", name, end_of(error))
            code = ExitCode.CONNECTION_LOST
        else:
            log.exception("%s: worker crashed", name)
            code = ExitCode.CRASHED
    except GaplessError as error:
        log.error("%s: %s", name, error)  # noqa: TRY400 - one line for people
        code = ExitCode.CONNECTION_LOST
    except Exception:
        log.exception("%s: worker crashed", name)
        code = ExitCode.CRASHED
    close_resources(code)
    leave(code)


def close_resources(code: ExitCode) -> None:
    """Close the resources of handlers; leave one that hangs open after CLOSE_S_MAX seconds."""
    if not is_any_open():
        return
    watch = threading.Timer(CLOSE_S_MAX, _leave_open, [code])
    watch.daemon = True
    watch.start()
    close_all()
    watch.cancel()


def _leave_open(code: ExitCode) -> NoReturn:
    log.error("closing resources takes longer than %s s: they are left open", CLOSE_S_MAX)
    leave(code)


def leave(code: ExitCode) -> NoReturn:
    """End this process at once: nothing it shares with its parent is closed or cleaned up."""
    flush()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()  # output of handlers
    os._exit(code)


def is_orphan(spec: ChildSpec) -> bool:
    """Tell whether the supervisor that forked us is gone."""
    return os.getppid() != spec.supervisor_pid


def _leave_to_supervisor(_signal: int, _frame: FrameType | None) -> None:
    pass
