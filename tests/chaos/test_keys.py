"""The checker sees a key whose events of a new layout overtook those of the one before."""

from types import SimpleNamespace
from typing import Any

from chaos.checker import keys


def facts(*handled: tuple[int, int], aside: dict[int, str] | None = None) -> Any:
    """Key k: partition 0 offsets 1 and 2 in layout 0, then partition 3 offset 1 in layout 1.

    aside: offsets of partition 0 that were set aside for a while, with the state.
    """
    places = [(0, 1, 0), (0, 2, 0), (3, 1, 1)]
    log = {
        ("t", partition): [
            SimpleNamespace(
                topic="t", partition_id=p, c_offset=o, layout=layout, key="k", tag=f"{p}@{o}"
            )
            for p, o, layout in places
            if p == partition
        ]
        for partition in (0, 3)
    }
    effects = [
        SimpleNamespace(group_id="g", topic="t", partition_id=p, c_offset=o, id=n)
        for n, (p, o) in enumerate(handled)
    ]
    letters = [SimpleNamespace(c_offset=o, status=state) for o, state in (aside or {}).items()]
    parks = "parked" in (aside or {}).values()
    return SimpleNamespace(
        log=log, effects=effects, lettered={("g", "t", 0): letters}, parks=lambda _: parks
    )


def test_the_order_of_a_key_is_kept_across_layouts() -> None:
    assert list(keys.find(facts((0, 1), (0, 2), (3, 1)))) == []
    assert list(keys.find(facts((0, 1), (3, 1)))) == [], "one is dead, or still to come"


def test_what_overtook_is_found() -> None:
    (found,) = keys.find(facts((0, 1), (3, 1), (0, 2)))
    assert (found.name, found.partition, found.offset) == ("key overtaken", 3, 1)


def test_what_was_set_aside_has_lost_its_place_unless_others_are_parked_behind_it() -> None:
    late = ((0, 2), (3, 1), (0, 1))
    assert list(keys.find(facts(*late, aside={1: "waiting"}))) == []
    assert len(list(keys.find(facts(*late, aside={1: "waiting", 2: "parked"})))) == 1
