"""Lines become events with the producer's own text; text is made harmless; without a server."""

import contextlib
import json
import os
from itertools import chain, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import UsageError
from gapless.features.load import lines as lines_module
from gapless.features.load.batches import Batches
from gapless.features.load.lines import JsonLine, JsonLines
from gapless.features.load.parse import LineShape, members_of, parse_line
from gapless.log.event import NewEvent
from gapless.ops.text import cut_to, plain, safe_json
from gapless.status.words import clean
from support.examples import examples

text = st.text(st.characters(exclude_categories=["Cs"]))
value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=10,
)
blanks = st.text(" \t", max_size=3)


@given(value, st.none() | text, blanks, st.booleans())
def test_the_payload_is_taken_as_it_is_written(payload, key, blank: str, ascii_only: bool) -> None:
    written = json.dumps(payload, ensure_ascii=ascii_only)
    line = (
        f'{blank}{{{blank}"key"{blank}:{blank}{json.dumps(key)}{blank},'
        f'{blank}"payload"{blank}:{blank}{written}{blank}}}{blank}\r'
    )
    event = parse_line(line, LineShape())
    assert (event.payload, event.key) == (written.encode(), key)


@pytest.mark.long
@given(st.text())
def test_any_text_is_an_event_or_refused(line: str) -> None:
    for shape in (LineShape(), LineShape(payload_only=True), LineShape(key_field="k")):
        with contextlib.suppress(ValueError):
            assert parse_line(line, shape).payload


PIECES = (
    "", "{", "}", "[", "]", ",", ":", '"a"', '"b"', "1", "null", " ", "\n",
    '{"a":1}', "NaN", "\ufeff",
)  # fmt: skip


def read_by_json(written: str) -> object:
    """Return the value; None for what is no JSON, and "twice" for an object with a doubled name."""

    def pairs(found: list[tuple[str, object]]) -> object:
        return dict(found) if len(dict(found)) == len(found) else "twice"

    with contextlib.suppress(ValueError):
        found = json.loads(written, object_pairs_hook=pairs)
        return None if "NaN" in written else found
    return None


@pytest.mark.long
def test_an_object_is_one_where_json_has_one() -> None:
    """All texts of three pieces, in brackets, in braces, in neither; one needs more pieces."""
    inner = ["".join(pieces) for pieces in product(PIECES, repeat=3)]
    for written in ('{"a": 1, "a": 2}', *chain(*((t, f"[{t}]", f"{{{t}}}") for t in inner))):
        found = read_by_json(written)
        try:
            parts = members_of(written, "")
        except ValueError:
            assert not isinstance(found, dict), written
        else:
            assert {name: read_by_json(own) for name, (_, own) in parts.items()} == found, written


@given(st.text())
def test_plain_text_is_harmless(anything: str) -> None:
    assert plain(anything).isprintable() or not anything.isascii()
    assert not set(plain(anything)) & {chr(code) for code in (*range(32), 127, *range(128, 160))}
    plain(anything).encode()


def test_characters_without_a_width_are_seen() -> None:
    """One name that looks like another is not; joiners that scripts need stay."""
    for hidden in "\xad\u061c\u200b\u2060\u2065\ufeff\u202e":
        shown = f"or{hidden}ders"
        assert plain(shown) in (f"or\\u{ord(hidden):04x}ders", "or\\xadders")
        assert json.loads(safe_json(f'"{shown}"')) == shown
        assert hidden not in safe_json(f'"{shown}"')
        assert clean(shown) == "or?ders"
    assert plain("\u0646\u200c\u0647") == clean("\u0646\u200c\u0647") == "\u0646\u200c\u0647"


@given(value)
def test_safe_json_is_the_same_value(anything) -> None:
    for ascii_only in (True, False):
        written = json.dumps(anything, ensure_ascii=ascii_only, indent=1)
        assert json.loads(safe_json(written)) == anything


@given(st.text("a漢é\u0301"), st.integers(10, 30))
def test_fit(line: str, columns: int) -> None:
    cut = cut_to(line, columns)
    if cut != line:
        assert line.startswith(cut.removesuffix("..."))
    assert sum(2 if c == "漢" else c != "\u0301" for c in cut) <= columns


def _lines(data: bytes, chunk: int, monkeypatch: pytest.MonkeyPatch) -> list[JsonLine]:
    monkeypatch.setattr(lines_module, "_READ_BYTES", chunk)
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    try:
        return list(JsonLines(reader, "x", LineShape(payload_only=True)))
    finally:
        os.close(reader)


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_lines_however_they_come(chunk: int, monkeypatch) -> None:
    found = _lines(b"1\n\n22\n333", chunk, monkeypatch)
    assert [(line.number, line.event.payload) for line in found] == [
        (1, b"1"),
        (3, b"22"),
        (4, b"333"),
    ]
    assert [line.end_byte for line in found] == [2, 6, 10]


def test_a_line_without_end(monkeypatch) -> None:
    monkeypatch.setattr(lines_module, "LINE_BYTES_MAX", 1000)
    with pytest.raises(UsageError, match="x line 2: longer than 1000 bytes"):
        _lines(b"1\n" + b"2" * 5000, 100, monkeypatch)


class _Ready:
    """Lines that are there already: is_ready says no where a pipe would pause."""

    def __init__(self, units: list[str | None], pauses: set[int]) -> None:
        self._units = units
        self._pauses = pauses
        self._at = 0

    def __iter__(self):
        for number, unit in enumerate(self._units, start=1):
            self._at = number
            event = NewEvent(payload=number, transaction_id=unit)
            yield JsonLine(number=number, end_byte=number, event=event)

    def is_ready(self, timeout_s: float) -> bool:
        return self._at not in self._pauses


@settings(max_examples=examples(300))
@given(
    st.lists(st.sampled_from([None, "a", "b"]), max_size=40),
    st.sets(st.integers(1, 40)),
    st.integers(1, 10),
)
def test_batches(units: list[str | None], pauses: set[int], batch_lines: int) -> None:
    source = _Ready(units, pauses)
    batches = [list(batch) for batch in Batches(source, batch_lines)]  # type: ignore[arg-type]
    assert [line.number for batch in batches for line in batch] == [*range(1, len(units) + 1)]
    for batch, following in pairwise(batches):
        cut = batch[-1].unit is not None and batch[-1].unit == following[0].unit
        assert not cut, "a unit is never cut"
        assert len(batch) >= batch_lines or batch[-1].number in pauses
    for batch in batches:
        beyond = batch[batch_lines:]
        assert all(line.unit is not None and line.unit == batch[-1].unit for line in beyond)
