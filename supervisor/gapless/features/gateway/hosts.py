"""The names to which a gateway answers.

A page of any website may have its own name mean 127.0.0.1 (DNS rebinding): its scripts then speak
with a server on that machine as if it were theirs. Only the requested name tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address

from starlette.types import Scope

from gapless.errors import UsageError
from gapless.features.gateway.problem import Problem

LOCAL = ("localhost", "127.0.0.1", "[::1]")
TARGET = "gapless.target"  # in the extensions of a scope: `url` is the target as the client sent it
_PORT_MAX = 65_535
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = rf"{_LABEL}(?:\.{_LABEL})*\.?"
_AUTHORITY = re.compile(rf"(?=.{{1,261}}\Z)({_NAME}|\[[0-9A-Fa-f:.]+\])(?::([0-9]{{0,5}}))?")
_ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")


def require_name(scope: Scope, names: frozenset[str] | None) -> None:
    """Raise Problem: 400 for a missing or malformed name; 421 for another server's name.

    names: those of this server; None allows any well-formed name.
    """
    given = [value for name, value in scope["headers"] if name == b"host"]
    if len(given) != 1:
        said = "no header Host" if not given else "more than one header Host"
        raise Problem(400, f"{said}: a request has one")
    # The target takes precedence over the header (RFC 9112); here both have to be right.
    absolute = _ABSOLUTE.match(scope["extensions"][TARGET]["url"])
    for raw in (*given, *([absolute[1]] if absolute else [])):
        authority = raw.decode("latin-1")
        name = name_in(authority)
        if name is None:
            raise Problem(400, f"Host {authority[:100]!r} is no name")
        if names is not None and name not in names:
            known = ", ".join(sorted(names))
            detail = f"{name} is not this gateway, which is {known}: add --host {name} to it"
            raise Problem(421, detail)


@lru_cache(64)  # a client asks for the same name each time
def name_in(authority: str) -> str | None:
    """Return the name or address before a port, each in one form; None: the text is malformed."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None or int(found[2] or 0) > _PORT_MAX:
        return None
    name = found[1].lower().removesuffix(".")
    if not name.startswith("["):
        return name
    try:
        return f"[{ip_address(name[1:-1])}]"
    except ValueError:
        return None


def names_of(texts: Iterable[str], address: str) -> frozenset[str]:
    """Return the names of a gateway that listens at an address. Raises UsageError."""
    own = f"[{address.partition('%')[0]}]" if ":" in address else address
    names = {name_in(each) for each in (*LOCAL, own)}
    for text in texts:
        is_bare = text.count(":") > 1 and not text.startswith("[")
        name = name_in(f"[{text}]" if is_bare else text)
        if name is None or (":" in text and not is_bare and not text.endswith("]")):
            raise UsageError(f"--host {text}: it is a name such as log.example.com, without a port")
        names.add(name)
    return frozenset(name for name in names if name is not None)
