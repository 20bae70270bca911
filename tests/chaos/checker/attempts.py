"""What became of each attempt to publish, with no "maybe" left."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from psycopg import Connection

from chaos.history import Begun, Fault, Invoke, Outcome, Record

Fate = Literal["committed", "aborted", "in progress"]
PATIENCE_S = 10.0  # a killed producer's backend may take a moment to notice
_STATUS = """
select x, case when x::xid8 < pg_snapshot_xmax(pg_current_snapshot())
  then coalesce(pg_xact_status(x::xid8), 'aborted') else 'aborted' end
from unnest(%s::text[]) x
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt, resolved. said: what its producer knew; None: it was killed before it could tell.

    committed_ns: when COMMIT had been answered; None if nobody knows.
    """

    invoke: Invoke
    xid: str | None
    said: str | None
    fate: Fate
    committed_ns: int | None


def resolve(
    conn: Connection[Any], records: Iterable[Record], visible: set[str]
) -> dict[str, Attempt]:
    """Return all attempts by their ids.

    visible: the attempts of which anything is in the database. Of an attempt without an answer
    that pg_xact_status() calls committed, and that has nothing there although the server crashed
    after it began, the xid was given out again: it aborted.
    """
    invokes: dict[str, Invoke] = {}
    begun: dict[str, Begun] = {}
    ended: dict[str, Outcome] = {}
    crashes: list[int] = []
    for record in records:
        match record:
            case Invoke():
                invokes[record.attempt] = record
            case Begun():
                begun[record.attempt] = record
            case Outcome():
                ended[record.attempt] = record
            case Fault(crash=True):
                crashes.append(record.at_ns)
    unknown = [
        each.xid for id_, each in begun.items() if id_ not in ended or ended[id_].ended == "info"
    ]
    status = _statuses(conn, unknown)
    crashed_ns = max(crashes, default=-1)
    attempts: dict[str, Attempt] = {}
    for id_, invoke in invokes.items():
        said = ended[id_].ended if id_ in ended else None
        begin = begun.get(id_)
        fate = _fate(said, status.get(begin.xid) if begin else None)
        unanswered = said in (None, "info")
        if fate == "committed" and unanswered and id_ not in visible and begin is not None:
            fate = "aborted" if crashed_ns > begin.at_ns else fate
        attempts[id_] = Attempt(
            invoke=invoke,
            xid=begin.xid if begin else None,
            said=said,
            fate=fate,
            committed_ns=ended[id_].at_ns if said == "ok" else None,
        )
    return attempts


def _fate(said: str | None, status: str | None) -> Fate:
    if said == "ok":
        return "committed"
    if said in ("fail", "already") or status is None:
        return "aborted"
    return "in progress" if status == "in progress" else _known(status)


def _known(status: str) -> Fate:
    return "committed" if status == "committed" else "aborted"


def _statuses(conn: Connection[Any], xids: list[str]) -> dict[str, str]:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        found: dict[str, str] = dict(conn.execute(_STATUS, [xids]).fetchall())
        if "in progress" not in found.values() or time.monotonic() > give_up:
            return found
        time.sleep(0.05)
