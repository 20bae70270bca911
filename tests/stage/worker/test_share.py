"""Several supervisors share the partitions: balanced, with few moves, without a pause to speak of."""

from __future__ import annotations

import pytest

from stage.worker.fleet import Fleet, Load
from stage.worker.ledger import assert_exactly_once, entries, handovers


def test_one_takes_all_and_a_second_gets_its_half(fleet: Fleet) -> None:
    fleet.start("a")
    fleet.until_owners(a=4)
    with Load(fleet) as load:
        fleet.start("b")
        fleet.until_owners(a=2, b=2)
        mark = load.published
        from stage.worker.fleet import until
        until(lambda: load.published > mark + 200, "more load")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    moved = list(handovers(entries(fleet.conn)))
    print(moved)
    assert 0
