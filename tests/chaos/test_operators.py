"""People who act on one unit at once meet there, however long each of them takes to start."""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg import Connection

from chaos.arena import Arena, Deed
from chaos.history import Asked, Writer, read, select
from chaos.operators import discard_twice, redrive_twice
from chaos.policies import people
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic

_DEAD = """
with joined as materialized (select j.token from gapless.join('g', 'outbox', '1 h') j),
polled as materialized (
  select j.token, p.partition_id, p.first_offset from joined j, gapless.poll(j.token) p
)
select gapless.reject_unit(token, partition_id, first_offset, 'bad') from polled
"""
UNITS = 3


@pytest.fixture
def arena(conn: Connection, dsn: str, topic: Topic, tmp_path: Path) -> Arena:
    """Units of group g that are dead, and nobody who handles them."""
    conn.execute("select gapless.create_group('g', 'outbox')")
    for number in range(UNITS):
        publish(conn, "outbox", {"n": number}, key=str(number))
    sequence(conn)
    conn.execute(_DEAD)
    scene = SimpleNamespace(admin=lambda: conn, operator_dsn=dsn)
    return Arena(cast("Any", scene), Random(1), Writer(tmp_path, "nemesis"), supervisors=0, seed=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "met"),
    [
        (redrive_twice, "units redriven by two people at once"),
        (discard_twice, "units discarded by two people at once, by one of them"),
    ],
)
def test_two_meet(arena: Arena, tmp_path: Path, kind: Deed, met: str) -> None:
    """At the first try, where no fault comes between them."""
    for _ in kind(arena):
        pass
    records = read(tmp_path)
    assert people(records)[met] == UNITS
    assert len(select(records, Asked)) == 2
