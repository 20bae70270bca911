"""JSON that may be hostile, read in place: one value at a time, in bounded steps.

A value is kept as its text: msgspec finds its end, at some ms a MiB, whatever its number of
elements. The objects that Python's decoder makes of it would take 300 ms and 50 MiB.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from gapless.features.load.parse import whole

MEMBERS_MAX = 100  # of an event
_BLANK = b" \t\r\n"
_BLANKS = re.compile(rb"[ \t\r\n]{0,1048576}+")  # longer runs of blanks are refused
# Nearly all texts; msgspec is faster for long ones.
_TEXT = re.compile(rb'"[^"\\\x00-\x1f]{0,255}+"')
_FIRST_BYTES = 4096
_ESCAPE_BYTES = 12  # of the longest escape, a pair
_PLACE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_VALUE = Decoder(Raw)
_AS_WRITTEN = frozenset(("payload", "data"))  # members that are needed as text only


class MalformedError(Exception):
    """A text is not JSON, or not UTF-8; at: the byte at which that is known."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.at = at


class Scan:
    """Reads a body, up to `stop`; `at` is the current byte."""

    def __init__(self, body: bytes | bytearray, at: int, stop: int) -> None:
        self.body = body
        self.at = at
        self.stop = min(stop, len(body))

    def skip_blanks(self) -> None:
        """Go to the next byte that is no blank."""
        found = _BLANKS.match(self.body, self.at, self.stop)
        assert found is not None
        self.at = found.end()

    def is_over(self) -> bool:
        """Tell whether only blanks are left."""
        self.skip_blanks()
        return self.at >= self.stop

    def sees(self, character: bytes) -> bool:
        """Tell whether this character is next, after blanks."""
        return not self.is_over() and self.body[self.at : self.at + 1] == character

    def pass_one(self, expected: bytes) -> bytes:
        """Pass one of these characters, and return it; raise MalformedError for another one."""
        if not self.is_over() and (found := bytes(self.body[self.at : self.at + 1])) in expected:
            self.at += 1
            return found
        raise MalformedError(f"not JSON: expected {' or '.join(expected.decode())}", self.at)

    def end(self) -> None:
        """Raise MalformedError if anything but blanks is left."""
        if not self.is_over():
            raise MalformedError("not JSON: more than one value", self.at)

    def members(self, advice: str) -> dict[str, tuple[Any, str]]:
        """Pass an object; return its members with values and texts, as parse.members_of() does.

        The value of an array or an object is an empty one of its kind; that of a payload is None.
        Raises MalformedError, RecursionError; ValueError for a value that is no object, for a
        doubled name, and for too many members.
        """
        if not self.sees(b"{"):
            self.value()
            raise ValueError(f"not an object; {advice}")
        found: dict[str, tuple[Any, str]] = {}
        more = self.pass_one(b"{")
        if self.sees(b"}"):
            more = self.pass_one(b"}")
        while more != b"}":
            name = self._name()
            self.pass_one(b":")
            text = self.value()
            if name in found:
                raise ValueError(f"{name!r} stands there twice")
            if len(found) >= MEMBERS_MAX:
                raise ValueError(f"it has more than {MEMBERS_MAX} members")
            found[name] = None if name in _AS_WRITTEN else _shallow(text), text
            more = self.pass_one(b",}")
        return found

    def value(self) -> str:
        """Pass a value, and return its text. Raises MalformedError, RecursionError."""
        self.skip_blanks()
        begin = self.at
        plain = _TEXT.match(self.body, begin, self.stop)
        self.at = begin + self._length() if plain is None else plain.end()
        try:
            return self.body[begin : self.at].decode()
        except UnicodeDecodeError as error:
            raise MalformedError("not UTF-8", begin + error.start) from None

    def _name(self) -> str:
        if not self.sees(b'"'):
            raise MalformedError('not JSON: expected "', self.at)
        name: str = whole(self.value())
        return name

    def _length(self) -> int:
        """Return the length of the value that begins here."""
        rest = memoryview(self.body)[self.at : self.stop]
        with suppress(DecodeError):
            return _length(rest)
        # msgspec rejects half a surrogate pair, which PostgreSQL stores. So another escape replaces
        # all that begin like one: of the same length, and valid wherever they are. MUST begin with
        # a part of the text: many small values would each have all of it copied.
        size = _FIRST_BYTES
        while True:
            some = bytes(rest[:size]).replace(rb"\ud", rb"\u0").replace(rb"\uD", rb"\u0")
            try:
                return _length(some)
            except DecodeError as error:
                known = _PLACE.fullmatch(str(error))
                if known is not None and int(known[2]) < len(some) - _ESCAPE_BYTES:
                    raise MalformedError(f"not JSON: {known[1]}", self.at + int(known[2])) from None
            if size >= len(rest):
                reason = "its end is missing" if known is None else known[1]
                at = self.stop if known is None else self.at + int(known[2])
                raise MalformedError(f"not JSON: {reason}", at)
            size *= 8


def _length(text: bytes | memoryview) -> int:
    """Return the length of the value with which a text begins, whatever follows it."""
    try:
        _VALUE.decode(text)
    except DecodeError as error:
        known = _PLACE.fullmatch(str(error))
        if known is None or known[1] != "trailing characters":
            raise
        text = text[: int(known[2]) - 1]  # it has passed the first of them
    return len(bytes(text).rstrip(_BLANK))


def _shallow(text: str) -> Any:
    """Return a value; for an array or an object, an empty one."""
    return {"[": [], "{": {}}[text[0]] if text[0] in "[{" else whole(text)
