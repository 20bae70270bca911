"""Faults of all kinds at random, under load: nothing lost, nothing twice, nobody stands still.

A seed fixes the order of the faults, not the interleaving. `--soak` runs more seeds, and longer.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from random import Random
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest

from stage.worker.fleet import Fleet, Instance, Load, until
from stage.worker.ledger import assert_exactly_once, entries, handovers

PARTITIONS = 6
INSTANCES = 3
# Of a pause beyond the ttl (1.5 s), the grace (0.5 s), a sequencer that stands still (2 s), the time
# to come back, and again: two faults may follow one another.
STALL_S_MAX = 12.0


class Nemesis:
    """Does something bad to a random instance, and mends it."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._random = Random(seed)
        self._names = (f"i{number}" for number in count())
        self._running = [self._start() for _ in range(INSTANCES)]
        self.done: Counter[str] = Counter()
        self._deeds: list[Callable[[Instance], None]] = [
            self.kill_a_child,
            self.kill_a_supervisor,
            self.kill_an_instance,
            self.stop_a_child,
            self.stop_a_supervisor,
            self.stop_an_instance,
            self.end_some_sessions,
            self.leave,
            self.join_and_leave,
        ]

    def strike(self) -> None:
        deed = self._random.choice(self._deeds)
        self.done[deed.__name__] += 1
        deed(self._random.choice(self._running))

    def kill_a_child(self, victim: Instance) -> None:
        self._signal_child(victim, SIGKILL)

    def kill_a_supervisor(self, victim: Instance) -> None:
        victim.signal(SIGKILL)
        self._replace(victim)

    def kill_an_instance(self, victim: Instance) -> None:
        victim.signal_all(SIGKILL)
        self._replace(victim)

    def stop_a_child(self, victim: Instance) -> None:
        child = self._signal_child(victim, SIGSTOP)
        self._pass(self._random.uniform(0.1, 2.5))
        if child in victim.children():
            os.kill(child, SIGCONT)

    def stop_a_supervisor(self, victim: Instance) -> None:
        victim.signal(SIGSTOP)
        self._pass(self._random.uniform(0.1, 4.0))
        victim.signal(SIGCONT)

    def stop_an_instance(self, victim: Instance) -> None:
        victim.signal_all(SIGSTOP)
        self._pass(self._random.uniform(0.1, 4.0))
        victim.signal_all(SIGCONT)

    def end_some_sessions(self, _: Instance) -> None:
        self._fleet.terminate(
            self._random.choice(["gapless/supervisor", "gapless/worker%", "gapless/sequencer"])
        )

    def leave(self, victim: Instance) -> None:
        until(lambda: victim.logged("joined"), "it minds its signals")
        victim.signal(SIGTERM)
        assert victim.ended() == 0
        self._replace(victim)

    def join_and_leave(self, _: Instance) -> None:
        guest = self._start()
        self._pass(self._random.uniform(0.3, 1.0))
        guest.signal(SIGTERM)

    def _signal_child(self, victim: Instance, number: int) -> int | None:
        children = sorted(victim.children())
        if not children:
            return None
        child = self._random.choice(children)
        os.kill(child, number)
        return child

    def _replace(self, victim: Instance) -> None:
        self._running.remove(victim)
        self._running.append(self._start())

    def _start(self) -> Instance:
        return self._fleet.start(
            next(self._names), total_partitions=PARTITIONS, max_processing_ms=1000
        )

    def _pass(self, seconds: float) -> None:
        since = self._fleet.now()
        until(lambda: self._fleet.now() - since > seconds, "time passes")


def check(fleet: Fleet, nemesis: Nemesis, seed: int) -> None:
    """Let all settle, then look at the history."""
    until(
        lambda: sorted(fleet.owners().values()) == [2, 2, 2],
        "balanced again",
        within=lambda: f"seed {seed}, {nemesis.done}\n{fleet.state()}\n{fleet.logs()}",
    )
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    history = entries(fleet.conn)
    stall_s = max(y.at - x.at for run in history.values() for x, y in pairwise(run))
    print(  # noqa: T201
        f"seed {seed}: {sum(map(len, history.values()))} events, {nemesis.done.total()} faults,"
        f" {len(list(handovers(history)))} changes of worker, longest stall {stall_s:.1f} s"
    )
    assert stall_s < STALL_S_MAX


def run(fleet: Fleet, seed: int, seconds: float) -> None:
    nemesis = Nemesis(fleet, seed)
    until(lambda: len(fleet.owners()) == INSTANCES, "all there")
    give_up = time.monotonic() + seconds
    with Load(fleet, every_s=0.02, partitions=PARTITIONS) as load:
        while time.monotonic() < give_up:
            nemesis.strike()
            load.go_on(10)
    check(fleet, nemesis, seed)


@pytest.mark.slow
def test_faults_at_random(fleet: Fleet) -> None:
    run(fleet, seed=1, seconds=10)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 12))
def test_faults_at_random_for_long(fleet: Fleet, seed: int) -> None:
    run(fleet, seed=seed, seconds=60)
