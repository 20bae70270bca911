"""A dispatcher of mail and SMS through third parties that are not to be relied on.

A request is checked before it is published, so that one that cannot be sent never enters the
queue. Urgent ones go into a topic of their own, which workers prefer. Each call has an idempotency
key: the third party knows a repetition by it. `gapless run` runs this file.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from typing import Any, Literal

from psycopg import Connection

import gapless

GROUP = "dispatcher"
URGENT, USUAL = "notifications.urgent", "notifications"
GATEWAY = os.environ.get("GATEWAY", "http://127.0.0.1:8025")
TIMEOUT_S = 0.5  # of one call; one that hangs for longer is asked again
TEXT_MAX = {"mail": 10_000, "sms": 160}  # characters
TOO_MANY = 429
WRONG = range(400, 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A request of a program. number: of the request, by which it can be found again."""

    number: int
    channel: Literal["mail", "sms"]
    to: str
    text: str
    urgent: bool = False


def check(asked: Notification) -> None:
    """Raise ValueError, in one line, for a request that could not be fulfilled."""
    if asked.channel not in TEXT_MAX:
        raise ValueError(f"channel {asked.channel!r}: there are {', '.join(TEXT_MAX)}")
    name, at, host = asked.to.partition("@")
    if asked.channel == "mail" and not (name and at and "." in host):
        raise ValueError(f"to {asked.to!r} is no mail address")
    if asked.channel == "sms" and not (asked.to.startswith("+") and asked.to[1:].isdecimal()):
        raise ValueError(f"to {asked.to!r} is no number: + and digits")
    if not 0 < len(asked.text) <= TEXT_MAX[asked.channel]:
        limit = TEXT_MAX[asked.channel]
        raise ValueError(f"text has {len(asked.text)} characters, a {asked.channel} 1 to {limit}")


def request(conn: Connection[Any], asked: list[Notification]) -> None:
    """Check notifications and publish them, with whatever else the caller's transaction does.

    Raises ValueError for the first that is wrong; then none is published.
    """
    for each in asked:
        check(each)
    for topic, urgent in ((URGENT, True), (USUAL, False)):
        events = [
            gapless.NewEvent(payload=asdict(each), key=each.to, event_type=each.channel)
            for each in asked
            if each.urgent is urgent
        ]
        if events:
            gapless.publish(conn, topic, events)


@gapless.handler(
    topic=[URGENT, USUAL],  # in order of preference
    group=GROUP,
    mode="queue",
    delivery="at-least-once",
    concurrency=16,  # calls at a time, in each worker
    visibility_s=30,
    on_failure="retry",
    retry_delays_s=[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8],
)
def send(unit: gapless.Unit) -> None:
    """Make one call. Raises what is to be tried again; DeadLetter for what never will succeed."""
    (event,) = unit
    body = json.dumps({"to": event.payload["to"], "text": event.payload["text"]}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": unit.idempotency_key}
    call = urllib.request.Request(  # noqa: S310 - our own gateway
        f"{GATEWAY}/{event.payload['channel']}", body, headers
    )
    try:
        with urllib.request.urlopen(call, timeout=TIMEOUT_S):  # noqa: S310
            return
    except urllib.error.HTTPError as error:
        if error.code == TOO_MANY:
            raise gapless.Retry("rate limit", after=float(error.headers["Retry-After"])) from None
        if error.code in WRONG:
            raise gapless.DeadLetter(f"refused: {error.code} {error.reason}") from None
        raise
