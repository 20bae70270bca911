"""A web application that publishes in its own transaction, and shows what became of it.

`uvicorn app:app` serves it, `gapless run app.py` handles its events; both in as many processes as
you like. `play.py` runs both for a moment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from fastapi import FastAPI, HTTPException
from psycopg import Connection
from pydantic import BaseModel, Field

import gapless

TOPIC = "signups"
GROUP = "welcome"
WAIT_S_MAX = 30.0

app = FastAPI(title="gapless example")


class Signup(BaseModel):
    """The request of a person who signs up."""

    name: str = Field(min_length=1, max_length=100)


@app.post("/signups", status_code=202)
def sign_up(signup: Signup) -> dict[str, str]:
    """Store a signup and publish it: one transaction, so there is never one without the other."""
    with gapless.connect() as conn:
        conn.execute("insert into signup (name) values (%s)", (signup.name,))
        transaction_id = gapless.publish(
            conn, TOPIC, {"name": signup.name}, key=signup.name, event_type="signed-up"
        )
    return {"transaction_id": str(transaction_id), "look": f"/signups/{transaction_id}?wait_s=5"}


@app.get("/signups/{transaction_id}")
def what_became_of_it(transaction_id: UUID, wait_s: float = 0.0) -> dict[str, str]:
    """Say whether it was handled; wait for that, up to `wait_s` seconds (0 to 30)."""
    with gapless.connect(autocommit=True) as conn:
        try:
            state: str = gapless.wait_for(
                conn, GROUP, transaction_id, min(max(wait_s, 0.0), WAIT_S_MAX)
            )
        except gapless.WaitError as error:
            if error.state == "unknown":
                raise HTTPException(404, "there is no such signup") from error
            state = error.state
    return {"state": state}


@gapless.handler(topic=TOPIC, group=GROUP)
def welcome(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Handle signups, exactly once; one by the name of Mallory is refused, and set aside."""
    for event in unit:
        if event.payload["name"] == "Mallory":
            raise gapless.DeadLetter("not on our list")
        conn.execute(
            "update signup set greeting = %s where name = %s",
            (f"Welcome, {event.payload['name']}!", event.payload["name"]),
        )


def create_tables(conn: Connection[Any]) -> None:
    """Make what the application needs; repeat freely."""
    conn.execute((Path(__file__).parent / "schema.sql").read_bytes())
