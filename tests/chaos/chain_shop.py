"""The handlers of the chain: they write down what they are given, publish, and do what its events say."""

import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg import Connection

import gapless
from chaos.chain import GROUPS, LATE, MARK, SEED, Plan, links, plan
from chaos.history import Grouped, Linked, Sent
from chaos.shop import Publish, Shop
from gapless import NewEvent, Unit
from gapless.consume.user.handler import Handler

Pairs = Sequence[tuple[Sent, str]]  # events, and their payloads

_FUNCTION = "select gapless.publish(%s, %s::json, %s, %s, transaction_id => %s)"
# What names no transaction_id leaves its column to the default, which knows the unit.
_INSERT = """
insert into gapless.outbox_message_t (topic_id, key, event_type, payload)
select gapless.topic_id(%s), * from unnest(%s::text[], %s::text[], %s::json[])
"""
_INSERT_NAMED = """
insert into gapless.outbox_message_t (topic_id, key, event_type, payload, transaction_id)
select gapless.topic_id(%s), * from unnest(%s::text[], %s::text[], %s::json[], %s::uuid[])
"""
_PARCEL = """
insert into chaos.parcel (topic, payload, key, tag, transaction_id, late)
values (%s, %s::json, %s, %s, %s, %s)
"""


def link_handler(shop: Shop, group: Grouped, link: Linked) -> Handler:
    """Make the handler of a link."""
    publish: Publish | None = None
    if link.into is not None:

        def publish(unit: Unit, conn: Connection[Any]) -> None:
            (first,) = islice(unit, 1)
            _publish(link.into or "", plan(link, first.event_type or ""), conn)

    return shop.handler(group, publish, topic=link.topic, batch_size=link.batch_size)


def _publish(topic: str, what: Plan, conn: Connection[Any]) -> None:
    if not what.events:
        return
    way = _WAYS[what.way]
    pairs = list(zip(what.events, what.payloads, strict=True))
    if what.undoes:
        with conn.transaction(force_rollback=True):
            conn.execute(_FUNCTION, [topic, "{}", None, f"{what.events[0].tag}{MARK}undone", None])
    way(topic, pairs, conn)


def _new(event: Sent, payload: str) -> NewEvent:
    return NewEvent(
        payload=payload.encode(),
        key=event.key,
        event_type=event.tag,
        transaction_id=event.transaction_id,
    )


def _one(topic: str, pairs: Pairs, conn: Connection[Any]) -> None:
    for event, payload in pairs:
        gapless.publish(conn, topic, _new(event, payload))


def _some(topic: str, pairs: Pairs, conn: Connection[Any]) -> None:
    gapless.publish(conn, topic, [_new(event, payload) for event, payload in pairs])


def _by_function(topic: str, pairs: Pairs, conn: Connection[Any]) -> None:
    for event, payload in pairs:
        conn.execute(_FUNCTION, [topic, payload, event.key, event.tag, _named(event)])


def _by_insert(topic: str, pairs: Pairs, conn: Connection[Any]) -> None:
    columns: list[object] = [
        topic,
        [event.key for event, _ in pairs],
        [event.tag for event, _ in pairs],
        [payload for _, payload in pairs],
    ]
    named = [_named(event) for event, _ in pairs]
    if None in named:
        conn.execute(_INSERT, columns)
    else:
        conn.execute(_INSERT_NAMED, [*columns, named])


def _by_trigger(topic: str, pairs: Pairs, conn: Connection[Any], *, late: bool = False) -> None:
    for event, payload in pairs:
        conn.execute(_PARCEL, [topic, payload, event.key, event.tag, _named(event), late])


def _late(topic: str, pairs: Pairs, conn: Connection[Any]) -> None:
    _by_trigger(topic, pairs, conn, late=True)


def _both(topic: str, pairs: Pairs, conn: Connection[Any]) -> None:
    _one(topic, pairs[:1], conn)
    if pairs[1:]:
        _by_insert(topic, pairs[1:], conn)


def _named(event: Sent) -> UUID | None:
    return UUID(event.transaction_id) if event.transaction_id else None


_WAYS: dict[str, Callable[[str, Pairs, Connection[Any]], None]] = {
    "one": _one,
    "some": _some,
    "function": _by_function,
    "insert": _by_insert,
    "trigger": _by_trigger,
    LATE: _late,
    "both": _both,
}

if SEED in os.environ:  # in a supervisor of a run
    _shop = Shop(Path(os.environ["CHAOS_FOLDER"]), os.environ["GAPLESS_DSN"])
    pay, pack, ship = (
        link_handler(_shop, group, link)
        for group, link in zip(GROUPS, links(int(os.environ[SEED])), strict=True)
    )
