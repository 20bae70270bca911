"""Subscriptions of a group, for an operator: list, add, renew, resume and remove them."""

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

    match: for each of its params, the part of an event that has to be equal. where: a jsonpath
    predicate over the payload; None: none. params: values that handlers see. set_by: a role.
    sql_condition: an SQL expression over e and s; None: none. expires_after_s: seconds
    from the last renewal to its expiry; left_s: seconds left; None: it never expires.
    stopped_partitions: the partitions where its sql_condition raised or was slow, and why: its
    events wait there until it is resumed.
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
    """The result of a change to a subscription; changed: False when it was so before."""

    group: str
    topic: str
    name: str
    changed: bool


def list_subscriptions(conn: Connection[Any], place: GroupPlace) -> list[SubscriptionInfo]:
    """Return the subscriptions of a group, or of one topic of it, by name.

    Raises UsageError for a place with a partition, RefusedError (GL404) for an unknown group.
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

    name: 1 to 200 characters; a subscription of that name is replaced. match: for params, the part
    of an event that has to have their value, {"customer": "$.customer_id"}; a part is a field of
    the payload, or event_type, key, host_id, user_id. where: a jsonpath predicate over the payload,
    with params as its variables, which has to be true as well. Give one of them or both. params: a
    JSON object of at most 10 000 characters. place: needs no topic if the group has one.
    expires_after_s: seconds after which it expires unless it is renewed, or subscribed again: 60 to
    ten years; None: never. sql_condition: an SQL expression over e, the event, and s, the
    subscription, which has to be true as well; at most 10 000 characters, of immutable and stable
    functions of PostgreSQL's own. It needs an ordered group, as all subscriptions do.
    Raises UsageError for a place with a partition and for invalid JSON; RefusedError for an invalid
    subscription, a group with a filter, a queue group, and an unknown group.
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
    """Restart the time of a subscription that expires; False: there is none of that name.

    Raises UsageError for a place with a partition, RefusedError for an unknown group.
    """
    where = {"group": place.group, "topic": one_topic(conn, place), "name": name}
    (found,) = row(conn, query("subscriptions", "renew_subscription"), **where)
    return bool(found)


def resume_subscription(conn: Connection[Any], place: GroupPlace, name: str) -> int | None:
    """Ask a stopped subscription again, first about the events that it missed since.

    Returns the number of units with matches that now wait to be handled for it alone; None: it was
    not stopped. Takes as long as its condition needs for all events that its group passed since,
    but at most a minute and 5 s for each thousand of these events.
    Raises UsageError for a place with a partition; RefusedError when its condition still raises, or
    takes longer than 5 s for 1000 events or less (GL409; it stays stopped), and for an unknown
    group or subscription (GL404); psycopg.errors.QueryCanceled when the time is over before it is
    locked.
    """
    where = {"group": place.group, "topic": one_topic(conn, place), "name": name}
    with conn.transaction():
        before, _ = row(conn, query("subscriptions", "limit_resume"), **where)
        (units,) = row(conn, query("subscriptions", "resume_subscription"), **where)
        row(conn, query("subscriptions", "limit_back"), limit=before)
        hit("condition.resumed")
    return None if units is None else int(units)


def unsubscribe(conn: Connection[Any], place: GroupPlace, name: str) -> SubscriptionChange:
    """Remove a subscription; a group without any takes no events.

    Raises UsageError for a place with a partition, RefusedError for an unknown group.
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
