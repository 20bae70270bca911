"""The faults of those who should not be able to do any harm (I11): a role that may connect, a producer."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from chaos.arena import SHORT_S, Arena, fault
from chaos.scene import STRANGER

_LOCKS = """
select 7427001 as kind, n as number from generate_series(1, 7) n
union all select 7427002, member_no from gapless.member
union all select 7427003, lease_no from gapless.lease
union all select 7427004, 0
union all select 7427006, group_no from gapless.consumer_group
"""
_CHANNELS = "select 'gapless_g_' || group_no from gapless.consumer_group"
_GARBAGE = ("", "ready", "ready x", "ready 1", "plan", "free", "\x1b[2J")
_SPAM = """
insert into gapless.outbox_message_t (topic_id, key, payload)
select 10000 + (random() * 100000)::int, 'k' || n, '1' from generate_series(1, %s) n
"""
_BURN = "select nextval('gapless.outbox_message_id_seq') from generate_series(1, 500)"
PREPARED = "chaos stranger"
MEND_S = 30.0


@fault
def squat(arena: Arena) -> Iterator[float]:
    """A role with nothing but CONNECT takes, or waits for, locks of ours, and notifies everybody."""
    with suppress(psycopg.Error), ExitStack() as open_:
        admin = arena.scene.admin()
        locks = admin.execute(_LOCKS).fetchall()
        channels = [row[0] for row in admin.execute(_CHANNELS)]
        chosen = arena.random.sample(locks, k=min(len(locks), 5))
        arena.note("squat", " ".join(f"{kind},{number}" for kind, number in chosen))
        # The server may be full in the middle: then those that came in are closed.
        strangers = [open_.enter_context(closing(_stranger(arena))) for _ in chosen]
        for conn, (kind, number) in zip(strangers, chosen, strict=True):
            shared = arena.random.choice(("", "", "_shared"))
            conn.pgconn.send_query(f"select pg_advisory_lock{shared}({kind}, {number})".encode())
        with _stranger(arena) as other:
            for channel in channels:
                for payload in _GARBAGE:
                    other.execute("select pg_notify(%s, %s)", [channel, payload])
        yield arena.lasting()
        open_.close()
        arena.note_end("squat", len(chosen))


@fault
def spam(arena: Arena) -> Iterator[float]:
    """A producer names topics that nobody made, burns ids, and leaves a transaction prepared."""
    events = arena.random.choice((1, 100, 2000))
    arena.note("spam", events)
    with suppress(psycopg.Error), psycopg.connect(arena.scene.operator_dsn) as conn:
        conn.execute(_SPAM, [events])
        conn.execute(_BURN)
        conn.commit()
        conn.execute("set local gapless.wake = off")
        conn.execute(_SPAM, [2])
        conn.execute(f"prepare transaction '{PREPARED}'".encode())
        conn.commit()
    yield arena.random.uniform(*SHORT_S)
    _end_prepared(arena)
    arena.note_end("spam", events)


def _end_prepared(arena: Arena) -> None:
    """MUST succeed: a transaction that stays prepared is one that somebody forgot."""
    give_up_s = time.monotonic() + MEND_S
    how = arena.random.choice(("commit", "rollback"))
    while time.monotonic() < give_up_s:
        with suppress(psycopg.Error):
            admin = arena.scene.admin()
            if not admin.execute(
                "select 1 from pg_prepared_xacts where gid = %s", [PREPARED]
            ).fetchone():
                return
            admin.execute(f"{how} prepared '{PREPARED}'".encode())


def _stranger(arena: Arena) -> Connection:
    dsn = make_conninfo(arena.scene.admin_dsn, user=STRANGER)
    return psycopg.connect(dsn, autocommit=True, connect_timeout=2)
