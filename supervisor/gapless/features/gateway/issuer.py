"""The file of `gapless gateway --tokens FILE`: an issuer of tokens, and its claims' scopes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from gapless.errors import UsageError

# Signatures with a public key. No "none", no HS…: their secret would be a key of the set: public.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519",
)  # fmt: skip
_SCOPE = re.compile(r"operate|(publish|read|consume):([^*:]{1,200}\*?|\*)")
_BYTES_MAX = 65_536
_LEEWAY_S_MAX = 300
_REQUESTS_S_MAX = 1_000_000
_NAMES = ("issuer", "audience", "keys", "algorithms", "claim", "scopes", "leewayS", "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """The issuer of the tokens that are accepted.

    keys: its public keys (JWKS), an https address or a file. claim: the claim with the rights of
    the bearer; dots separate the names of nested claims. scopes: the scopes of each value of the
    claim; empty: the values are scopes. leeway_s: the seconds by which clocks may differ.
    requests_s: requests a second that each subject may send with all its tokens; None: any number.
    """

    issuer: str
    audience: str
    keys: str
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    claim: str = "scope"
    scopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leeway_s: int = 30
    requests_s: float | None = None

    def allowed(self, claims: Mapping[str, Any]) -> list[str]:
        """Return the scopes that a token's claims allow; values that are no scopes are ignored."""
        found: Any = claims
        for name in self.claim.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        values = found.split() if isinstance(found, str) else found
        if not isinstance(values, list):
            return []
        texts = [each for each in values if isinstance(each, str)]
        if not self.scopes:
            return [each for each in texts if is_scope(each)]
        return [scope for each in texts for scope in self.scopes.get(each, ())]


def is_scope(text: str) -> bool:
    """Tell whether gapless.create_api_key() takes the text as a scope; `*` alone is none."""
    return _SCOPE.fullmatch(text) is not None


def read_issuer(path: str) -> Issuer:
    """Return the issuer of a file. Raises UsageError in one line: the fault, and its place."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_BYTES_MAX + 1)
        found = yaml.safe_load(text) if len(text) <= _BYTES_MAX else None
    except OSError as error:
        raise UsageError(f"--tokens {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise UsageError(f"--tokens {path}: not YAML: {' '.join(str(error).split())}") from error
    try:
        return _issuer(found)
    except ValueError as error:
        raise UsageError(f"--tokens {path}: {error}") from None


def _issuer(found: Any) -> Issuer:
    if not isinstance(found, dict):
        raise ValueError(f"it must have {', '.join(_NAMES)}")  # noqa: TRY004 - read_issuer() takes it
    unknown = sorted(str(each) for each in found if each not in _NAMES)
    if unknown:
        raise ValueError(f"unknown {unknown[0]!r}: there are {', '.join(_NAMES)}")
    leeway_s = found.get("leewayS", Issuer.__dataclass_fields__["leeway_s"].default)
    if type(leeway_s) is not int or not 0 <= leeway_s <= _LEEWAY_S_MAX:
        raise ValueError(f"leewayS must be a whole number of seconds from 0 to {_LEEWAY_S_MAX}")
    return Issuer(
        issuer=_text(found, "issuer"),
        audience=_text(found, "audience"),
        keys=_keys(_text(found, "keys")),
        algorithms=_algorithms(found.get("algorithms", ["RS256", "ES256"])),
        claim=_text(found, "claim", "scope"),
        scopes=_scopes(found.get("scopes", {})),
        leeway_s=leeway_s,
        requests_s=_rate(found.get("rate")),
    )


def _text(found: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = found.get(name, default)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text")
    return value


def _rate(found: Any) -> float | None:
    if found is None:
        return None
    if type(found) not in (int, float) or not 0 < found <= _REQUESTS_S_MAX:
        raise ValueError(f"rate must be requests a second, above 0, at most {_REQUESTS_S_MAX}")
    return float(found)


def _keys(where: str) -> str:
    """Return the address or the file; keys that come over http could be forged."""
    parts = urlsplit(where)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError("keys: an address begins with https://: http only on this machine")
    if "://" in where and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("keys must be an https address, or a file")
    return where


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _algorithms(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not found or not set(map(str, found)) <= set(ALGORITHMS):
        raise ValueError(f"algorithms must be a list of some of {', '.join(ALGORITHMS)}")
    return tuple(found)


def _scopes(found: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(found, dict):
        raise ValueError("scopes must say which scopes each value of the claim has")  # noqa: TRY004
    return {str(value): _of_value(value, scopes) for value, scopes in found.items()}


def _of_value(value: object, scopes: Any) -> tuple[str, ...]:
    listed: Collection[Any] = scopes if isinstance(scopes, list) else [scopes]
    wrong = [each for each in listed if not (isinstance(each, str) and is_scope(each))]
    if wrong:
        raise ValueError(
            f"scopes: {value}: {wrong[0]!r} is no scope: publish:TOPIC, read:TOPIC, consume:GROUP, "
            "with * at the end for any, or operate"
        )
    return tuple(listed)
