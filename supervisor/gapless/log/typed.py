"""Payloads as values of a type: dataclasses, models of pydantic, structs of msgspec.

pydantic and msgspec decode their own types; neither is imported unless the type is one of them. A
value that is not of the type raises NotOfTypeError, with the path of the field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any

from gapless.errors import UsageError
from gapless.log.codec import decode_bytes
from gapless.log.fields import NotOfTypeError, converter

Decoder = Callable[[bytes], Any]


def decoder_of(wanted: Any) -> Decoder:
    """Return a decoder from JSON text (UTF-8) to values of a type.

    wanted: a dataclass, a model of pydantic or a struct of msgspec; for any other type (a union, a
    list of them) a TypeAdapter of pydantic, or a Decoder of msgspec.
    Raises UsageError for anything else, and for a dataclass with a field of an unsupported type.
    """
    if hasattr(wanted, "model_validate_json"):
        return _by_pydantic(wanted.model_validate_json)
    if hasattr(wanted, "validate_json"):  # a TypeAdapter
        return _by_pydantic(wanted.validate_json)
    if hasattr(wanted, "__struct_fields__") and isinstance(wanted, type):
        return _by_msgspec(sys.modules["msgspec"].json.Decoder(wanted).decode)
    if type(wanted).__module__.partition(".")[0] == "msgspec" and hasattr(wanted, "decode"):
        return _by_msgspec(wanted.decode)
    if is_dataclass(wanted) and isinstance(wanted, type):
        if hasattr(wanted, "__pydantic_validator__"):  # one of pydantic's
            adapter = sys.modules["pydantic"].TypeAdapter(wanted)
            return _by_pydantic(adapter.validate_json)
        return _of_dataclass(wanted)
    raise UsageError(
        f"payload={getattr(wanted, '__qualname__', repr(wanted))}: a dataclass, a model of "
        "pydantic, a struct of msgspec, a TypeAdapter or a Decoder of these"
    )


def _of_dataclass(wanted: type) -> Decoder:
    convert = converter(wanted)

    def decoded(raw: bytes) -> Any:
        return convert(decode_bytes(raw), "$")

    return decoded


def _by_pydantic(validate: Callable[..., Any]) -> Decoder:
    # publish() stores the fields under their own names, even if they have aliases.
    named = {"by_alias": True, "by_name": True} if _knows_names(validate) else {}

    def decoded(raw: bytes) -> Any:
        try:
            return validate(raw, **named)
        except ValueError as error:
            problems = getattr(error, "errors", None)
            if problems is None:
                raise
            first, *more = problems(include_url=False, include_context=False, include_input=False)
            count = f" (and {len(more)} more)" if more else ""
            raise NotOfTypeError(_path(first["loc"]), f"{first['msg']}{count}") from error

    return decoded


def _knows_names(validate: Callable[..., Any]) -> bool:
    """Tell whether this pydantic accepts names beside aliases: it does from 2.11 on."""
    code = getattr(getattr(validate, "__func__", validate), "__code__", None)
    return code is not None and "by_name" in code.co_varnames


def _by_msgspec(made_of: Callable[[bytes], Any]) -> Decoder:
    def decoded(raw: bytes) -> Any:
        try:
            return made_of(raw)
        except ValueError as error:  # its ValidationError and DecodeError
            what, _, path = str(error).partition(" - at `")
            raise NotOfTypeError(path.removesuffix("`") or "$", what) from error

    return decoded


def _path(loc: Sequence[str | int]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return f"${''.join(parts)}"
