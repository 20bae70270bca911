"""Which unit of a window may be called next, against a model (pure)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.consume.unit import Span
from gapless.consume.window import Window


@given(
    st.lists(st.sets(st.sampled_from("abcd"), min_size=1, max_size=3), min_size=1, max_size=12),
    st.data(),
)
def test_in_order_for_each_key_and_none_forgotten(
    units: list[set[str]], data: st.DataObject
) -> None:
    spans = [Span(n * 2 + 1, [n, n]) for n in range(len(units))]
    keys = {n * 2 + 1: {key.encode() for key in unit} for n, unit in enumerate(units)}
    before = data.draw(st.sets(st.sampled_from(list(keys)), max_size=3))
    window = Window(spans, keys, before)
    in_hand: list[int] = []
    done = set(before)
    while len(done) < len(units):
        while (span := window.take()) is not None:
            earlier = [f for f in keys if f < span.first_offset and f not in done]
            assert all(keys[f].isdisjoint(keys[span.first_offset]) for f in earlier)
            assert span.first_offset not in done
            in_hand.append(span.first_offset)
        assert in_hand, "stuck"
        ended = data.draw(st.sampled_from(in_hand))
        in_hand.remove(ended)
        done.add(ended)
        count = next((n for n in range(len(units)) if n * 2 + 1 not in done), len(units))
        assert window.prefix([ended]) == (count, count * 2 + 1)
        window.finish([ended])
    assert window.prefix() == (len(units), len(units) * 2 + 1)
    assert window.take() is None
