"""The servers of a driver: it reads a standby as it reads the primary, and writes on the primary.

A standby replays commits in the order of the WAL. A sequencer sees an event only after its commit
is there, and commits its segment later: so a segment that a standby shows has its events there. A
run of the sequencer is one commit: ends from one snapshot are a consistent cut there, too. Nothing
is asked of snapshots, for pg_current_snapshot() lists no transactions in progress on a standby.

What a standby has replayed is a beginning of the primary's log, so a place found there is one of
the primary. The reverse takes time: a place from elsewhere (a checkpoint, another standby's end) is
waited for. A promotion makes the standby the primary of a new timeline, which places carry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from time import monotonic, sleep
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg import Connection

from gapless.db.connect import connect, is_transient
from gapless.db.migrate import require_schema
from gapless.db.queries import query
from gapless.errors import ConnectError, GaplessError, UsageError, one_line
from gapless.features.spark.options import ReadOptions
from gapless.features.spark.place import SETTLE_S_MAX, End, wait_for_offsets
from gapless.features.spark.reach import identity_of
from gapless.features.spark.tries import PAUSES_S, with_remedy

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("gapless.spark")

_LOOK_S = 0.01


class BehindError(UsageError):
    """A place lies beyond the end of a standby: it lags, or is of another log."""


@dataclass(slots=True)
class Servers:
    """The sessions of a driver. log: for reading. primary: for writing; None: there is none."""

    log: Connection[Any]
    primary: Connection[Any] | None

    @property
    def closed(self) -> bool:
        """Whether one of the sessions has ended."""
        return self.log.closed or (self.primary is not None and self.primary.closed)

    @property
    def is_standby(self) -> bool:
        """Whether `log` is a standby's, as far as settle() has seen."""
        return self.primary is not self.log

    def settle(self) -> None:
        """Return when `log` has offsets for all events that were committed before the call.

        Without a session to the primary, it has those that the standby has replayed. It waits for a
        sequencer, and for the standby, SETTLE_S_MAX each at most: a cut is consistent in any case.
        """
        if self.is_standby and not is_standby(self.log):  # it was promoted
            if self.primary is not None:
                self.primary.close()
            self.primary = self.log
        if self.primary is not None:
            wait_for_offsets(self.primary)
            if self.is_standby:
                _wait_for_replay(self.primary, self.log)

    def require_one_database(self) -> None:
        """Raise UsageError unless the primary is that of the standby."""
        if self.primary is not None and identity_of(self.primary) != identity_of(self.log):
            raise UsageError(
                f"primaryUrl leads to another database than url: {server_of(self.log)} is no "
                "standby of it"
            )

    def writable(self) -> Connection[Any]:
        """Return the session to the primary. Raises UsageError if there is none."""
        if self.primary is None:
            raise UsageError(
                f"groupId is recorded on the primary, and {server_of(self.log)} is a standby: name "
                "the primary as primaryUrl, or leave groupId out"
            )
        return self.primary

    def close(self) -> None:
        """End both sessions."""
        self.log.close()
        if self.primary is not None:
            self.primary.close()


def open_servers(options: ReadOptions) -> Servers:
    """Open the driver's sessions; the second one only if the first reached a standby.

    Raises ConnectError or SchemaError in one sentence, UsageError for two databases.
    """
    reader = open_control(options.dsn, standby=True)
    try:
        if not is_standby(reader):
            return Servers(reader, reader)
        if options.primary_dsn is None:
            return Servers(reader, None)
        servers = Servers(reader, open_control(options.primary_dsn))
    except BaseException:
        reader.close()
        raise
    try:
        servers.require_one_database()
    except BaseException:
        servers.close()
        raise
    return servers


def open_control(dsn: str, *, standby: bool = False) -> Connection[Any]:
    """Open a driver's session. Raises ConnectError or SchemaError in one sentence."""
    conn = connect(dsn, role="spark driver", standby=standby)
    try:
        require_schema(conn)
    except BaseException:
        conn.close()
        raise
    return conn


def is_standby(conn: Connection[Any]) -> bool:
    """Tell whether a session's server is a standby, now."""
    ((found,),) = conn.execute(query("spark", "is_standby")).fetchall()
    return bool(found)


def require_replayed(conn: Connection[Any], seen: Iterable[End], ends: Iterable[End]) -> None:
    """Raise BehindError for a server that lacks events which another one had before.

    What it knows nothing of would be left out, and times would be looked up in a part of the log.
    """
    known = {(end.topic, end.partition_id): end.next_offset for end in ends}
    lags = is_standby(conn)
    for end in seen:
        there = known.get((end.topic, end.partition_id))
        if (there or 1) < end.next_offset and (lags or there is None):
            raise BehindError(
                f"{end.topic}/{end.partition_id} had {end.next_offset - 1} events at load(), and "
                f"{server_of(conn)} has it up to {(there or 1) - 1} only: it lags, or it is of "
                "another database"
            )


def server_of(conn: Connection[Any]) -> str:
    """Return the words for a session's server."""
    return f"the server at {conn.info.host}:{conn.info.port}"


def steadily(look: Callable[P, T]) -> Callable[P, T]:
    """Repeat a driver's look at the log that was cut, or that a standby could not answer yet.

    Before: done again, it changes nothing. The first connection is tried once. Raises the last
    error, in one sentence, after PAUSES_S.
    """

    @wraps(look)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        pauses = iter(PAUSES_S)
        was_there = False
        while True:
            try:
                return look(*args, **kwargs)
            except (psycopg.Error, ConnectError, BehindError) as error:
                was_there = was_there or not isinstance(error, ConnectError)
                passes = isinstance(error, BehindError) or is_transient(error)
                pause_s = next(pauses, None) if was_there and passes else None
                if pause_s is None:
                    if passes and isinstance(error, psycopg.Error):
                        raise GaplessError(with_remedy(one_line(error))) from error
                    raise
                log.warning("%s: tried again", one_line(error))
                sleep(pause_s)

    return repeated


def _wait_for_replay(primary: Connection[Any], standby: Connection[Any]) -> None:
    """Return when the standby has replayed all that the primary has committed now."""
    ((lsn,),) = primary.execute(query("spark", "written_up_to")).fetchall()
    give_up_s = monotonic() + SETTLE_S_MAX
    while True:
        ((there,),) = standby.execute(query("spark", "is_replayed_up_to"), {"lsn": lsn}).fetchall()
        if there:
            return
        if monotonic() > give_up_s:
            log.warning(
                "%s has not replayed the primary's commits within %.0f s: it is read as it is",
                server_of(standby),
                SETTLE_S_MAX,
            )
            return
        sleep(_LOOK_S)
