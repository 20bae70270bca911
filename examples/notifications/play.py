"""Dispatch notifications, and count: examples/notifications/play.py [HOW_MANY] [--console]."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from psycopg import Connection

import gapless

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from gateway import UNKNOWN, gateway  # noqa: E402 - needs the path above
from notifications import GROUP, URGENT, USUAL, Notification, request  # noqa: E402
from playing import prepare, supervisor  # noqa: E402

MANY = 300
SEED = 7
LIMIT_PER_S = 400
AT_ONCE = 1_000  # notifications a transaction
WRONG_EVERY = 50  # so many addresses are unknown to the third party, who alone can tell
URGENT_EVERY = 10
BASE_S = 60
LOOK_S = 0.05


def ask(number: int) -> Notification:
    """Make up a notification."""
    is_mail = number % 3 > 0
    name = UNKNOWN if number % WRONG_EVERY == 1 else "user"
    return Notification(
        number=number,
        channel="mail" if is_mail else "sms",
        to=f"{name}{number}@example.com" if is_mail else f"+49{number:09}",
        text=f"Your parcel {number} is on its way.",
        urgent=number % URGENT_EVERY == 0,
    )


def main() -> int:
    """Play; return 0 when every notification was sent once, or refused."""
    words = [word for word in sys.argv[1:] if word != "--console"]
    many = int(words[0]) if words else MANY
    asked = [ask(number) for number in range(many)]
    with gateway(SEED, LIMIT_PER_S) as server, gapless.connect(autocommit=True) as conn:
        os.environ["GATEWAY"] = server.url
        prepare({URGENT: None, USUAL: None})
        for topic in (URGENT, USUAL):
            conn.execute("select gapless.create_group(%s, %s, mode => 'queue')", [GROUP, topic])
        try:
            request(conn, [Notification(number=0, channel="sms", to="12", text="Hello")])
        except ValueError as error:
            print(f"not published: {error}")
        for first in range(0, many, AT_ONCE):
            with conn.transaction():
                request(conn, asked[first : first + AT_ONCE])
        with supervisor(HERE / "notifications.py", has_console="--console" in sys.argv):
            until_s = time.monotonic() + BASE_S + 3 * many / LIMIT_PER_S
            while (left := _left(conn, many)) and time.monotonic() < until_s:
                time.sleep(LOOK_S)
        states = dict(conn.execute(STATES, [GROUP]).fetchall())
        told, sent = server.told, set(server.sent.values())
    print(f"{many} asked for, {len(sent)} sent, {states.get('FAILED', 0)} given up, {left} left")
    print(f"{told['failed']} calls failed, {told['limited']} were over the limit")
    print(f"{told['lost'] + told['late']} answers never came, {server.repeated} repetitions known")
    right = {each.to for each in asked if not each.to.startswith(UNKNOWN)}
    return 0 if sent == right and states.get("FAILED", 0) == many - len(right) else 1


STATES = "select state, count(*) from gapless.queue_jobs where group_id = %s group by state"
LEFT = """
select sum(s.end_offset - 1), sum(s.open + s.in_hand + s.waiting + s.lapsed)
from gapless.queue_state(%s) s
"""


def _left(conn: Connection[Any], many: int) -> int:
    """Return how many are not at their end yet; those without an offset are not, either."""
    row = conn.execute(LEFT, [GROUP]).fetchone()
    there, left = row or (0, 0)
    return many - int(there or 0) + int(left or 0)


if __name__ == "__main__":
    sys.exit(main())
