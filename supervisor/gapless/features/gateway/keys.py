"""Keys of the gateway: create, list and revoke them, and check the secret of one.

A key is gk_ID_SECRET. The database has the id, the scopes, and the SHA-256 of the secret: 256
random bits, so nothing slower is needed.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["CreatedKey", "KeyInfo", "create_key", "list_keys", "revoke_key"]

PREFIX = "gk"
_ID_BYTES = 8
_SECRET_BYTES = 32
KEYS_LISTED = 100
KEYS_LISTED_MAX = 1_000
_EXPIRY_S_MAX = 36_500 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyInfo:
    """A key as it stands. requests_s: requests a second at each gateway; None: any number."""

    key_id: str
    name: str
    scopes: list[str]
    requests_s: float | None
    created: datetime
    created_by: str
    expires: datetime | None
    last_used: datetime | None
    revoked: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKey:
    """A valid key; digest: SHA-256 of its secret."""

    key_id: str
    name: str
    digest: bytes = field(repr=False)
    scopes: list[str]
    requests_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey:
    """A new key. key: all of it; it cannot be shown again."""

    key_id: str
    key: str = field(repr=False)
    expires: datetime | None


def create_key(
    conn: Connection[Any],
    name: str,
    scopes: Sequence[str],
    *,
    requests_s: float | None = None,
    expires_in_s: float | None = None,
    maker: str | None = None,
) -> CreatedKey:
    """Create a key with these scopes.

    scopes: publish:TOPIC, read:TOPIC, consume:GROUP, each with * at its end for any; operate.
    expires_in_s: seconds, above 0, at most 100 years; None: it never expires.
    maker: the id of the key that makes it, with which it ends at the latest.
    Raises RefusedError (GL400) for an invalid scope, name, rate or time; UsageError for a NUL.
    """
    if any("\0" in each for each in (name, *scopes)):
        raise UsageError("a NUL character is in no name, and in no scope")
    if expires_in_s is not None and not expires_in_s <= _EXPIRY_S_MAX:
        raise UsageError(f"a key counts for at most {_EXPIRY_S_MAX} seconds")
    key_id = secrets.token_hex(_ID_BYTES)
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    (expires,) = row(
        conn,
        query("gateway", "create_api_key"),
        key_id=key_id,
        name=name,
        digest=sha256(secret.encode()).digest(),
        scopes=list(scopes),
        requests_s=requests_s,
        expires_in_s=expires_in_s,
        maker=maker,
    )
    return CreatedKey(key_id=key_id, key=f"{PREFIX}_{key_id}_{secret}", expires=expires)


def list_keys(
    conn: Connection[Any], *, limit: int = KEYS_LISTED, before: str | None = None
) -> list[KeyInfo]:
    """Return keys, revoked and expired ones too, the newest first.

    limit: rows, 1 to 1000. before: the id of a key; only older ones.
    Raises UsageError for another limit.
    """
    if not 1 <= limit <= KEYS_LISTED_MAX:
        raise UsageError(f"limit: {limit} must be from 1 to {KEYS_LISTED_MAX}")
    return rows(conn, KeyInfo, query("gateway", "api_keys"), limit=limit, before=before)


def revoke_key(conn: Connection[Any], key_id: str) -> bool:
    """Revoke a key, within 5 s everywhere; False: it was not valid. RefusedError: no such key."""
    return bool(row(conn, query("gateway", "revoke_api_key"), key_id=key_id)[0])


def find_key(conn: Connection[Any], key_id: str) -> FoundKey | None:
    """Return a valid key, without a comparison of its secret; None: there is none."""
    found = rows(conn, FoundKey, query("gateway", "find_api_key"), key_id=key_id)
    return found[0] if found else None


def key_parts(key: str) -> tuple[str, str] | None:
    """Return the id and the secret of a key; None if the text does not look like a key."""
    prefix, _, rest = key.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != PREFIX or len(key_id) != 2 * _ID_BYTES or not key_id.isalnum():
        return None
    if not key.isascii() or not 0 < len(secret) <= 100:
        return None
    return key_id, secret


def is_secret(found: FoundKey, secret: str) -> bool:
    """Tell whether it is the secret of the key; the time of the comparison tells nothing."""
    return hmac.compare_digest(found.digest, sha256(secret.encode()).digest())


def allows(scopes: Sequence[str], needed: str) -> bool:
    """Tell whether one of the scopes covers the needed one, such as publish:orders.

    `operate` covers reading and changing everything, but neither publishes nor consumes.
    """
    if needed.startswith("read:") and "operate" in scopes:
        return True
    return any(
        scope == needed or (scope.endswith("*") and needed.startswith(scope[:-1]))
        for scope in scopes
    )
