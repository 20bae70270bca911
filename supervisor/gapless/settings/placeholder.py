"""Expansion of `${name:default}` in a text, as light-4j's ConfigInjection does it.

    ${name}           the value, or an error when there is none
    ${name:default}   the value, or the text after the first colon
    ${name:}          the value, or null
    ${name:?message}  the value, or an error with the message
    ${name:$}         the text `${name}` itself, even if the name has a value

Differences, each where light-4j would silently do something odd: text around a placeholder is
kept whatever type the value has; `${name:$}` is an escape even where `name` has a value; and a
placeholder within a placeholder, without a name or without its brace is refused.

A value is data: nothing in it is expanded again. Pure: a Lookup finds the values of names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_PLACEHOLDER = re.compile(r"\$\{(.*?)\}")


class PlaceholderError(ValueError):
    """A placeholder is malformed or has no value; the caller adds the file and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The value of a name (null, a text, or several), and its source in words."""

    value: object
    source: str


Lookup = Callable[[str], Resolved | None]
"""Finds the value of a name, or None where it has none (which is not a null value)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """A text after expansion: the value, and the sources of its parts in order of use."""

    value: object
    sources: tuple[str, ...]
    is_whole: bool
    """The text was one placeholder and nothing else, so the value need not be a text."""


def names_in(text: str) -> tuple[str, ...]:
    """List the names of a text's placeholders, in order."""
    return tuple(_split(match[1])[0] for match in _PLACEHOLDER.finditer(text))


def expand(text: str, lookup: Lookup) -> Expansion:
    """Replace every placeholder; one that is the whole text keeps the type of its value."""
    whole = _PLACEHOLDER.fullmatch(text)
    if whole and whole.end(1) == text.index("}"):
        found = _resolve(whole[1], lookup)
        sources = (found.source,) if found.source else ()
        return Expansion(value=found.value, sources=sources, is_whole=True)
    parts: list[str] = []
    embedded: list[str] = []
    rest = 0
    for match in _PLACEHOLDER.finditer(text):
        found = _resolve(match[1], lookup)
        parts += [_literal(text[rest : match.start()]), _as_text(found)]
        embedded += [found.source] if found.source else []
        rest = match.end()
    parts.append(_literal(text[rest:]))
    return Expansion(value="".join(parts), sources=tuple(embedded), is_whole=False)


def _split(content: str) -> tuple[str, str | None]:
    """Cut the text between the braces into name and default; spaces around both are ignored."""
    name, colon, default = content.partition(":")
    return name.strip(), default.strip() if colon else None


def _resolve(content: str, lookup: Lookup) -> Resolved:
    """Return the value of one placeholder; its source is empty when the default was taken."""
    name, default = _split(content)
    # The content MUST NOT be shown: a default may hold a password.
    if not name:
        raise PlaceholderError("a placeholder has no name; write ${name:default}")
    if "${" in content:
        raise PlaceholderError("a placeholder is within another, or '${' is never closed by '}'")
    if default == "$":
        return Resolved(value=f"${{{name}}}", source="")
    if found := lookup(name):
        return found
    if default and default.startswith("?") and len(default) > 1:
        raise PlaceholderError(f"${{{name}}} has no value: {default[1:].strip()}")
    if default is None or default == "?":
        raise PlaceholderError(f"${{{name}}} has no value and no default")
    return Resolved(value=default or None, source="")


def _literal(text: str) -> str:
    if "${" in text:
        raise PlaceholderError("'${' is never closed by '}' on its line")
    return text


def _as_text(found: Resolved) -> str:
    if found.value is None:
        return ""
    if not isinstance(found.value, str):
        raise PlaceholderError(f"only text can be put into text, not what {found.source} has")
    return found.value
