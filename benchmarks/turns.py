"""Sides that take turns in one process, call by call: each is compared with its neighbour in time.

The costs of a turn are read from the clocks of its two processes alone: the backend of its session,
and this one. Other load on the machine disturbs neighbours alike.

No side is measured cold: PostgreSQL plans a prepared statement five times before it keeps a plan.
Older objects of this process are frozen, out of the garbage collector's sight, as in a worker:
otherwise the turns of one side pay for looking at all of them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from time import perf_counter, process_time
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

from benchmarks.cost import Cost, wal_bytes
from benchmarks.cpu import own_s, postmaster
from benchmarks.drain import Drained, drained_figures
from benchmarks.figure import ITSELF, NO_NOISE, NOISE, Figure, Target, compared

COLD_CALLS = 6
PAIRS_MAX = 40  # results that are kept of thousands of turns: sums of neighbouring ones


class Side(NamedTuple):
    """A session, and a turn in it, which returns its number of events; 0: there are no more."""

    conn: Connection[Any]
    turn: Callable[[], int]


def called(conn: Connection[Any], call: Callable[[Connection[Any]], object]) -> Side:
    """Return a side whose calls count as one event each, even if they find nothing."""

    def turn() -> int:
        call(conn)
        return 1

    return Side(conn, turn)


@dataclass(frozen=True, slots=True)
class Turn:
    """The work and time of a turn, or of a sum of turns; server_s: None if it is unknown."""

    calls: int
    events: int
    took_s: float
    client_s: float
    server_s: float | None
    wal_bytes: int

    @property
    def drained(self) -> Drained:
        """Return the rate, and the cost of an event."""
        server_us = None if self.server_s is None else self.server_s * 1e6 / self.events
        cpu_us = None if server_us is None else server_us + self.client_s * 1e6 / self.events
        cost = Cost(cpu_us, self.wal_bytes / self.events, server_us)
        return Drained(self.events / self.took_s, cost)


class Turns(dict[str, list[Turn]]):
    """The turns of each side by its name: the n-th turns of all sides are neighbours in time."""

    def drained(self) -> dict[str, tuple[Drained, ...]]:
        """Return at most PAIRS_MAX results of each side, in order."""
        return {name: _summed(turns) for name, turns in self.items()}

    def noise(self, what: str, name: str) -> list[Figure]:
        """Return a side beside itself: differences that mean nothing in this run.

        Of four turns the first and the last stand against the two between, so both halves have had
        each place in the order, and all neighbours.
        """
        turns = self[name][: len(self[name]) // 4 * 4]
        inner = [turn for number, turn in enumerate(turns) if number % 4 in (1, 2)]
        outer = [turn for number, turn in enumerate(turns) if number % 4 in (0, 3)]
        if not turns:
            return []
        figures = drained_figures(what + NOISE, _summed(outer), _summed(inner), ITSELF)[:2]
        return [replace(each, target=NO_NOISE) for each in figures]


def take_turns(
    dsn: str, sides: Mapping[str, Side], *, turn_events: int = 1, turns_max: int | None = None
) -> Turns:
    """Let the sides do about `turn_events` events in turn, until one has too few or all had enough.

    The order is reversed each time, so no side always follows the same one. Return the turns that
    all sides had after the cold ones; if there are none, the last of the cold ones.
    """
    order, turns = [*sides], Turns({name: [] for name in sides})
    is_local, calls, cold = postmaster(dsn) is not None, dict.fromkeys(sides, 0), 0
    with psycopg.connect(dsn, autocommit=True) as look, _frozen():
        while turns_max is None or len(turns[order[0]]) < cold + turns_max:
            taken = {name: _take(look, sides[name], turn_events, is_local) for name in order}
            if min(turn.events for turn in taken.values()) < turn_events:
                break
            cold += min(calls.values()) < COLD_CALLS
            for name, turn in taken.items():
                turns[name].append(turn)
                calls[name] += turn.calls
            order.reverse()
    return Turns({name: each[min(cold, len(each) - 1) :] for name, each in turns.items()})


@contextmanager
def _frozen() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _take(look: Connection[Any], side: Side, turn_events: int, is_local: bool) -> Turn:
    pid, calls, events = side.conn.info.backend_pid, 0, 0
    wal, server_s = wal_bytes(look), own_s(pid) if is_local else 0.0
    client_s, began_s = process_time(), perf_counter()
    while events < turn_events and (done := side.turn()):
        calls += 1
        events += done
    took_s, client_s = perf_counter() - began_s, process_time() - client_s
    return Turn(
        calls,
        events,
        took_s,
        client_s,
        own_s(pid) - server_s if is_local else None,
        wal_bytes(look) - wal,
    )


def _summed(turns: Sequence[Turn]) -> tuple[Drained, ...]:
    size = max(1, -(-len(turns) // PAIRS_MAX))
    return tuple(_sum(turns[at : at + size]).drained for at in range(0, len(turns), size))


def _sum(turns: Sequence[Turn]) -> Turn:
    columns = zip(*map(astuple, turns), strict=True)
    return Turn(*(None if None in column else sum(column) for column in columns))


def ms_figure(
    what: str,
    ours: Sequence[Drained],
    theirs: Sequence[Drained],
    against: str,
    target: Target | None = None,
) -> Figure:
    """Return the duration of a call, where an event is a call."""
    return compared(what, "ms", lambda each: 1000 / each.per_s, (ours, theirs, against), target)
