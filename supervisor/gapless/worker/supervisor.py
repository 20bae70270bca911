"""The supervisor: one thread, one loop; joins, leases, forks, watches, rebalances, drains.

Start as many identical ones as you like, on as many machines: only group and DSN are configured.
It handles no events itself, so a slow handler never costs it its membership.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from time import monotonic

import psycopg

from gapless.db.listen import readable
from gapless.errors import ConnectError
from gapless.failpoints import hit
from gapless.lease.member import Lease
from gapless.lease.room import MANY_PARTITIONS
from gapless.telemetry.meter import Meters
from gapless.worker.children import Children
from gapless.worker.control import Control
from gapless.worker.onlookers import MakeExporter, Observer
from gapless.worker.plan import Plan
from gapless.worker.reconcile import reconcile
from gapless.worker.signals import SignalQueue
from gapless.worker.start import join_when_there
from gapless.worker.systemd import ServiceManager

log = logging.getLogger("gapless.supervisor")

TICK_S = 0.25
STOPPING_TICK_S = 0.02
ROUND_EARLY_S = 0.3  # before workers look themselves: more than a turn later is too late
_DIGITS_MAX = 19  # of a lease_no
SUCCESSOR_WAIT_S = 0.5  # on leaving: successors have this long to get ready


class Supervisor:
    """Runs a plan until SIGTERM or SIGINT; `run()` returns when everything is drained."""

    def __init__(
        self,
        plan: Plan,
        observer: Observer | None = None,
        make_exporter: MakeExporter | None = None,
    ) -> None:
        self._plan = plan
        self._settings = plan.settings
        self._observer = observer
        self._signals = SignalQueue()
        self._control = Control(plan)
        self._manager = ServiceManager()
        self._exporter = None if make_exporter is None else make_exporter(self._fds_of_others)
        meters = Meters(0) if self._exporter is None else self._exporter.meters
        self._children = Children(plan, os.getpid(), self._private_fds, meters)
        self._ready: set[int] = set()  # lease_no of partitions whose next worker waits
        self._leases: list[Lease] = []
        self._stopping_since_s: float | None = None
        self._dirty = True
        self._round_due_s = 0.0
        self._is_hinted = plan.settings.partitions_per_worker != 1

    def run(self) -> int:
        """Supervise; return 0 when drained.

        While the database is away at the start, it waits for at most startTimeoutS. Raises
        ConnectError, SchemaError or UsageError at the start only.
        """
        with self._signals:
            try:
                self._tell()
                if not join_when_there(self._control, self._plan, self._rest):
                    self._stopping_since_s = monotonic()
                while not (self._stopping_since_s is not None and self._children.is_empty()):
                    self._turn()
                self._control.leave()
            finally:
                self._children.kill_all()
                if self._exporter is not None:
                    self._exporter.end()
                self._manager.close()
        log.info("supervisor: drained")
        return 0

    def _rest(self, seconds: float) -> bool:
        """Sleep while the database is away; return False when asked to stop."""
        if self._observer is not None:
            self._observer.tick()
        self._tell()
        readable(max(0.0, seconds), *self._signals.filenos())
        return not self._signals.take()

    def _turn(self) -> None:
        self._wait()
        stops = self._signals.take()  # before the look at the children: their ends are signals too
        self._children.watch()
        self._obey(stops)
        event = self._control.tend()
        if event == "lost":
            self._children.kill_all()  # no longer a member: none of our children may continue
        if self._control.is_member:
            self._govern()
        elif self._stopping_since_s is not None:
            self._children.drain_all()
        if self._observer is not None:
            self._observer.tick()
        self._tell()

    def _tell(self) -> None:
        """Tell the exporter and systemd that the loop turned, and as which member."""
        member_id = self._control.member_id
        drains = self._stopping_since_s is not None
        if self._exporter is not None:
            self._exporter.turn(member_id, drains=drains)
        self._manager.turn(member_id, drains=drains)

    def _wait(self) -> None:
        """Sleep until a signal, a notification, a child's end, or the next thing that is due."""
        now = monotonic()
        due = [self._control.due_s, self._children.next_restart_s() or now + TICK_S, now + TICK_S]
        if self._stopping_since_s is not None:
            due.append(now + STOPPING_TICK_S)
        if self._dirty and self._control.is_member:
            due.append(now)
        due += [each.due_s for each in self._children.unleased]
        others = *self._signals.filenos(), *self._children.filenos()  # a child's end is a signal
        rings = True
        while rings:
            left_s = max(0.0, min(due) - monotonic())
            readable(left_s, *others, *self._control.filenos())
            rings = left_s > 0 and self._is_only_rung() and not readable(0.0, *others)

    def _is_only_rung(self) -> bool:
        """Ring workers; tell whether nothing else was to do: a turn takes much longer."""
        if not (self._children.sharing.is_auto and self._control.is_member):
            return False
        try:
            return self._ring() and not self._control.bells.payloads
        except psycopg.Error as error:
            self._control.note_error(error)
            return False

    def _ring(self) -> bool:
        rung = self._control.bells.take()
        self._children.sharing.ring(rung)
        return bool(rung)

    def _obey(self, stops: int) -> None:
        """Act on the requests to stop that came: the first says drain, the second says now."""
        if stops and self._stopping_since_s is None:
            log.info("supervisor: draining")
            self._stopping_since_s = monotonic()
            self._children.drain_unleased()
            self._control.drain()
            self._dirty = True
            stops -= 1
        if self._stopping_since_s is None:
            self._children.keep_sequencer()
            return
        overdue = monotonic() - self._stopping_since_s > self._settings.drain_timeout_ms / 1000
        if stops or (overdue and not self._children.is_killed()):
            log.warning("supervisor: killing the workers that have not drained")
            self._children.kill_all()

    def _govern(self) -> None:
        """Make the workers fit the leases."""
        try:
            self._hear()
            self._round(monotonic())
            self._dirty |= self._children.has_ended() | self._control.changed()
            if self._dirty:
                self._leases = self._control.member.leases()
                self._disown()
                self._hint()
                self._dirty = False
            self._replace(self._control.replaced())
            for each in self._children.unleased:
                self._control.tell(each)
                if self._stopping_since_s is None:
                    each.keep()
            self._reconcile()
            self._hear()  # notifications read with those answers make no descriptor readable
        except (psycopg.Error, ConnectError) as error:
            self._control.note_error(error)

    def _round(self, now_s: float) -> None:
        """Look, for all workers, for work of which no notification told (I8)."""
        if now_s >= self._round_due_s:
            self._round_due_s = now_s + self._settings.wait_period_ms / 1000 - ROUND_EARLY_S
            with suppress(psycopg.errors.LockNotAvailable):  # then workers look for themselves
                self._children.sharing.looked(now_s, self._control.member.due_leases())

    def _replace(self, served: set[tuple[str, str]]) -> None:
        """Give new workers to groups and topics whose handler has been replaced."""
        for partition in self._children.running() if served else ():
            if (partition.group_id, partition.topic) in served:
                self._children.drain(partition)

    def _disown(self) -> None:
        """Give up leases of ours that no worker of ours serves: it died without letting go."""
        running = self._children.running()
        for lease in self._leases:
            if lease.owner == self._control.member.member_id and lease.partition not in running:
                self._control.member.disown(lease.partition)

    def _hint(self) -> None:
        """Log once that one process per partition is expensive when they are many."""
        me = self._control.member.member_id
        wanted = sum(lease.target == me for lease in self._leases)
        if wanted > MANY_PARTITIONS and not self._is_hinted:
            self._is_hinted = True
            log.warning(
                "supervisor: %s partitions, each with a process and a session of its own: "
                "partitionsPerWorker: auto lets a few workers serve all whose handlers are fast",
                wanted,
            )

    def _hear(self) -> None:
        self._ring()
        bells = self._control.bells
        heard, bells.payloads = bells.payloads, []
        for payload in heard:
            self._dirty = True
            word, _, number = payload.partition(" ")
            if word == "ready" and number.isdecimal() and len(number) < _DIGITS_MAX:
                self._ready.add(int(number))  # a hint: any session may notify (I11)

    def _reconcile(self) -> None:
        stopping = self._stopping_since_s
        leaving_now = stopping is not None and (
            monotonic() - stopping > SUCCESSOR_WAIT_S or not self._control.member.has_peers()
        )
        me = self._control.member.member_id
        running = self._children.running()
        leases = {lease.partition: lease for lease in self._leases}
        wanted = [each for each in self._leases if each.target == me and not each.is_paused]
        self._control.bells.keep(self._children.sharing.channels(wanted))
        if stopping is None:
            self._children.sharing.fit(wanted, self._plan.terms)
        self._ready &= {lease.lease_no for lease in self._leases if lease.target != me}
        for action in reconcile(me, self._leases, running, self._ready, leaving_now=leaving_now):
            if action.kind == "drain":
                hit("handover.drain")
                self._children.drain(action.partition)
            elif stopping is None:
                served = action.partition.group_id, action.partition.topic
                handler, terms = self._plan.handlers[served], self._plan.terms[served]
                self._children.start(leases[action.partition], me, handler, terms)

    def _private_fds(self) -> list[int]:
        return [*self._own_fds(), *(self._exporter.filenos() if self._exporter else [])]

    def _fds_of_others(self) -> list[int]:
        """Return the descriptors that the exporter must not keep."""
        return [*self._own_fds(), *self._children.descriptors()]

    def _own_fds(self) -> list[int]:
        return [
            *self._signals.filenos(),
            *self._signals.private_fds(),
            *self._control.filenos(),
            *self._manager.filenos(),
            *(self._observer.filenos() if self._observer is not None else []),
        ]
