"""Subscriptions of the twins' groups, and all rows about subscriptions, by names instead of numbers."""

from itertools import product
from typing import Any

from psycopg.types.json import Jsonb

from support.twins import TOPICS, Twins

PLACES = tuple(product(("mail", "billing"), TOPICS))
HERE = ("billing", "orders")
ELSEWHERE = tuple(place for place in PLACES if place != HERE)
SUBSCRIBE = (
    "select gapless.subscribe(%(group)s, %(topic)s, %(name)s, %(match)s, %(params)s, %(condition)s,"
    " %(expires_after)s::interval, %(sql)s)"
)
FORM = (
    "concat_ws(' ', f.group_id, t.name, f.match_names, f.match_paths, f.condition::text,"
    " (select c.expression from gapless.condition c where c.digest = f.condition_digest))"
)
# A name for each row, unique in its kind, and its contents.
ROWS = {
    "subscription": "select concat_ws(' ', s.group_id, t.name, s.name), jsonb_build_object("
    f"'form', {FORM}, 'params', s.params, 'values', s.match_values, 'expires_after', s.expires_after,"
    " 'renewed_at', s.renewed_at, 'number', s.subscription_id)"
    " from gapless.subscription s join gapless.topic t using (topic_id)"
    " join gapless.subscription_form f using (form_id)",
    "form": f"select {FORM}, '1'::jsonb from gapless.subscription_form f"
    " join gapless.topic t using (topic_id)",
    "stop": "select concat_ws(' ', s.group_id, t.name, s.name, p.partition_id),"
    " to_jsonb(p) - 'subscription_id' from gapless.subscription_stop p"
    " join gapless.subscription s using (subscription_id) join gapless.topic t using (topic_id)",
    "condition": "select expression, to_jsonb(digest) from gapless.condition",
    "compiled": "select proname::text, to_jsonb(oid::bigint) from pg_proc"
    " where pronamespace = 'gapless'::regnamespace and proname ~ '^condition_[0-9a-f]{32}$'",
    "filter": "select concat_ws(' ', f.group_id, t.name), to_jsonb(f)"
    " from gapless.group_filter f join gapless.topic t using (topic_id)",
    "place": "select concat_ws(' ', c.group_id, t.name, c.partition_id), to_jsonb(c)"
    " from gapless.consumer_offsets c join gapless.topic t using (topic_id)",
    "tally": "select concat_ws(' ', c.group_id, t.name, c.partition_id), to_jsonb(c)"
    " from gapless.filter_tally c join gapless.topic t using (topic_id)",
}
AUDITS = (
    "select a.action, a.group_id, t.name, a.partition_id, a.detail from gapless.audit a"
    " left join gapless.topic t using (topic_id) where a.audit_id > %s order by a.audit_id"
)
Changed = dict[str, tuple[Any, Any]]


def request(name: str, place: tuple[str, str] = HERE, **said: Any) -> dict[str, Any]:
    """Return the arguments of SUBSCRIBE; said: match, params, condition, sql, expires_after."""
    known = {"condition": None, "sql": None, "expires_after": None} | said
    texts = {"match": Jsonb(said.get("match", {})), "params": Jsonb(said.get("params", {}))}
    return {"group": place[0], "topic": place[1], "name": name, **known, **texts}


def subscribe(twins: Twins, name: str, place: tuple[str, str] = HERE, **said: Any) -> bool:
    """Subscribe there; said: as in request()."""
    (row,) = twins.conn.execute(SUBSCRIBE, request(name, place, **said)).fetchall()
    return bool(row[0])


def stop(twins: Twins, where: str, from_offset: int = 1, reason: str = "raised") -> None:
    """Stop subscriptions in a partition; where: on s, the subscription, t, its topic, and n, a partition."""
    twins.conn.execute(
        "insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)"
        " select s.subscription_id, n, %s, %s from gapless.subscription s"
        " join gapless.topic t using (topic_id), generate_series(0, 2) n"
        f" where {where} on conflict do nothing",
        [from_offset, reason],
    )


def numbers(twins: Twins, place: tuple[str, str] = HERE) -> dict[int, str]:
    """Return the names of a group's subscriptions by their numbers."""
    query = (
        "select s.subscription_id, s.name from gapless.subscription s"
        " join gapless.topic t using (topic_id) where s.group_id = %s and t.name = %s"
    )
    return dict(twins.conn.execute(query, place).fetchall())


def number(twins: Twins, name: str, place: tuple[str, str] = HERE) -> int:
    return {each: of for of, each in numbers(twins, place).items()}[name]


def rows(twins: Twins) -> dict[str, Any]:
    """Return all rows about subscriptions, by their names."""
    found: dict[str, Any] = {}
    for kind, query in ROWS.items():
        for name, row in twins.conn.execute(query).fetchall():
            assert f"{kind} {name}" not in found, f"two of {kind} {name}"
            found[f"{kind} {name}"] = row
    return found


def deed(twins: Twins, statement: str, params: Any = None) -> tuple[Any, Changed, list[Any]]:
    """Run a statement; return its answer, the rows it changed from one value to another, and its audit."""
    before = rows(twins)
    last = twins.value("select coalesce(max(audit_id), 0) from gapless.audit")
    ((answer,),) = twins.conn.execute(statement, params).fetchall()
    after = rows(twins)
    changed = {
        name: (before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    }
    return answer, changed, twins.conn.execute(AUDITS, [last]).fetchall()
