"""The supervisor's control session: member of the groups, heartbeat, watch, and the way back.

JOINED  beat and watch; connection lost -> CUT
CUT     workers continue; reconnect: still a member -> JOINED, evicted -> a new member
        longer than the ttl by our own clock -> peers may take us for dead: kill the workers
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any, Literal
from uuid import UUID

import psycopg
from psycopg import Connection

from gapless import feature
from gapless.db.connect import connect, is_revoked, is_transient
from gapless.db.hidden import require_rows
from gapless.db.migrate import require_schema
from gapless.errors import ConnectError, one_line
from gapless.lease.member import Member, ServedTopic, Timing
from gapless.lease.room import Own, missing_grant, own_sessions, require_room
from gapless.log.topics import Topic, create_topic, find_topic
from gapless.settings import Settings
from gapless.worker.beat_timer import BeatTimer
from gapless.worker.bells import Bells
from gapless.worker.cut_off import CutOff
from gapless.worker.follow import Follower
from gapless.worker.plan import Plan
from gapless.worker.served import partitions_a_worker, require_topics, subscription_of
from gapless.worker.unleased import Unleased

log = logging.getLogger("gapless.supervisor")

Event = Literal["joined", "cut", "lost"]


class Control:
    """Keeps this supervisor a member; its loop calls `tend()` every turn."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._settings = plan.settings
        self._own_topics = set(feature.parts(lambda each: each.topics))
        self._conn: Connection[Any] | None = None
        self._bells: Bells | None = None  # of that session
        self._member: Member | None = None
        self._follower = Follower(plan)
        self._replaced: set[tuple[str, str]] = set()
        self._draining = False
        self._changed = False
        self._lost = False  # the workers of a former member have not been killed yet
        self._cut_off = CutOff()
        self._sessions = own_sessions(is_measured=plan.settings.metrics is not None)
        self._beats = BeatTimer(
            beat_every_s=plan.settings.heartbeat_ms / 1000,
            look_every_s=plan.settings.presence_poll_ms / 1000,
            ttl_s=plan.settings.member_ttl_ms / 1000,
        )

    @property
    def member(self) -> Member:
        assert self._member is not None
        return self._member

    @property
    def is_member(self) -> bool:
        """Whether there is a session, and a member to act as."""
        return self._conn is not None and self._member is not None

    @property
    def member_id(self) -> UUID | None:
        """The member to act as; None when there is no member or no session."""
        return self.member.member_id if self.is_member else None

    @property
    def due_s(self) -> float:
        """When `tend()` has something to do next (monotonic)."""
        return self._beats.due_s(is_cut=self._conn is None)

    def filenos(self) -> list[int]:
        return [] if self._conn is None else [self._conn.fileno()]

    def join(self) -> None:
        """Connect and become a new member. Raises ConnectError, SchemaError, UsageError."""
        conn = self._connect()
        try:
            self._join(conn, self._settings)
        except BaseException:
            conn.close()  # it may hold the presence lock already
            raise

    def _join(self, conn: Connection[Any], settings: Settings) -> None:
        require_schema(conn)
        for each in self._plan.declared:
            each.make_known(conn)
        self._follower.look(conn)  # baseline for later changes
        require_topics(conn, self._plan.handlers, self._plan.makes)
        require_room(
            conn,
            [key for key, terms in self._plan.terms.items() if terms.is_ordered],
            capacity=settings.capacity,
            partitions_per_worker=partitions_a_worker(conn, self._plan),
            total_partitions=settings.total_partitions,
            own=Own(self._sessions, sum(terms.workers for *_, terms in self._plan.unleased)),
        )
        warning = missing_grant(conn)
        if warning is not None:
            log.warning("supervisor: %s", warning)
        self._become_member(conn)
        names = ", ".join(f"{group}/{topic}" for group, topic in self._plan.terms) or "no group yet"
        log.info("supervisor: joined %s as %s", names, settings.name_for_people())

    def tend(self) -> Event:
        """Beat and watch when due, reconnect when cut; return the event that follows for the loop.

        "lost": we were evicted, or must assume so; the workers of the old member must die.
        """
        try:
            if self._conn is None:
                self._return(monotonic())
            else:
                self._stay(self._conn, monotonic())
        except (psycopg.Error, ConnectError) as error:
            self.note_error(error)
        lost, self._lost = self._lost, False
        if lost:
            return "lost"
        return "joined" if self._conn is not None else "cut"

    def changed(self) -> bool:
        """Tell, once, whether leases may have changed."""
        changed, self._changed = self._changed, False
        return changed

    def replaced(self) -> set[tuple[str, str]]:
        """Return, once, the groups and topics whose handler has been replaced."""
        replaced, self._replaced = self._replaced, set()
        return replaced

    @property
    def bells(self) -> Bells:
        """The notifications of the session, while there is a member to act as."""
        assert self._bells is not None
        return self._bells

    def drain(self) -> None:
        """Ask for no more partitions, as soon as there is a connection."""
        self._draining = True
        self._beats.hurry()
        if self._conn is not None:
            try:
                self.member.drain()
            except psycopg.Error as error:
                self.note_error(error)

    def tell(self, unleased: Unleased) -> None:
        """Report dead workers without a lease to the database."""
        if self._conn is not None:
            unleased.tell(self._conn)

    def leave(self) -> None:
        """Stop being a member; if the database cannot be reached, the peers will notice."""
        if self._conn is None:
            return
        try:
            self.member.leave()
        except psycopg.Error as error:
            log.warning("supervisor: could not say goodbye: %s", one_line(error))
        self._conn.close()
        self._conn = None

    def note_error(self, error: psycopg.Error | ConnectError) -> None:
        """Drop the connection after a passing error (a revoked grant is one, too); raise others."""
        broken = self._conn is None or self._conn.closed
        passes = is_transient(error) or (is_revoked(error) and not self._settings.exit_on_revoked)
        if not broken and not passes:
            raise error
        if self._conn is not None:
            self._conn.close()
        self._conn = None
        self._beats.cut(monotonic(), self._cut_off.failed(error))

    # -- the way back -----------------------------------------------------------------------------

    def _return(self, now: float) -> None:
        # While the server is away no peer can evict us; the return shows whether one did before.
        if self._beats.is_overdue(now):
            log.warning("supervisor: cut off for longer than the ttl: ending the workers")
            self._lost = True
        if not self._beats.may_return(now):
            return
        conn = self._connect()
        try:
            if self._member is not None and self._member.reattach(conn):
                self._go_on(conn, self._member)
            else:
                self._join_anew(conn)
        except BaseException:
            conn.close()  # it may hold the presence lock already, which would shut us out forever
            raise

    def _go_on(self, conn: Connection[Any], member: Member) -> None:
        if self._draining:
            member.drain()
        self._conn, self._bells = conn, Bells(conn)
        self._cut_off.ended()
        self._beats.beaten(monotonic())
        self._changed = True
        log.info("supervisor: back, and still a member")

    def _join_anew(self, conn: Connection[Any]) -> None:
        require_rows(conn)  # otherwise it is unknown whether we were evicted
        if not self._cut_off.is_revoked:
            log.warning("supervisor: was evicted, joining as a new member")
        self._member = None
        self._lost = True
        self._become_member(conn)
        self._cut_off.ended()

    # -- membership -------------------------------------------------------------------------------

    def _connect(self) -> Connection[Any]:
        return connect(
            self._plan.dsn,
            role="supervisor",
            connect_timeout_s=self._settings.connect_timeout_s,
        )

    def _topic(self, conn: Connection[Any], name: str) -> Topic:
        """Return a topic; create it if the plan says so; reject another number of partitions."""
        topic = find_topic(conn, name)
        if topic is not None and (name in self._own_topics or not self._plan.asks_partitions):
            return topic
        wanted = self._settings.total_partitions
        keep_s = self._settings.retention_s
        topic, is_new = create_topic(conn, name, partitions=wanted, keep_s=keep_s)
        if is_new:
            log.info("supervisor: created topic %s, partitions: %s", name, wanted)
        return topic

    def _wanted(self, conn: Connection[Any]) -> list[ServedTopic]:
        return [
            subscription_of(group, self._topic(conn, topic), terms)
            for (group, topic), terms in self._plan.terms.items()
        ]

    def _become_member(self, conn: Connection[Any]) -> None:
        settings = self._settings
        self._follower.look(conn)  # the supervisor may have been away for long
        timing = Timing(
            ttl_ms=settings.member_ttl_ms,
            suspect_grace_ms=settings.suspect_grace_ms,
            reconnect_grace_ms=settings.reconnect_grace_ms,
        )
        self._member = Member(
            conn,
            self._wanted(conn),
            timing,
            name=settings.name_for_people(),
            capacity=settings.capacity,
            partitions_per_worker=partitions_a_worker(conn, self._plan),
            sessions=self._sessions,
        )
        if self._draining:
            self._member.drain()
        self._member.sync()
        self._conn, self._bells = conn, Bells(conn)
        self._beats.beaten(monotonic())
        self._changed = True

    def _stay(self, conn: Connection[Any], now: float) -> None:
        if self._beats.wants_beat(now):
            if not self.member.beat():
                self._join_anew(conn)
                return
            self._beats.beaten(now)
            self.member.end_foreign_locks()
            if not self._draining:
                self._follow(conn)
        if self._beats.wants_look(now):
            self._watch()

    def _follow(self, conn: Connection[Any]) -> None:
        """Join the groups of handlers that came, leave those of handlers that went."""
        news = self._follower.look(conn)
        if news:
            self.member.change(self._wanted(conn))
            self._replaced |= news.replaced
            self._changed = True
            log.info("supervisor: handlers: %s", news)

    def _watch(self) -> None:
        if self.member.watch():
            self.member.evict()
            self.member.sync()
            self._changed = True
