"""One supervisor as a program of its own: `python instance.py DSN JSON`; see Fleet.start()."""

import datetime as dt
import errno
import importlib
import json
import logging
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from gapless.consume.user.handler import Handler
from gapless.settings import Settings
from gapless.worker.plan import make_plan
from gapless.worker.supervisor import Supervisor
from support import elsewhere
from support.programs.fleet_app import caller, recorder


def main(dsn: str, text: str) -> int:
    wanted = json.loads(text)
    odd = wanted["odd"]
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s"
    )
    for name, value in wanted["patch"].items():
        module, _, attribute = name.rpartition(".")
        setattr(importlib.import_module(module), attribute, value)
    set_clock(odd["clock_ahead_s"])
    for _ in range(odd["open_files"]):
        os.open(os.devnull, os.O_RDONLY)
    refuse_forks(odd["refused_forks"])
    os.register_at_fork(after_in_child=lambda: time.sleep(odd["pause_after_fork_s"]))
    outside = wanted["settings"].get("delivery") == "at-least-once"
    handlers = [
        Handler(
            function=caller(group, dsn) if outside else recorder(group), topic=topic, group=group
        )
        for group, topic in wanted["groups"]
    ]
    said = {name: value for name, value in wanted["settings"].items() if value is not None}
    is_asked = "total_partitions" in said
    plan = make_plan(Settings(**said), dsn, handlers, asks_partitions=is_asked)
    return Supervisor(plan).run()


def set_clock(ahead_s: float) -> None:
    """Let this machine's clock be wrong, as far as Python programs see it."""
    now, now_ns = time.time, time.time_ns  # noqa: TID251 - to shift it

    class Wrong(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return super().now(tz) + dt.timedelta(seconds=ahead_s)

    if ahead_s:
        time.time = lambda: now() + ahead_s  # noqa: TID251
        time.time_ns = lambda: now_ns() + int(ahead_s * 1e9)
        dt.datetime = Wrong


def refuse_forks(times: int) -> None:
    """Make the machine refuse new processes, this many times."""
    fork, left = os.fork, iter(range(times))

    def refuse() -> int:
        if next(left, None) is not None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    os.fork = refuse


if __name__ == "__main__":
    elsewhere.configure()
    sys.exit(main(*sys.argv[1:]))
