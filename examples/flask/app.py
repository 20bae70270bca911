"""A shop in Flask with SQLAlchemy: an order and its event are one transaction, so is its handling.

`flask --app app run` serves it, `gapless run app.py` handles its events. `play.py` does both for a
moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from flask import Flask, request
from psycopg import Connection
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import gapless
from gapless.sqlalchemy import session_on

TOPIC = "flask.placed"
GROUP = "flask.packing"
WAIT_S_MAX = 30.0

app = Flask(__name__)
engine = sa.create_engine("postgresql+psycopg://", creator=gapless.connect)


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
    """An order, and how far it is."""

    __tablename__ = "flask_order"
    number: Mapped[int] = mapped_column(primary_key=True)
    article: Mapped[str]
    state: Mapped[str] = mapped_column(default="placed")


@dataclass
class Placed:
    """The event: an order was placed."""

    number: int
    article: str


@app.post("/orders")
def place() -> tuple[dict[str, str], int]:
    """Store an order and publish it: one transaction, so there is never one without the other."""
    with Session(engine) as session, session.begin():
        order = Order(article=request.get_json()["article"])
        session.add(order)
        session.flush()  # it has its number now
        placed = Placed(order.number, order.article)
        transaction_id = gapless.publish(session, TOPIC, placed, key=str(order.number))
    return {"transaction_id": str(transaction_id)}, 202


@app.get("/orders/<uuid:transaction_id>")
def what_became_of_it(transaction_id: Any) -> dict[str, str]:
    """Wait until the order is packed, or say what it waits for."""
    with engine.connect() as conn:
        try:
            state: str = gapless.wait_for(conn, GROUP, transaction_id, WAIT_S_MAX)
        except gapless.WaitError as error:
            state = error.state
    return {"state": "packed" if state == "handled" else state}


@gapless.handler(topic=TOPIC, group=GROUP, payload=Placed)
def pack(unit: gapless.Unit[Placed], conn: Connection[Any]) -> None:
    """Pack orders, exactly once; one for a missing article is set aside."""
    with session_on(conn) as session:
        for event in unit:
            if event.payload.article == "unicorn":
                raise gapless.DeadLetter("there are no unicorns")
            session.get_one(Order, event.payload.number).state = "packed"
