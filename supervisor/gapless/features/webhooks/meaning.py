"""The meaning of an endpoint's answer for the unit of the call (pure): docs/use/webhooks.md."""

from __future__ import annotations

from typing import Literal

from gapless.features.webhooks.kept import EndpointAnswer
from gapless.features.webhooks.post import retry_after_s

WELL = range(200, 300)
_GONE, _UNPROCESSABLE, _TOO_MANY, _UNAVAILABLE = 410, 422, 429, 503

Meaning = Literal["taken", "never", "gone", "later", "refused"]


def meaning_of(answer: EndpointAnswer, *, now_s: float) -> tuple[Meaning, float]:
    """Return the meaning, and for how many seconds the endpoint asks to be left alone; 0: for none.

    "never": it understood, and will not take this unit. "later": it says when. "refused": it did
    not take it this time. now_s: the time, in seconds since 1970.
    """
    status = answer.status
    if status in WELL:
        return "taken", 0.0
    if status == _UNPROCESSABLE:
        return "never", 0.0
    if status == _GONE:
        return "gone", 0.0
    wait_s = retry_after_s(answer.retry_after, now_s=now_s)
    if wait_s is not None and status in (_TOO_MANY, _UNAVAILABLE):
        return "later", wait_s
    return "refused", 0.0
