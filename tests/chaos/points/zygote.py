"""Forks supervisors and producers at once: python zygote.py DSN FOLDER, a JSON line for each.

A process of its own with everything imported: a supervisor is there in 30 ms instead of half a
second. Answers with the pid; what a process ends with is put into FOLDER/ends/PID.
"""

import ctypes
import json
import logging
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[2]))

import gapless.consume.drive
import gapless.worker.retries
import gapless.worker.sequencer
from chaos.app import make_handler
from chaos.history import Writer
from chaos.mutants.apply import mutate
from chaos.points import traps
from chaos.producer import Draft, Producer
from gapless.db.connect import connect
from gapless.settings import Settings
from gapless.worker.plan import make_plan
from gapless.worker.supervisor import Supervisor

log = logging.getLogger("zygote")

LOOK_EVERY_S = 0.01
STANDSTILL_S_MAX = 0.4
BACKOFF_S_MAX = 0.1
GOES_ON_S = (
    1.0  # a batch may take longer than the usual 20 ms on a busy machine: still they read ahead
)
_PR_SET_PDEATHSIG = 1


def main(dsn: str, folder: Path) -> None:
    children: set[int] = set()
    text = b""
    while True:
        if select.select([0], [], [], LOOK_EVERY_S)[0]:
            got = os.read(0, 1 << 16)
            if not got:
                break
            *lines, text = (text + got).split(b"\n")
            for line in lines:
                pid = start(dsn, folder, json.loads(line))
                children.add(pid)
                os.write(1, f"{pid}\n".encode())
        reap(folder, children)
    for pid in children:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)


def reap(folder: Path, children: set[int]) -> None:
    for pid in list(children):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            children.remove(pid)
            hidden = folder / "ends" / f".{pid}"
            hidden.write_text(str(os.waitstatus_to_exitcode(status)))
            hidden.rename(folder / "ends" / str(pid))


def start(dsn: str, folder: Path, wanted: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    log = os.open(folder / "logs" / f"{wanted['name']}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s"
    )
    _live(dsn, folder, wanted)
    return None


def _live(dsn: str, folder: Path, wanted: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        traps.arm(folder / "traps", dsn)
        mutate(wanted["mutant"])
        code = {"supervisor": supervise, "producer": produce}[wanted["kind"]](dsn, folder, wanted)
    except BaseException:
        log.exception("ended")
    finally:
        logging.shutdown()
        os._exit(code)


def supervise(dsn: str, folder: Path, wanted: dict[str, Any]) -> int:
    gapless.worker.sequencer.STANDSTILL_S_MAX = STANDSTILL_S_MAX
    gapless.worker.retries.BACKOFF_S_MAX = BACKOFF_S_MAX
    gapless.consume.drive.GOES_ON_S = GOES_ON_S
    settings = Settings(instance_name=wanted["name"], **wanted["settings"])
    plan = make_plan(settings, dsn, [make_handler("g", "t")])
    return Supervisor(plan).run()


def produce(dsn: str, folder: Path, wanted: dict[str, Any]) -> int:
    producer = Producer(
        wanted["name"],
        lambda: connect(dsn, role="producer"),
        Writer(folder, "producer"),
    )
    for key, drafts in wanted["orders"]:
        producer.order(key, [Draft(**draft) for draft in drafts])
    producer.close()
    return 0


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
