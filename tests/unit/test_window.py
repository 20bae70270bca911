"""Which unit of a window may be called next, against a model (pure)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.consume.outside.window import Window
from gapless.consume.unit import Span


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
    window = Window()
    read = 0
    in_hand: list[int] = []
    done = set(before)
    while len(done) < len(units):
        if read < len(units) and (not in_hand or data.draw(st.booleans())):
            more = data.draw(st.integers(1, len(units) - read))
            window.extend(spans[read : read + more], keys, before)
            read += more
        while (span := window.take()) is not None:
            earlier = [f for f in keys if f < span.first_offset and f not in done]
            assert all(keys[f].isdisjoint(keys[span.first_offset]) for f in earlier)
            assert span.first_offset not in done
            in_hand.append(span.first_offset)
            if data.draw(st.booleans()):
                window.untake(in_hand.pop())
                break
        if not in_hand:
            assert window.open or read < len(units), "stuck"
            continue
        ended = data.draw(st.sampled_from(in_hand))
        in_hand.remove(ended)
        done.add(ended)
        passed = _passed(done, read)
        assert window.prefix([ended])[1] == passed
        window.finish([ended])
        window.pass_(window.prefix()[0])
        assert window.end == (read * 2 + 1 if passed < read * 2 + 1 else 0)
        assert window.open == read - len(done & set(list(keys)[:read])) - len(in_hand)
    assert window.take() is None


def _passed(done: set[int], read: int) -> int:
    """The offset after the finished ones at the begin."""
    return next((n for n in range(read) if n * 2 + 1 not in done), read) * 2 + 1
