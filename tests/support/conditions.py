"""Subscriptions with SQL conditions: made, stopped and resumed."""

from typing import Any

from psycopg.types.json import Jsonb

from gapless.lease import hold
from support.world import Group


def subscribe(group: Group, name: str, condition: str | None, **said: Any) -> None:
    group.world.value(
        "select gapless.subscribe(%s, %s, %s, %s, %s, sql_condition => %s)",
        group.name, group.world.topic.name, name,
        Jsonb(said.get("match", {})), Jsonb(said.get("params", {})), condition,
    )  # fmt: skip


def resume(group: Group, name: str) -> Any:
    ask = "select gapless.resume_subscription(%s, %s, %s)"
    return group.world.value(ask, group.name, group.world.topic.name, name)


def stops(group: Group) -> list[Any]:
    return group.world.rows(
        "select s.name, p.from_offset, p.reason from gapless.subscription_stop p"
        " join gapless.subscription s using (subscription_id) where s.group_id = %s order by 1",
        group.name,
    )


def taken_over(group: Group) -> None:
    """Take the partition again, as the successor of a fenced worker does."""
    group.assignment = group.successor(group.conn)
    assert hold.install(group.conn, group.assignment) is not None
