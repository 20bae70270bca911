"""Validation of a JSON text by a JSON Schema, with jsonschema-rs, which is an extra.

It is safe with any schema and payload: nothing is fetched, patterns take time that is linear in the
text, and a text that is nested too deeply gets an error that says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NoReturn

from gapless.errors import UsageError

SCHEMA_BYTES_MAX = 1_000_000  # as in sql/features/schemas/functions/check_schema.sql
DEPTH_MAX = 200
_REASON_CHARACTERS_MAX = 300
NEEDED = "needs jsonschema-rs: pip install 'gapless[schema]'"


class NotASchemaError(UsageError):
    """A text is no usable JSON Schema; the error's text says why."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The reason why a payload does not fit. pointer: to the value, by JSON pointer; "" for all.

    keyword: a JSON pointer to the part of the schema that the value violates; "" if there is none.
    """

    pointer: str
    keyword: str
    reason: str

    def __str__(self) -> str:
        return f"{self.pointer or 'the payload'}: {self.reason}"


class JsonSchema:
    """A schema that was read; any number of threads may use it."""

    def __init__(self, validator: Any) -> None:
        self._validator = validator

    def mismatch(self, text: str) -> Mismatch | None:
        """Return the reason why a JSON text does not fit, None if it does."""
        try:
            value = _decode(text)
            if text.count("[") + text.count("{") > DEPTH_MAX and _is_deep(value):
                return Mismatch("", "", f"nested more than {DEPTH_MAX} levels deep")
            if self._validator.is_valid(value):
                return None
            found = next(iter(self._validator.iter_errors(value)))
        except RecursionError:
            return Mismatch("", "", f"nested more than {DEPTH_MAX} levels deep")
        except ValueError as error:  # no JSON, or a number of more digits than Python takes
            return Mismatch("", "", _short(str(error)))
        return Mismatch(
            _pointer(found.instance_path), _pointer(found.schema_path), _short(found.message)
        )


def lacks() -> str | None:
    """Return the name of the missing library; None if it is installed."""
    return NEEDED if find_spec("jsonschema_rs") is None else None


@lru_cache(maxsize=256)
def json_schema(text: str) -> JsonSchema:
    """Return the schema of a text. Raises NotASchemaError, also when the library is missing."""
    library = _library()
    if len(text.encode()) > SCHEMA_BYTES_MAX:
        raise NotASchemaError(f"a schema has at most {SCHEMA_BYTES_MAX} bytes")
    try:
        validator = library.validator_for(
            text,
            validate_formats=True,
            pattern_options=library.RegexOptions(),
            offline=True,
        )
    except (ValueError, RecursionError) as error:
        raise _no_schema(error) from error
    return JsonSchema(validator)


def covers(wide: str, narrow: str) -> bool | None:
    """Tell whether the wide schema takes all that fits the narrow one; None: that is undecided.

    Raises NotASchemaError for an invalid text.
    """
    library = _library()
    if wide == narrow:
        return True
    try:
        both = [
            library.canonicalize(
                _decode(text),
                validate_formats=True,
                pattern_options=library.RegexOptions(),
                offline=True,
            )
            for text in (wide, narrow)
        ]
    except library.canonical.CanonicalizationError:
        return None
    except (ValueError, RecursionError) as error:
        raise _no_schema(error) from error
    try:
        answer = both[0].covers(both[1])
    except ValueError:  # two drafts
        return None
    return {"yes": True, "no": False}.get(str(answer))


def _library() -> Any:
    try:
        import jsonschema_rs  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise NotASchemaError(f"a schema {NEEDED}") from error
    return jsonschema_rs


def _no_schema(error: Exception) -> NotASchemaError:
    path = _pointer(getattr(error, "instance_path", ()))
    why = _short(str(getattr(error, "message", error)))
    return NotASchemaError(
        f"no JSON Schema that can be checked by: {path + ': ' if path else ''}{why}"
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant).decode


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [child for each in level for child in _children(each)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _pointer(path: Iterable[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _short(text: str) -> str:
    line = " ".join(text.partition("\n")[0].split())
    return line if len(line) <= _REASON_CHARACTERS_MAX else f"{line[: _REASON_CHARACTERS_MAX - 1]}…"
