"""The types of settings: the conversion of text to a value, and the allowed range.

Every kind takes the same text from any source (flag, environment, values file, config file),
so `"100"`, `100` and `${k:100}` are the same number. Nothing is guessed: `1_000`, `0x10`, `010`
and `100.0` are not whole numbers here, though YAML would read the first three as some.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

# 18 digits: any such number fits 64 bits, and int() refuses texts of thousands of digits.
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})")
_PORT_MAX = 65_535
_TRUE_WORDS = frozenset({"true", "yes", "on", "y"})
_FALSE_WORDS = frozenset({"false", "no", "off", "n"})
_SHOWN_CHARACTERS_MAX = 60


class RefusedValueError(ValueError):
    """A value is not of its kind or out of range; the caller names the value and its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(ABC):
    """One type with its range; `null` is the meaning of an empty value, "" that it is refused."""

    null: str = ""

    @property
    def must(self) -> str:
        """The condition for a value, as the words that follow "must be"."""
        what = self._what()
        return f"{what}, or empty for {self.null}" if self.null else what

    def parse(self, raw: object) -> object:
        """Turn text (or a value already of the type) into the value, or raise RefusedValueError."""
        if raw is None or (isinstance(raw, str) and not raw.strip()):
            if not self.null:
                raise RefusedValueError
            return self._empty()
        return self._parse(raw)

    def show(self, raw: object) -> str:
        """Write a refused value for an error message: one line, not too long."""
        if raw is None or raw == "":
            return "empty"
        text = repr(raw)
        cut = len(text) > _SHOWN_CHARACTERS_MAX
        return f"{text[:_SHOWN_CHARACTERS_MAX]}…" if cut else text

    def _empty(self) -> object:
        return None

    @abstractmethod
    def _what(self) -> str: ...

    @abstractmethod
    def _parse(self, raw: object) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Kind):
    """A whole number from `low` to `high`, both allowed; or a word, if there is one."""

    low: int
    high: int
    word: str | None = None

    def _what(self) -> str:
        number = f"a whole number from {self.low} to {self.high}"
        return number if self.word is None else f"{number}, or {self.word}"

    def _parse(self, raw: object) -> int | str:
        if isinstance(raw, str) and raw.strip() == self.word:
            return self.word
        if isinstance(raw, str) and _WHOLE_NUMBER.fullmatch(raw.strip()):
            raw = int(raw)
        # bool is a subclass of int: `batchSize: true` MUST NOT become 1.
        if not isinstance(raw, int) or isinstance(raw, bool):
            raise RefusedValueError
        if not self.low <= raw <= self.high:
            raise RefusedValueError
        return raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth(Kind):
    """True or false, in the words YAML 1.1 and light-4j know, in any case."""

    def _what(self) -> str:
        return "true or false"

    def _parse(self, raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        word = raw.strip().lower() if isinstance(raw, str) else ""
        if word not in _TRUE_WORDS | _FALSE_WORDS:
            raise RefusedValueError
        return word in _TRUE_WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Kind):
    """One of a few words."""

    words: tuple[str, ...]

    def _what(self) -> str:
        return f"one of {', '.join(self.words)}"

    def _parse(self, raw: object) -> str:
        word = raw.strip() if isinstance(raw, str) else ""
        if word not in self.words:
            raise RefusedValueError
        return word


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Kind):
    """A name or reference: printable, without space around it (invisible in a log)."""

    longest: int

    def _what(self) -> str:
        return f"1 to {self.longest} printable characters without space around them"

    def _parse(self, raw: object) -> str:
        if not isinstance(raw, str) or len(raw) > self.longest:
            raise RefusedValueError
        # isprintable() also refuses NUL, which Postgres cannot store, and the lone surrogates
        # that an environment which is not UTF-8 decodes to.
        if not raw.isprintable() or raw != raw.strip():
            raise RefusedValueError
        return raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Address(Kind):
    """A host and a port to listen on; port 0 is any free port."""

    def _what(self) -> str:
        return "HOST:PORT, such as 127.0.0.1:9464, localhost:9464 or [::1]:9464"

    def _parse(self, raw: object) -> str:
        found = _ADDRESS.fullmatch(raw.strip()) if isinstance(raw, str) else None
        if found is None or int(found[3]) > _PORT_MAX:
            raise RefusedValueError
        return found[0]


def host_and_port(address: str) -> tuple[str, int]:
    """Return the parts of an Address, the host without brackets."""
    found = _ADDRESS.fullmatch(address)
    assert found is not None
    return found[1] or found[2], int(found[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Dsn(Kind):
    """A connection string, passed to libpq unchanged; its value is never shown."""

    def _what(self) -> str:
        return "a libpq connection string or URI in valid UTF-8 without NUL"

    def _parse(self, raw: object) -> str:
        if not isinstance(raw, str) or "\0" in raw:
            raise RefusedValueError
        try:
            raw.encode()
        except UnicodeEncodeError as error:
            raise RefusedValueError from error
        return raw

    def show(self, raw: object) -> str:
        """Show nothing: a password may be in it."""
        return "empty" if raw is None or raw == "" else "not usable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Kind):
    """Several texts: a YAML list, or one text with commas; empty is no items."""

    item: Text

    def _what(self) -> str:
        return f"a list (or text with commas) of items of {self.item.must}"

    def _empty(self) -> tuple[str, ...]:
        return ()

    def _parse(self, raw: object) -> tuple[str, ...]:
        if isinstance(raw, str):
            raw = [item.strip() for item in raw.split(",")]
        if not isinstance(raw, (list, tuple)):
            raise RefusedValueError
        return tuple(str(self.item.parse(item)) for item in raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wholes(Kind):
    """Several whole numbers: a YAML list, or one text with commas; empty is none."""

    low: int
    high: int
    most: int

    def _what(self) -> str:
        return (
            f"a list (or text with commas) of up to {self.most} whole numbers"
            f" from {self.low} to {self.high}"
        )

    def _empty(self) -> tuple[int, ...]:
        return ()

    def _parse(self, raw: object) -> tuple[object, ...]:
        if isinstance(raw, str):
            raw = [item.strip() for item in raw.split(",")]
        if not isinstance(raw, (list, tuple)) or len(raw) > self.most:
            raise RefusedValueError
        item = Whole(low=self.low, high=self.high)
        return tuple(item.parse(each) for each in raw)
