"""Subscriptions of a group, for an operator: list them, subscribe, unsubscribe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.failpoints import hit
from gapless.ops.groups import one_topic, show_group
from gapless.ops.place import GroupPlace
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "SubscriptionChange", "SubscriptionInfo", "list_subscriptions", "renew_subscription",
    "resume_subscription", "subscribe", "unsubscribe",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionInfo:
    """A subscription of a group.

    match: which of the params have to be equal to which part of an event. where: a jsonpath
    predicate over the payload; None: none. params: what handlers see of it. set_by: a role.
    sql_condition: an SQL expression over e and s; None: none. expires_after_s: it goes when nobody
    renews it for so long, in left_s; None: never. stopped_partitions: where its sql_condition
    raised or was slow, and why: its events wait there until it is resumed.
    """

    group: str
    topic: str
    name: str
    match: Mapping[str, str]
    where: str | None
    sql_condition: str | None
    params: Mapping[str, Any]
    set_by: str = field(metadata={"only_json": True})
    set_at: datetime
    expires_after_s: float | None
    left_s: float | None
    stopped_partitions: Sequence[int]
    stopped_why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionChange:
    """What became of a subscription; changed: False when it was so before."""

    group: str
    topic: str
    name: str
    changed: bool


def list_subscriptions(conn: Connection[Any], place: GroupPlace) -> list[SubscriptionInfo]:
    """Return the subscriptions of a group, or of one topic of it, by their names.

    Raises UsageError for a place with a partition, RefusedError (GL404) for no group.
    """
    show_group(conn, place)
    where = {"group": place.group, "topic": place.topic}
    return rows(conn, SubscriptionInfo, query("subscriptions", "list"), **where)


def subscribe(  # noqa: PLR0913 - what a subscription is
    conn: Connection[Any],
    place: GroupPlace,
    name: str,
    *,
    match: Mapping[str, str] | None = None,
    where: str | None = None,
    params: Mapping[str, Any] | None = None,
    expires_after_s: float | None = None,
    sql_condition: str | None = None,
) -> SubscriptionChange:
    """Let a group take the events that this subscription matches, beside those of its others.

    name: 1 to 200 characters; of one that is there it is replaced. match: of which param which part
    of an event has to have the value, {"customer": "$.customer_id"}; a part is a field of the
    payload, or event_type, key, host_id, user_id. where: a jsonpath predicate over the payload,
    with params as its variables, which has to be true as well. Give one of them or both. params: a
    JSON object of at most 10 000 characters. place: needs no topic where the group has one.
    expires_after_s: it goes when nobody renews it, or subscribes again, for so long: 60 to ten
    years; None: never. sql_condition: an SQL expression over e, the event, and s, the subscription,
    which has to be true as well; at most 10 000 characters, of immutable and stable functions of
    PostgreSQL's own. A group has them in ordered mode only, as all subscriptions.
    Raises UsageError for a place with a partition and for what is not JSON; RefusedError for what
    is no subscription, a group with a filter, a queue group, and a group that is not there.
    """
    topic = one_topic(conn, place)
    for what, text in (("where", where), ("sql_condition", sql_condition)):
        if text is not None and "\0" in text:
            raise UsageError(f"{what}={text[:100]!r}: no condition has a NUL character")
    said = {
        "match": _json("match", match or {}),
        "where": where,
        "params": _json("params", params or {}),
        "expires_after_s": expires_after_s,
        "sql_condition": sql_condition,
    }
    named = {"group": place.group, "topic": topic, "name": name}
    (changed,) = row(conn, query("subscriptions", "subscribe"), **named, **said)
    return SubscriptionChange(**named, changed=changed)


def renew_subscription(conn: Connection[Any], place: GroupPlace, name: str) -> bool:
    """Begin the time of a subscription that expires anew; False: there is none of that name.

    Raises UsageError for a place with a partition, RefusedError for a group that is not there.
    """
    where = {"group": place.group, "topic": one_topic(conn, place), "name": name}
    (found,) = row(conn, query("subscriptions", "renew_subscription"), **where)
    return bool(found)


def resume_subscription(conn: Connection[Any], place: GroupPlace, name: str) -> int | None:
    """Ask a subscription that was stopped again, first about what it missed since.

    Returns how many units with matches now wait to be handled for it alone; None: it was not
    stopped. Takes as long as its condition does for all that its group passed since, but at most a
    minute and 5 s for each thousand events of that.
    Raises UsageError for a place with a partition; RefusedError when its condition raises still, or
    takes longer than 5 s about 1000 events or less (GL409; it stays stopped), and for no such group
    or subscription (GL404); psycopg.errors.QueryCanceled when the time is over before it is locked.
    """
    where = {"group": place.group, "topic": one_topic(conn, place), "name": name}
    with conn.transaction():
        before, _ = row(conn, query("subscriptions", "limit_resume"), **where)
        (units,) = row(conn, query("subscriptions", "resume_subscription"), **where)
        row(conn, query("subscriptions", "limit_back"), limit=before)
        hit("condition.resumed")
    return None if units is None else int(units)


def unsubscribe(conn: Connection[Any], place: GroupPlace, name: str) -> SubscriptionChange:
    """Take a subscription away; a group whose last one goes takes nothing.

    Raises UsageError for a place with a partition, RefusedError for a group that is not there.
    """
    where = {"group": place.group, "topic": one_topic(conn, place), "name": name}
    (changed,) = row(conn, query("subscriptions", "unsubscribe"), **where)
    return SubscriptionChange(**where, changed=changed)


def _json(what: str, value: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what}={repr(value)[:100]}: {error}") from error
    if "\\u0000" in text:
        raise UsageError(f"{what}={repr(value)[:100]}: PostgreSQL cannot store a NUL character")
    return text
