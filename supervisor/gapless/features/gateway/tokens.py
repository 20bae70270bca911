"""Tokens (JWT) of an issuer: their signature, their audience, their expiry.

A token does not decide how it is checked: the algorithms are those of the issuer's file, the keys
those of its set; addresses and keys in a header are ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time  # noqa: TID251 - tokens end by the issuer's clock
from typing import Any

import httpx
from joserfc import jws, jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

from gapless.errors import one_line
from gapless.features.gateway.issuer import Issuer
from gapless.features.gateway.problem import Problem

log = logging.getLogger("gapless.gateway")

FETCH_S_MAX = 5.0
BYTES_MAX = 262_144  # of a set of keys
_CHARACTERS_MAX = 16_384  # of a token
_RSA_BITS_MIN = 2_048
_NAME_CHARACTERS_MAX = 200
_PUBLIC = ("RSA", "EC", "OKP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """The subject of a token, its scopes, and its expiry in seconds since 1970.

    whose: the issuer and its subject; all tokens of both share requests_s, None: any number.
    """

    name: str
    whose: tuple[str, str]
    scopes: list[str]
    requests_s: float | None
    expires_s: float

    def left_s(self) -> float:
        """Return for how many seconds it is valid."""
        return max(0.0, self.expires_s - time())


class Tokens:
    """Checks the tokens of one issuer."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self._keys = KeyRing(issuer.keys)
        self._claims = jwt.JWTClaimsRegistry(
            leeway=issuer.leeway_s,
            iss={"essential": True, "value": issuer.issuer},
            aud={"essential": True, "value": issuer.audience},
            exp={"essential": True},
        )

    async def check(self, text: str) -> Bearer:
        """Return the bearer of a token. Raises Problem: 401 if it is invalid, 503 without keys."""
        if len(text) > _CHARACTERS_MAX or not text.isascii():
            raise _refused("it is none")
        try:
            header = jws.extract_compact(text.encode()).headers()
            algorithm, kid = header.get("alg"), header.get("kid")
        except (JoseError, ValueError, RecursionError, AttributeError):
            raise _refused("it is none") from None
        if algorithm not in self._issuer.algorithms:
            raise _refused("its algorithm is none of those that count here")
        key = await self._keys.find(kid if isinstance(kid, str) else None)
        if key is None or key.alg not in (None, algorithm):
            raise _refused("its key is none of the issuer's")
        try:
            claims = jwt.decode(text, key, algorithms=[algorithm]).claims
            self._claims.validate(claims)
        except (JoseError, ValueError, TypeError, RecursionError, OverflowError):
            raise _refused("its signature, issuer, audience or time is not as it must be") from None
        subject = claims.get("sub")
        return Bearer(
            name=_name(subject),
            whose=(self._issuer.issuer, subject if isinstance(subject, str) else ""),
            requests_s=self._issuer.requests_s,
            scopes=self._issuer.allowed(claims),
            expires_s=float(min(claims["exp"], 1 << 53)) + self._issuer.leeway_s,
        )


class KeyRing:
    """The public keys of an issuer by kid; read again when they are old, or a kid is new.

    fresh_s: the age at which they are read again; stale_s: at which they are used no longer.
    again_s: the time between two attempts, however many tokens name an unknown key.
    """

    def __init__(
        self, where: str, *, fresh_s: float = 300.0, again_s: float = 10.0, stale_s: float = 3_600.0
    ) -> None:
        self._where = where
        self._fresh_s, self._again_s, self._stale_s = fresh_s, again_s, stale_s
        self._keys: dict[str | None, Key] = {}
        self._read_s = -math.inf  # monotonic: the time of the last read
        self._tried_s = -math.inf
        self._lock = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def find(self, kid: str | None) -> Key | None:
        """Return a key; without a kid the only key. Raises Problem (503) if no keys can be read.

        A token with a known key does not wait.
        """
        age_s = monotonic() - self._read_s
        if age_s > self._stale_s or self._of(kid) is None:
            await self._read_again()
        elif age_s > self._fresh_s and (self._reading is None or self._reading.done()):
            self._reading = asyncio.ensure_future(self._read_again())
        if monotonic() - self._read_s > self._stale_s:
            raise Problem(
                503, "the keys of the issuer cannot be read now", headers={"Retry-After": "5"}
            )
        return self._of(kid)

    def _of(self, kid: str | None) -> Key | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _read_again(self) -> None:
        """Read the keys, unless an attempt was made a moment ago."""
        async with self._lock:
            if monotonic() - self._tried_s < self._again_s:
                return
            self._tried_s = monotonic()
            try:
                async with asyncio.timeout(FETCH_S_MAX):
                    self._keys = usable_keys(json.loads(await _read(self._where)))
            except (httpx.HTTPError, OSError, ValueError, RecursionError) as error:
                log.warning("keys of tokens: %s: %s", self._where, one_line(error) or "too late")
                return
            self._read_s = monotonic()
            log.info("keys of tokens: %s: %s", self._where, len(self._keys))


def usable_keys(found: Any) -> dict[str | None, Key]:
    """Return the public keys of a JWKS that sign, without the others. Raises ValueError."""
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it has no keys: it is no JWKS")  # noqa: TRY004 - as of what is no JSON
    keys = dict(_usable(listed))
    if not keys:
        raise ValueError("none of its keys is a public key that signs")
    return keys


def _usable(listed: Iterable[Any]) -> Iterable[tuple[str | None, Key]]:
    for each in listed:
        if not isinstance(each, dict) or each.get("kty") not in _PUBLIC:
            continue
        if each.get("use") not in (None, "sig"):
            continue
        with contextlib.suppress(JoseError, ValueError, TypeError, KeyError):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SecurityWarning)  # for a small key, left out below
                key = import_key(each)
            assert isinstance(key, RSAKey | ECKey | OKPKey)
            if isinstance(key, RSAKey) and key.public_key.key_size < _RSA_BITS_MIN:
                continue
            kid = each.get("kid")
            yield (kid if isinstance(kid, str) else None), key


async def _read(where: str) -> bytes:
    if "://" not in where:
        return await asyncio.to_thread(Path(where).read_bytes)
    found = b""
    headers = {"Accept": "application/json"}
    async with (  # follows no redirect
        httpx.AsyncClient(timeout=FETCH_S_MAX, headers=headers) as client,
        client.stream("GET", where) as answer,
    ):
        if answer.status_code != httpx.codes.OK:
            raise ValueError(f"status {answer.status_code}")
        async for part in answer.aiter_bytes():
            found += part
            if len(found) > BYTES_MAX:
                raise ValueError(f"more than {BYTES_MAX} bytes")
    return found


def _name(subject: object) -> str:
    """Return a subject's name for the record: the text comes from outside, and goes to logs."""
    text = subject if isinstance(subject, str) else "?"
    return "".join(each for each in text if each.isprintable())[:_NAME_CHARACTERS_MAX]


def _refused(why: str) -> Problem:
    asked = {"WWW-Authenticate": 'Bearer realm="gapless", error="invalid_token"'}
    return Problem(401, f"the token is not valid: {why}", headers=asked)
