"""What a fault is, and what it acts on.

A fault is a generator: it harms, yields how long, and mends. It is written down before the harm is
done, with the process ids it is aimed at: so that coverage can tell what a worker was at. What it
started or stopped itself, it replaces.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from chaos.chain import SEED
from chaos.history import Fault, Writer
from chaos.process import LOOK_AGAIN_S, Process, running
from chaos.scene import MACHINES_MAX, Scene

PRODUCERS_LINE = MACHINES_MAX - 1  # the machine that producers run on
# Transactions a second of a producer, about; six groups handle each, two what comes of it.
RATE = 5.0
PAUSE_S = (0.1, 3.5)  # the ttl of a run is 1.5 s
SHORT_S = (0.05, 0.6)
EATEN_MAX = 3
AIM_S = 0.5
PARTITIONS_PER_WORKER = (1, 1, 2, 8, "auto", "auto")
LAST_BYTES = 400  # of a history: its last line is in there


@dataclass
class Arena:
    """A scene, its fate, and where it is written down."""

    scene: Scene
    random: Random
    writer: Writer
    supervisors: int
    seed: int
    harmed: set[int] = field(default_factory=set)  # lines and processes under a fault that lasts
    eaten: int = 0

    def note(self, kind: str, target: object, *, crash: bool = False) -> None:
        self.writer.write(Fault(kind=kind, target=str(target), crash=crash))

    def note_lost(self, kind: str, target: object) -> None:
        """Write down that what a crash takes is taken: what begins from now on is not."""
        self.writer.write(Fault(kind=kind, target=str(target), phase="lost", crash=True))

    def note_end(self, kind: str, target: object) -> None:
        self.writer.write(Fault(kind=kind, target=str(target), phase="end"))

    def pick(self) -> Process | None:
        """One of the supervisors that nothing lasting is done to."""
        sound = [p for p in running(self.scene.supervisors) if p.pid not in self.harmed]
        return self.random.choice(sound) if sound else None

    def aim(self, victim: Process) -> int | None:
        """One of its children: every other time one inside a handler, if there is one soon."""
        give_up_s = time.monotonic() + AIM_S * self.random.choice((0, 1))
        while time.monotonic() < give_up_s:
            for pid in victim.children():
                if self.is_handling(pid):
                    return pid
            time.sleep(LOOK_AGAIN_S)
        children = victim.children()
        return self.random.choice(children) if children else None

    def is_handling(self, pid: int) -> bool:
        """Tell whether a process is inside a handler of chaos.shop."""
        for path in self.scene.folder.glob(f"worker-{pid}-*.jsonl"):
            lines = path.read_bytes()[-LAST_BYTES:].splitlines()
            return bool(lines) and b'"phase":"begin"' in lines[-1]  # none: it has begun nothing yet
        return False

    def lasting(self) -> float:
        return self.random.uniform(*self.random.choice((SHORT_S, SHORT_S, PAUSE_S)))

    def start_supervisor(self) -> Process:
        """Start one more; some serve each partition by a process of its own, others do not."""
        return self.scene.start_supervisor(
            min(self.scene.free_line(), PRODUCERS_LINE - 1),
            env={SEED: str(self.seed)},
            partitionsPerWorker=self.random.choice(PARTITIONS_PER_WORKER),
        )

    def replace(self) -> None:
        """Start supervisors until there are as many as there should be."""
        scene = self.scene
        scene.supervisors[:] = running(scene.supervisors)
        while len(scene.supervisors) < self.supervisors:
            self.start_supervisor()


Deed = Callable[[Arena], Iterator[float]]
FAULTS: dict[str, Deed] = {}


def fault(deed: Deed) -> Deed:
    FAULTS[deed.__name__] = deed
    return deed


def kill(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
