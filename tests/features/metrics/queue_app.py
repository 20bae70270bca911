"""Two queues, one of two topics and one outside any transaction; each call is noted as app.py notes it."""

import os

import psycopg

import gapless


def note(word: str) -> None:
    with open(os.environ["CALLS"], "a") as calls:  # noqa: PTH123 - one write a line, from several processes
        calls.write(f"{word}\n")


@gapless.handler(topic=["orders", "paid"], group="picking", mode="queue")
def pick(unit: gapless.Unit, conn: psycopg.Connection) -> None:
    (event,) = unit
    note("picked")
    if event.payload.get("bad"):
        raise ValueError("a bad order")


@gapless.handler(topic="orders", group="mailing", mode="queue", delivery="at-least-once")
def mail(unit: gapless.Unit) -> None:
    note("mailed")
