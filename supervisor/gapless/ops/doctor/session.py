"""Checks that a session suits gapless: not shared, on the primary, with NOTIFY."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic

from gapless.db.connect import is_pooled, shares_sessions
from gapless.db.listen import heard, listen, wait
from gapless.db.queries import query
from gapless.db.schema import channel_in, schema
from gapless.ops.doctor.finding import Finding, Patient, fail, ok, warning
from gapless.ops.text import duration

_NOTIFY_S_MAX = 2.0
_NOTIFY_SLOW_S = 0.1
_CLOCK_OFF_S = 5.0
_QUEUE_MAX = 0.05


def primary(patient: Patient) -> Iterator[Finding]:
    """Check that the database can be written to; connect() refuses a standby."""
    row = patient.conn.execute(query("connect", "who")).fetchone()
    if row is not None and row[0]:
        yield fail("primary", "this is a read-only standby", "connect to the primary")
        return
    found = patient.conn.execute(query("doctor", "overridden")).fetchall()
    for name, value in found:
        does = "writes" if name.endswith("read_only") else "reads committed"
        yield warning(
            "primary",
            f"{name} is {value} for this role or database, and gapless {does} all the same",
            "stop supervisors where nothing is to be written (docs/run/operations.md)",
        )
    if not found:
        yield ok("primary", "the server takes writes")


def pooler(patient: Patient) -> Iterator[Finding]:
    """Check that two clients never share a server session: locks and LISTEN would not work."""
    if shares_sessions(patient.conn, patient.second):
        yield warning(
            "pooler",
            "a pooler in transaction mode stands between: sessions are shared, which is enough for "
            "all but gapless run, replay and pipelines",
            "for these name the server itself, or a pool in session mode",
        )
    elif is_pooled(patient.conn):
        yield ok("pooler", "a pooler in session mode stands between; sessions are our own")
    else:
        yield ok("pooler", "none: a session of our own")


def wake_up(patient: Patient) -> Iterator[Finding]:
    """Check that NOTIFY from one session arrives in another, and measure how fast."""
    if shares_sessions(patient.conn, patient.second):
        yield ok("wake-up", "not tried: NOTIFY does not pass a pooler in transaction mode")
        return
    channel = f"gapless_doctor_{patient.conn.info.backend_pid}"
    listen(patient.conn, channel)
    heard(patient.conn)
    began_s = monotonic()
    patient.second.execute(query("doctor", "notify"), {"channel": channel_in(channel, schema())})
    wait(patient.conn, _NOTIFY_S_MAX)
    took_s = monotonic() - began_s
    patient.conn.execute("unlisten *")
    if took_s >= _NOTIFY_S_MAX:
        yield fail(
            "wake-up",
            f"a NOTIFY did not arrive within {_NOTIFY_S_MAX:.0f} s",
            "look for a pooler or proxy that drops notifications; until then only polling works",
        )
    elif took_s > _NOTIFY_SLOW_S:
        yield warning("wake-up", f"NOTIFY took {duration(took_s)}: every hand-over takes as long")
    else:
        yield ok("wake-up", f"NOTIFY arrives after {duration(took_s)}")


def notify_queue(patient: Patient) -> Iterator[Finding]:
    """Check that no session that listens fills the server's queue by an open transaction."""
    ((usage,),) = patient.conn.execute(query("doctor", "notify_queue")).fetchall()
    text = f"the server's queue of notifications is {usage:.0%} full"
    if usage > _QUEUE_MAX:
        yield fail(
            "notify-queue",
            f"{text}: when it is full no NOTIFY commits, that of a publisher neither",
            "end the oldest session that is idle in a transaction (see horizon)",
        )
    else:
        yield ok("notify-queue", text)


def clock(patient: Patient) -> Iterator[Finding]:
    """Compare this machine's clock with the database's; nothing depends on it."""
    began_s = monotonic()
    before = datetime.now(UTC)  # noqa: TID251 - the one place that compares the two clocks
    row = patient.conn.execute(query("doctor", "clock")).fetchone()
    half_s = (monotonic() - began_s) / 2
    assert row is not None
    ahead_s = (row[0] - before).total_seconds() - half_s
    direction = "ahead of" if ahead_s >= 0 else "behind"
    text = f"the database's clock is {duration(abs(ahead_s))} {direction} this machine's"
    if abs(ahead_s) > _CLOCK_OFF_S:
        yield warning("clock", f"{text}; leases use only the database's", "set the clocks by NTP")
    else:
        yield ok("clock", text)
