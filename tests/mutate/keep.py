"""A plugin of pytest that stays: it starts a server and imports tests once, then forks for each run.

Requests come by the standard input, answers go by the standard output, JSON in lines.
{"import": [paths]} asks for an import of these tests, while no mutant is in place: null. {"tests":
[paths], "patch": [path, original, mutated] or null, "limit_s": seconds} asks for a run: pytest's exit
code, null for one that had to be ended, or UNFIT when the patch does not fit. Files must be in place
before it. mutate.order, which goes with it, is asked each time.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

import pytest
from _pytest.pathlib import import_path

from mutate.patch import UnfitError, patch

UNFIT = 77
PAUSE_S = 0.05
BASE = "gapless_base"
PR_SET_CHILD_SUBREAPER = 36

_channel: list[int] = []  # to read from, to write to
_forked: list[int] = []  # the pid of the process that is forked for a run, in it
_code: list[int] = []  # how its run ended


def pytest_addoption() -> None:
    """Take the standard streams before pytest does; what it prints goes where errors go."""
    _channel[:] = os.dup(0), os.dup(1)
    os.dup2(2, 1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> bool:
    """Collect nothing yet."""
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Answer requests; in a forked process return None, and its run goes on as any."""
    ask, tell = _channel
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    with os.fdopen(ask, "rb", 0) as requests, os.fdopen(tell, "w") as answers:
        for line in requests:
            request = json.loads(line)
            if "import" in request:
                _import(session.config, request["import"])
                print("null", file=answers, flush=True)
                continue
            if (child := os.fork()) == 0:
                _forked.append(os.getpid())
                _patch(request["patch"])
                session.perform_collect(request["tests"])
                return None
            print(json.dumps(_wait(child, request["limit_s"], ask)), file=answers, flush=True)
    return True


def pytest_sessionfinish(exitstatus: int) -> None:
    _code.append(int(exitstatus))


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """End a forked process before the server is ended, which is not its own."""
    if os.getpid() in _forked:
        sys.stdout.flush()
        os._exit(_code[-1])


def _patch(wanted: list[str] | None) -> None:
    if wanted is None:
        return
    try:
        patch(*wanted)
    except UnfitError:
        os._exit(UNFIT)


def _import(config: pytest.Config, tests: list[str]) -> None:
    """Import what each run would import; collecting is for each run, for it can be done once."""
    for test in tests:
        place = config.rootpath / test.partition("::")[0]
        files = sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
        for file in [*(each / "conftest.py" for each in reversed(place.parents)), *files]:
            if file.is_relative_to(config.rootpath) and file.is_file():
                import_path(
                    file, mode=config.getoption("importmode"), root=config.rootpath,
                    consider_namespace_packages=False,
                )  # fmt: skip
    _make_base(config)


def _make_base(config: pytest.Config) -> None:
    """Start a server, and migrate one database there: those of the runs are made of it.

    So only what differs is applied to them.
    """
    start = [
        plugin._server_dsn  # of tests/conftest.py
        for plugin in config.pluginmanager.get_plugins()
        if hasattr(plugin, "_server_dsn")
    ]
    if not start or "GAPLESS_TEST_BASE" in os.environ:
        return
    dsn = start[0](config)
    os.environ["GAPLESS_TEST_BASE"] = BASE
    if (child := os.fork()) == 0:  # so that nothing that was read stays in this process
        try:
            _migrate(dsn)
        finally:
            os._exit(int(sys.exc_info()[0] is not None))
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the base of the databases cannot be made")


def _migrate(dsn: str) -> None:
    import psycopg
    from psycopg.conninfo import make_conninfo

    from gapless.db.connect import connect
    from gapless.db.migrate import migrate

    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"create database {BASE}")
    with connect(make_conninfo(dsn, dbname=BASE), role="template") as conn:
        migrate(conn)


def _wait(child: int, limit_s: float, ask: int) -> int | None:
    """Return the exit code; None after ending a run that took too long, or that nobody waits for."""
    others = _children() - {child}
    give_up = time.monotonic() + limit_s
    code = None
    while time.monotonic() < give_up and not select.select([ask], [], [], PAUSE_S)[0]:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
    while left := _children() - others:  # what a run leaves behind becomes this process's child
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return code


def _children() -> set[int]:
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for each in lists for pid in each.read_text().split()}
