"""Waits that look again and again, without a session in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request

from gapless.features.gateway.access import counts
from gapless.features.gateway.gateway import Gateway

Seen = TypeVar("Seen")
_PAUSE_S = 0.005
_PAUSE_S_MAX = 0.25


async def look_until(
    gateway: Gateway,
    request: Request,
    look: Callable[[], Awaitable[tuple[bool, Seen]]],
    timeout_s: float,
) -> tuple[bool, Seen]:
    """Return the result of `look`: as soon as it is enough, or when the time is over.

    The wait ends early if the gateway drains, or if the key of the request is no longer valid.
    """
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + timeout_s
    pause_s = _PAUSE_S
    while True:
        is_enough, seen = await look()
        left_s = give_up_s - loop.time()
        if is_enough or left_s <= 0 or gateway.is_draining:
            return is_enough, seen
        await gateway.pause(min(pause_s, left_s))
        if not await counts(request):
            return is_enough, seen
        pause_s = min(pause_s * 1.5, _PAUSE_S_MAX)
