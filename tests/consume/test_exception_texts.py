"""Whatever a handler raises is stored with the dead letter, and all goes on (I8, I9)."""

from typing import Any

import pytest
from psycopg import Connection

from gapless.consume.unit import Unit
from support.hostile import HOSTILE
from support.world import World, make_handler


@pytest.mark.few(5)
@pytest.mark.parametrize("name", HOSTILE)
def test_is_stored(shared_world: World, name: str) -> None:
    world = shared_world.another_topic()
    make, word = HOSTILE[name]
    world.units(1, 2, 1)
    group = world.group()

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        if unit.first_offset == 2:
            raise make()
        group.record(unit, conn)

    with group.conn:
        group.drain(make_handler(handle))
    group.assert_all_once(4)
    assert list(group.letters()) == [2, 3]
    assert word in group.letters()[2]
