"""Units: the same, held or read in slices; a copied event has its payload."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pickle import dumps, loads
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.consume.batch import Batch
from gapless.consume.unit import FIRST_TIMELINE, Source, Unit
from gapless.keys import Partition
from gapless.log.event import Event, Row, transaction_uuid

PARTITION = Partition(group_id="g", topic="t", topic_id=1, partition_id=3)


def row(id_: int) -> Row:
    return (id_, "k", None, b"{}", None, None, None, None, 7, 0, None, None)


class TestUnit:
    def fetched(self, ids: list[int], slice_: int) -> tuple[Unit, list[int]]:
        asked: list[int] = []

        def fetch(wanted: object) -> list[Row]:
            found = list(wanted)  # type: ignore[call-overload]
            asked.append(len(found))
            return [row(id_) for id_ in found]

        return Unit(Source(PARTITION, fetch, slice_), 11, None, ids), asked

    def never(self, ids: object) -> list[Row]:
        raise AssertionError("it has its rows")

    @given(st.integers(1, 50), st.integers(1, 60), st.integers(1, 3))
    def test_read_in_slices_or_held_it_is_the_same(
        self, unit_events: int, slice_: int, timeline: int
    ) -> None:
        ids = list(range(5, 5 + unit_events))
        streamed, asked = self.fetched(ids, slice_)
        held = Unit(Source(PARTITION, self.never, slice_), 11, [row(id_) for id_ in ids])
        for unit in (streamed, held):
            unit.source = replace(unit.source, timelines=((0, 9), (11, timeline)))
            told = {(e.topic, e.partition, e.transaction_id) for e in unit}
            assert told == {("t", 3, transaction_uuid(7, timeline))}
            unit.source = replace(unit.source, timelines=FIRST_TIMELINE)
            for _ in range(2):
                assert [(e.offset, e.id) for e in unit] == [*enumerate(ids, 11)]
            assert (len(unit), unit.first_offset, unit.last_offset) == (
                unit_events,
                11,
                10 + unit_events,
            )
            assert unit.transaction_id == transaction_uuid(7)
            assert (unit.span.first_offset, [*unit.span.ids]) == (11, ids)
        assert max(asked) <= slice_

    def test_who_publishes_for_a_batch_again_and_again_looks_at_its_units_once(self) -> None:
        unit, asked = self.fetched([1, 2], 2)
        batch = Batch([unit, Unit(unit.source, 13, [row(3)])])
        told = batch.correlation
        assert told == transaction_uuid(7)
        assert batch.correlation is told
        assert asked == [1]

    def test_an_explicit_transaction_id_wins(self) -> None:
        id_ = UUID(int=1)
        own = (*row(1)[:7], id_, *row(1)[8:])
        assert Unit(Source(PARTITION, self.never, 10), 1, [own]).transaction_id == id_


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda event: loads(dumps(event))])
@pytest.mark.parametrize("before", [False, True])
def test_a_copied_event_reads_its_payload(copied: Callable[[Event], Event], before: bool) -> None:
    """A handler may hand it to another process, before or after it looked at it."""
    event = Event(
        "t", 0, 1, (1, "k", None, '{"ä": [1, null]}'.encode(), b'{"h": "x"}', *(None,) * 3, 7, 0)
    )
    if before:
        assert event.payload
    other = copied(event)
    assert (other.payload, other.headers) == ({"ä": [1, None]}, {"h": "x"})
    assert other.payload is other.payload
