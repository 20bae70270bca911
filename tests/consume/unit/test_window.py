"""Which unit of a window may be called next, against a model (pure)."""

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


def _full(*keys: str) -> Window:
    """A window over units of two events each, from offset 11 on, with these keys."""
    window = Window()
    spans = [Span(11 + 2 * n, [n, n]) for n in range(len(keys))]
    window.extend(spans, {span.first_offset: {key.encode() for key in unit}
                          for span, unit in zip(spans, keys, strict=True)})  # fmt: skip
    return window


def _taken(window: Window) -> list[int]:
    """Take all that may be."""
    taken: list[int] = []
    while (span := window.take()) is not None:
        taken.append(span.first_offset)
    return taken


def test_an_empty_one() -> None:
    window = Window()
    assert (window.events, window.begin, window.end, window.open) == (0, 0, 0, 0)
    assert window.first_ready is None
    assert window.take() is None
    assert window.unfinished() == []
    assert window.prefix() == (0, 0)


def test_what_it_spans_and_what_is_open() -> None:
    window = _full("a", "b", "a")
    assert (window.events, window.begin, window.end, window.open) == (6, 11, 17, 3)
    assert window.first_ready == 11
    assert window.span(13) == Span(13, [1, 1])
    assert _taken(window) == [11, 13]
    assert (window.first_ready, window.open) == (None, 1)
    window.finish([13])
    assert [span.first_offset for span in window.unfinished()] == [11, 15]
    assert window.prefix() == (0, 11)
    assert window.prefix([11]) == (2, 15)
    assert window.prefix([11, 15]) == (3, 17)
    window.finish([11])
    assert window.first_ready == 15
    assert window.prefix() == (2, 15)
    window.pass_(2)
    assert (window.events, window.begin, window.open) == (2, 15, 1)
    assert [span.first_offset for span in window.unfinished()] == [15]


def test_one_of_several_keys_waits_for_all_of_them() -> None:
    window = _full("a", "b", "ab", "b")
    assert _taken(window) == [11, 13]
    window.finish([11])
    assert _taken(window) == [], "the other key is in hand yet"
    window.untake(13)
    assert window.open == 3
    assert _taken(window) == [13]
    window.finish([13])
    assert _taken(window) == [15]
    window.finish([15])
    assert _taken(window) == [17]
    window.finish([17])
    window.pass_(window.prefix()[0])
    assert window.events == 0


def test_what_was_finished_before_keeps_nothing_waiting() -> None:
    window = Window()
    window.extend([Span(1, [1]), Span(2, [2])], {1: {b"a"}, 2: {b"a"}}, {1})
    assert window.open == 1
    assert _taken(window) == [2]
    assert window.prefix() == (1, 2)
    window.pass_(1)
    window.extend([Span(3, [3])], {3: {b"a"}}, {1})
    window.finish([2])
    assert _taken(window) == [3]
    # Of what is passed nothing is remembered.
    window.finish([3])
    window.pass_(2)
    window.extend([Span(3, [3])], {3: {b"a"}})
    assert _taken(window) == [3]
    assert window.prefix() == (0, 3)


def _passed(done: set[int], read: int) -> int:
    """The offset after the finished ones at the begin."""
    return next((n for n in range(read) if n * 2 + 1 not in done), read) * 2 + 1
