"""Strategies of Hypothesis for events to publish. hypothesis has to be installed separately.

@given(strategies.new_events())
def test_any_order(event): billing(testing.make_unit([event]), conn)
"""

from __future__ import annotations

from hypothesis import strategies as st

from gapless.log.event import NewEvent

# Without characters that UTF-8 cannot encode, and without NUL, which PostgreSQL cannot store.
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)


def texts() -> st.SearchStrategy[str]:
    """Return a strategy of text that can be stored, of at most 30 characters."""
    return _TEXT


def payloads() -> st.SearchStrategy[object]:
    """Return a strategy of JSON values: a `payload` that is equal when it is read again."""
    plain = st.none() | st.booleans() | st.integers() | _TEXT
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        plain | numbers,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
        max_leaves=10,
    )


def new_events(
    payload: st.SearchStrategy[object] | None = None,
) -> st.SearchStrategy[NewEvent]:
    """Return a strategy of events to publish, or for make_unit(); payload: of their payloads."""
    return st.builds(
        NewEvent,
        payload=payloads() if payload is None else payload,
        key=st.none() | _TEXT,
        event_type=st.none() | _TEXT,
        headers=st.none() | st.dictionaries(_TEXT, _TEXT, max_size=3),
    )
