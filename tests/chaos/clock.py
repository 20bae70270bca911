"""The fault of the clock: what events for later and schedules take for the time is put back, and forward."""

from collections.abc import Iterator
from contextlib import suppress

import psycopg

from chaos.arena import Arena, fault

BACK_S = (1.0, 8.0)
# After that a schedule with "skip" owes something that is older than a minute.
BEYOND_S = (65.0, 85.0)
_BACK = """
insert into chaos.clock_step (ahead)
values (gapless.clock() - clock_timestamp() - make_interval(secs => %s))
returning id, extract(epoch from ahead)::float8
"""
_FORWARD = """
insert into chaos.clock_step (ahead)
select s.next_due + make_interval(secs => %s) - clock_timestamp() from gapless.schedule s
where s.missed = 'skip' and s.next_due is not null
returning id, extract(epoch from ahead)::float8
"""
_CONFIRM = "update chaos.clock_step set confirmed = clock_timestamp() where id = %s"


@fault
def step_clock(arena: Arena) -> Iterator[float]:
    """The clock is put back by some seconds; then forward by one or two minutes, and it stays there."""
    _step(arena, _BACK, arena.random.uniform(*BACK_S))
    yield arena.lasting()
    _step(arena, _FORWARD, arena.random.uniform(*BEYOND_S))


def _step(arena: Arena, statement: str, seconds: float) -> None:
    with suppress(psycopg.Error):
        conn = arena.scene.admin()
        row = conn.execute(statement.encode(), [seconds]).fetchone()
        if row is not None:
            arena.note("step_clock", f"{row[1]:.1f} s ahead")
            conn.execute(_CONFIRM, [row[0]])
