"""Plain events of an array are read at once, and to the same events as one by one."""

import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from gapless.features.gateway.events_in import PLAIN_BYTES_MAX, events_in
from gapless.features.gateway.gateway import Limits
from gapless.features.gateway.plain import HEADERS_BYTES_MAX, plain_events
from gapless.features.gateway.problem import Problem
from gapless.features.load.parse import LineShape, parse_line
from gapless.log.event import NewEvent

ENOUGH = 1 << 20
NAMES = ("payload", "key", "event_type", "headers", "host_id", "user_id")

_texts = st.text(st.sampled_from('aé"\\/ \n\t\0😀\ud800key'), max_size=4)
_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts | st.sampled_from(NAMES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_texts | st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=5,
)
_fields = st.fixed_dictionaries(
    {"payload": _values},
    optional={
        **dict.fromkeys(("key", "event_type", "host_id", "user_id"), _texts | st.just("k")),
        "headers": st.dictionaries(_texts | st.sampled_from(NAMES), _values, max_size=2),
    },
)
_wrong = st.dictionaries(st.sampled_from((*NAMES, "deliver_in", "x")), _values, max_size=1)
WRONG = ["", '"', "\\u0061", "\\", "0", "-", ".", "e", "]", "}", "\x01", "NaN"]
_blanks = st.sampled_from(["", "", " ", "\n\t", "\r", "\v"])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """An array of events, as programs write them, and then a few characters that are wrong."""
    made = []
    is_usual = draw(st.booleans())
    for fields in draw(st.lists(_fields, max_size=3)):
        ascii_only = draw(st.booleans())
        members = [
            f"{draw(_blanks)}{json.dumps(name)}:{json.dumps(value, ensure_ascii=ascii_only)}"
            for name, value in (fields if is_usual else fields | draw(_wrong)).items()
        ]
        if not is_usual and draw(st.booleans()):
            members.append(draw(st.sampled_from(members)))
        made.append("{" + ",".join(members) + draw(_blanks) + "}")
    text = "[" + ",".join(made) + "]" + draw(_blanks)
    for _ in range(0 if is_usual else draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        new = draw(st.sampled_from(WRONG))
        text = text[:at] + new + text[at + draw(st.integers(0, 2)) :]
    return text.encode("utf-8", "replace")


def split(text: str) -> list[str]:
    """The texts of an array's elements, by Python's own decoder, which reads all of it."""
    json.loads(text, parse_constant=float_is_none)
    inner, found = text.strip(" \t\r\n")[1:-1], []
    while inner.strip(" \t\r\n"):
        inner = inner.lstrip(" \t\r\n,")
        _, end = json.JSONDecoder().raw_decode(inner)
        found.append(inner[:end])
        inner = inner[end:]
    return found


def float_is_none(name: str) -> None:
    raise ValueError(name)


def as_written(body: bytes) -> list[NewEvent] | None:
    """The events by the decoder of `gapless publish`; None where one is wrong."""
    try:
        return [parse_line(text, LineShape()) for text in split(body.decode())]
    except ValueError:
        return None


def one_by_one(body: bytes, kind: str = "application/json") -> list[NewEvent] | None:
    limits = Limits(event_bytes_max=ENOUGH, batch_bytes_max=ENOUGH, batch_events_max=ENOUGH)
    blanks = b" " * PLAIN_BYTES_MAX  # too large to be read at once
    try:
        return list(events_in(kind, Headers(), body + blanks, limits))
    except Problem:
        return None


@settings(max_examples=400)
@given(bodies())
@example(b'[{"payload":1,"payload":2}]')
@example(b'[{"payload":{"key":1},"key":"a","\\u006bey":"b"}]')
@example(b'[{"payload":1,"headers":[]}]')
@example(b'[{"payload":1,"key":7}]')
@example(b'[{"payload":01}]')
@example(b'[{"payload":"\x01"}]')
@example(b'[{"payload":"\\x"}]')
@example(b'[{"payload":"\\ud800"}]')
@example(b'[{"payload":"\\\\ud800\\ud800x"},{"payload":1}]')
@example(b'[{"payload":1},]')
@example(b'[{"payload":1 , "payload":1}]')
@example(b"\xef\xbb\xbf[]")
@example(b'[{"payload":1}')
def test_they_are_the_same(body: bytes) -> None:
    read = as_written(body) or None  # no event is none, too
    assert one_by_one(body) == read
    if read:
        lines = "\n".join(text.replace("\n", " ") for text in split(body.decode()))
        assert one_by_one(lines.encode(), "application/x-ndjson") == read
    assert plain_events(body, ENOUGH) in ([], read)
    bare = body.strip(b" \t\r\n")[1:-1]  # of one event it is one; of two it is none
    assert plain_events(bare, ENOUGH) in ([], one_by_one(bare))


@pytest.mark.parametrize(
    "body",
    [
        b'[{"payload":{"key":"x","n":1.50},"key":"a"}]',
        b' [ {"event_type" : "t", "payload": "\\"key\\" \xc3\xa9", "host_id": ""} ] ',
        b'[{"payload":null,"headers":{"a":[1,2.50]},"user_id":"u"},{"payload":[]}]',
        b'{"payload":{"key":"x","n":1.50},"headers":{"a":1}} ',
    ],
)
def test_usual_ones_are_read_at_once(body: bytes) -> None:
    found = plain_events(body, ENOUGH)
    assert found
    assert found == one_by_one(body)


def test_one_that_is_too_large_is_left_to_who_says_so() -> None:
    body = b'[{"payload":1},{"payload":"%s"}]' % (b"x" * 100)
    assert plain_events(body, 50) == []
    body = b'[{"payload":1,"headers":{"a":"%s"}}]' % (b"x" * HEADERS_BYTES_MAX)
    assert plain_events(body, ENOUGH) == []


MIB = 1 << 20
NESTED = '{"payload":[' + "[]," * (MIB // 12) + "1]}"
HALVES = '{"payload":[' + '"\\ud800",' * 20_000 + '"\\\\ud800"],"key":"\\u00e9"}'
CLOUD = '{"id":"a","source":"b","type":"c","specversion":"1.0","data":[%s1]}' % ("1," * 100_000)
HOSTILE = {
    "elements": ("application/json", "[" + "1," * MIB, 400, "event 1: not an object"),
    "lines": ("application/x-ndjson", "1\n" * MIB, 400, "line 1: not an object"),
    "batch": ("application/cloudevents-batch+json", "[" + "1," * MIB, 400, "event 1: not an"),
    "events": ("application/json", "[" + '{"payload":1},' * (MIB // 7), 413, "maxBatchEvents"),
    "event lines": ("application/x-ndjson", '{"payload":1}\n' * (MIB // 7), 413, "maxBatchEvents"),
    "one": ("application/json", '[{"payload":[' + "[]," * MIB, 413, "event 1 has more than"),
    "one line": ("application/x-ndjson", '{"payload":[' + "[]," * MIB, 413, "line 1 has more"),
    "blanks": ("application/json", "[" + " " * (2 * MIB), 400, "not JSON"),
    "empty lines": ("application/x-ndjson", "\n" * (2 * MIB), 400, "not JSON"),
    "members": ("application/json", '[{%s"":1}]' % ('"":1,' * MIB), 400, "twice"),
    "halves": ("application/json", '["' + "\\ud800 " * (MIB // 3), 413, "event 1 has more"),
    "headers": ("application/json", '[{"headers":{"a":[%s1]}}]' % ("1," * 99_999), 400, "headers"),
    "small halves": ("application/json", f"[{','.join([HALVES] * 8)}]", 200, ""),
    "nested": ("application/json", f"[{','.join([NESTED] * 8)}]", 200, ""),
    "nested lines": ("application/x-ndjson", "\n".join([NESTED] * 8), 200, ""),
    "data": ("application/cloudevents-batch+json", f"[{','.join([CLOUD] * 10)}]", 200, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_read_takes_no_more_memory_than_the_body(name: str) -> None:
    """And the first that is wrong, or too much, is the last that is read: nothing takes long."""
    kind, text, status, words = HOSTILE[name]
    body = bytearray(text.encode())
    limits = Limits(event_bytes_max=MIB // 2, batch_bytes_max=16 * MIB, batch_events_max=1_000)
    said, detail = 200, ""
    tracemalloc.start()
    try:
        found = list(events_in(kind, Headers(), body, limits))
        assert len(found) in (8, 10)
    except Problem as problem:
        said, detail = problem.status, problem.detail
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (said, words in detail) == (status, True), detail
    assert peak_bytes < len(body) + MIB


def of_one_mib(text: str) -> str:
    return text * ((MIB - 200) // len(text.encode()))


def cloud(**members: str) -> str:
    said = {"id": "a", "source": "b", "type": "c", "specversion": "1.0", **members}
    return json.dumps(said, ensure_ascii=False)


# By kind: an event of nearly 1 MiB, and how many times as long as a JSON text of 1 MiB it takes.
LARGE = {
    "text": ('{"payload":"' + of_one_mib("x") + '"}', 3),
    "letters": ('{"payload":"' + of_one_mib("é") + '"}', 4),
    "escapes": ('{"payload":"' + of_one_mib("\\n") + '"}', 3),
    "pairs": ('{"payload":"' + of_one_mib("\\ud83d\\ude00") + '"}', 3),
    "number": ('{"payload":' + of_one_mib("7") + "}", 3),
    "numbers": ('{"payload":[' + of_one_mib("1" * 999 + ",") + "1]}", 3),
    "key": ('{"payload":1,"key":"' + of_one_mib("k") + '"}', 4),
    "halves": ('{"payload":"' + of_one_mib("\\ud83d ") + '"}', 15),
    "elements": ('{"payload":[' + of_one_mib("1,") + "1]}", 10),
    "nested": ('{"payload":[' + of_one_mib("[" * 400 + "]" * 400 + ",") + "1]}", 15),
    "data": (cloud(data=of_one_mib("x")), 3),
    "base64": (cloud(data_base64=of_one_mib("QUFB")), 6),
    "subject": (cloud(subject=of_one_mib("x")), 6),
    "source": (cloud(source=of_one_mib("x")), 6),
}


@pytest.mark.few(14)
@pytest.mark.parametrize("name", LARGE)
def test_a_large_event_holds_the_loop_for_some_ms(name: str) -> None:
    """By CPU time of its only step: others are served between two of them (Slices)."""
    text, times = LARGE[name]
    kind = "application/cloudevents-batch+json" if "specversion" in text else "application/json"
    body, limits = (
        bytearray(f"[{text}]".encode()),
        Limits(event_bytes_max=MIB, batch_bytes_max=16 * MIB, batch_events_max=10),
    )
    usual, step = [], []
    for _ in range(5):
        usual.append(cpu_s(lambda: json.loads('"' + "x" * MIB + '"')))
        step.append(cpu_s(lambda: next(events_in(kind, Headers(), body, limits), None)))
    assert min(step) < times * min(usual), (min(step), min(usual))


def cpu_s(work: Callable[[], object]) -> float:
    began_s = thread_time()
    with suppress(Problem):
        work()
    return thread_time() - began_s
