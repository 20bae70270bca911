"""Authentication and authorization: keys and tokens with scopes, each with a bucket of requests.

Without keys and tokens a gateway listens on its own machine only, and every program there may
publish, read and consume. The routes for operators work only if the gateway was started with
--operate.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import psycopg
from starlette.requests import Request

from gapless.errors import GaplessError
from gapless.features.gateway.cookie import cookie_of
from gapless.features.gateway.keys import PREFIX, FoundKey, allows, find_key, is_secret, key_parts
from gapless.features.gateway.params import text_in
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.sessions import Sessions

if TYPE_CHECKING:
    from gapless.features.gateway.tokens import Bearer, Tokens

KNOWN_S = 5.0  # the time for which a key that was looked up is remembered
KEYS_MAX = 10_000  # keys that are remembered, and buckets
_DAY_S = 86_400
_PAUSE_S = 0.01  # the minimum between two looks
_ASK = {"WWW-Authenticate": 'Bearer realm="gapless"'}


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


async def counts(request: Request) -> bool:
    """Tell whether the key or the token that let a request in is still valid."""
    left_s: Callable[[], Awaitable[float]] | None = request.scope["state"].get("left_s")
    return left_s is None or await left_s() > 0


async def require_counts(request: Request) -> None:
    """Raise Problem (401) if it is no longer valid: a request may last for a minute."""
    if not await counts(request):
        raise Problem(401, "the key or the token counts no more", headers=_ASK)


def _given_by(request: Request) -> str:
    """Return the key or the token of a request. Raises Problem (401), and as cookie_of()."""
    header = request.headers.get("authorization")
    if header is None:
        given = cookie_of(request)
    else:
        kind, _, text = header.partition(" ")
        given = text.strip() if kind.lower() == "bearer" else None
    if given is None:
        raise Problem(401, "no key: send Authorization: Bearer …", headers=_ASK)
    return given


class Access:
    """Decides whether a request may continue.

    asks_keys, tokens: a request needs a key, or a token; asks: one of them. operates: an operator
    may change things.
    """

    def __init__(
        self,
        sessions: Sessions,
        *,
        asks_keys: bool,
        operates: bool,
        tokens: Tokens | None = None,
    ) -> None:
        self._sessions = sessions
        self._asks_keys = asks_keys
        self._tokens = tokens
        self.asks = asks_keys or tokens is not None
        self.operates = operates
        self._known: OrderedDict[str, tuple[float, FoundKey | None]] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    async def check(self, request: Request, scope: str) -> None:
        """Raise Problem: 401 without a valid key, 403 without the scope, 429 for too many requests.

        scope: the scope that is needed, with {topic} or {group} of the path; "" needs none.
        """
        if not scope:
            return
        if scope == "operate" and not self.operates:
            raise Problem(
                403, "this gateway does nothing of an operator's: start it with --operate"
            )
        if not self.asks:
            return
        await self.admit(request)
        names = {name: text_in(request.path_params, name) for name in request.path_params}
        needed = scope.format_map(names)
        self.require_any(request, needed)

    async def admit(self, request: Request, given: str | None = None) -> None:
        """Note the caller of a request and its scopes, if keys or tokens are asked for.

        given: the key or the token; None: that of the header or, without one, of the cookie.
        Raises Problem: 401 without a valid one, 429 for too many requests.
        """
        if not self.asks:
            return
        text = _given_by(request) if given is None else given
        request.state.scopes = await self._scopes_of(request, text)
        request.state.left_s = partial(self._left_s, request)

    def require_any(self, request: Request, *needed: str) -> None:
        """Raise Problem (403) for a request that was let in and has none of these scopes."""
        if not self.has_any(request, *needed):
            raise Problem(
                403, f"{request.state.caller} has no scope for it: it needs {' or '.join(needed)}"
            )

    def has_any(self, request: Request, *needed: str) -> bool:
        """Tell whether a request that was let in has one of these scopes, or needs none."""
        scopes: list[str] | None = getattr(request.state, "scopes", None)
        return scopes is None or any(allows(scopes, each) for each in needed)

    async def end_of(self, request: Request) -> None:
        """Return when the key or the token of a request that was let in is no longer valid."""
        while True:
            left_s = KNOWN_S
            with suppress(psycopg.Error, GaplessError, Problem):  # the database is away: try later
                left_s = await self._left_s(request)
            if left_s <= 0:
                return
            await asyncio.sleep(min(left_s, _DAY_S))

    async def _left_s(self, request: Request) -> float:
        """Return for how long it is valid without another look; 0: it is no longer valid."""
        bearer: Bearer | None = getattr(request.state, "bearer", None)
        key_id: str | None = getattr(request.state, "key_id", None)
        if bearer is not None:
            return bearer.left_s()
        if key_id is None:  # no key was needed
            return math.inf
        if await self._found(key_id) is None:
            return 0.0
        return max(_PAUSE_S, self._known[key_id][0] + KNOWN_S - monotonic())

    async def _scopes_of(self, request: Request, given: str) -> list[str]:
        """Return the scopes of the caller, and note its name."""
        if self._tokens is not None and not given.startswith(f"{PREFIX}_"):
            bearer = request.state.bearer = await self._tokens.check(given)
            who = request.state.caller = f"token of {bearer.name}"
            self._spend(bearer.whose, who, bearer.requests_s)
            return bearer.scopes
        key = await self._key(given)
        request.state.key_id = key.key_id
        request.state.caller = f"key {key.key_id} ({key.name})"
        self._spend(("key", key.key_id), f"key {key.key_id}", key.requests_s)
        return key.scopes

    async def _key(self, given: str) -> FoundKey:
        parts = key_parts(given) if self._asks_keys else None
        found = None if parts is None else await self._found(parts[0])
        if parts is None or found is None or not is_secret(found, parts[1]):
            raise Problem(401, "the key is unknown, expired or revoked", headers=_ASK)
        return found

    async def _found(self, key_id: str) -> FoundKey | None:
        """Return a valid key, as it was at most KNOWN_S ago; None: there is none."""
        known = self._known.get(key_id)
        if known is None or monotonic() - known[0] > KNOWN_S:
            found = await self._sessions.run(lambda conn: find_key(conn, key_id))
            known = self._known[key_id] = monotonic(), found
            self._known.move_to_end(key_id)
            if len(self._known) > KEYS_MAX:
                self._known.popitem(last=False)
        return known[1]

    def _spend(self, whose: tuple[str, str], name: str, requests_s: float | None) -> None:
        """Raise Problem (429) over the rate; the requests of one second may come at once."""
        if requests_s is None:
            return
        depth = max(1.0, requests_s)
        bucket = self._buckets.setdefault(whose, _Bucket(depth, monotonic()))
        now = monotonic()
        bucket.tokens = min(depth, bucket.tokens + (now - bucket.at_s) * requests_s)
        bucket.at_s = now
        self._buckets.move_to_end(whose)
        if len(self._buckets) > KEYS_MAX:
            self._buckets.popitem(last=False)
        if bucket.tokens < 1:
            wait_s = (1 - bucket.tokens) / requests_s
            raise Problem(
                429,
                f"{name} may send {requests_s:g} requests a second",
                headers={"Retry-After": str(math.ceil(min(wait_s, _DAY_S)))},
            )
        bucket.tokens -= 1
