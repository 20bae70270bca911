"""Corrupted histories of groups with failure policies, by the name of the violation that they are.

The good history is that of test_policy_checker.py: {a}, {b}, {f}, {i} are its keys, and of its orders
those are named here that have a tag of their own.
"""

from dataclasses import replace

from chaos.corruptions import Corrupt, altered
from chaos.history import Asked, Handling, Invoke, Record, Sent

HOUR = "interval '1 hour'"


def unit(group: str, order: str) -> str:
    """Return a condition: the unit of an order in a group."""
    return (
        f"group_id = '{group}' and (partition_id, first_offset) = (select partition_id, first_offset"
        f" from chaos.told where order_key = '{order}')"
    )


def event(group: str, order: str) -> str:
    return unit(group, order).replace("first_offset", "c_offset", 1)


def effect(group: str, order: str, xid: str = "'7'") -> str:
    """Return a statement: the handler of a group handled an order."""
    return (
        "insert into chaos.effect (group_id, topic, partition_id, c_offset, transaction_id, position,"
        f" key, tag, xid) select '{group}', 't', partition_id, first_offset, transaction_id, 0, key,"
        f" tag, {xid} from chaos.told where order_key = '{order}'"
    )


def aside(what: str, where: str, which: str = "max") -> str:
    """Return a statement: one version of a unit that was set aside was another one."""
    return (
        f"update chaos.aside set {what} where id ="
        f" (select {which}(id) from chaos.aside where {where})"
    )


# The statements that corrupt; each must change something.
IN_TABLES: dict[str, tuple[str, ...]] = {
    "state out of turn": (
        aside("old_state = 'discarded'", "what = 'UPDATE' and state = 'waiting'"),
    ),
    "forgotten": (aside("state = 'waiting'", "what = 'DELETE'"),),
    "discarded without a reason": (aside("discard_reason = ' '", "state = 'discarded'"),),
    "tried too early": (f"update chaos.aside set due = due + {HOUR} where state = 'waiting'",),
    "retried too early": (
        "update chaos.aside set due = failed where state = 'waiting' and group_id = 'audit'",
    ),
    "trouble counted": (aside("sqlstate = '40001'", "state = 'dead'"),),
    "attempts miscounted": (
        f"update chaos.aside set attempts = attempts + 1 where {unit('audit', 'mend')}",
    ),
    "not given up": (aside("attempts = 9", f"state = 'waiting' and {unit('audit', 'mend')}"),),
    "given up too early": (aside("attempts = 1", f"state = 'dead' and {unit('audit', 'raise')}"),),
    "set aside under block": (aside("exception_class = 'KeyError'", "group_id = 'ledger'", "min"),),
    "parked without a policy": (aside("state = 'parked'", "group_id = 'audit'", "min"),),
    "held key passed": (
        f"update chaos.effect set at = at - {HOUR} where {event('stock', 'behind raise')}",
    ),
    "parked behind nobody": (f"delete from chaos.aside where {unit('stock', 'dead')}",),
    "key overtaken": (
        effect("stock", "first", f"(select xid from chaos.effect where {event('stock', 'first')})"),
        (
            "delete from chaos.effect where id = (select min(id) from chaos.effect where"
            f" {event('stock', 'first')})"
        ),
    ),
    "passed before its end": (
        f"update chaos.call set at = at + {HOUR} where phase = 'end' and {unit('mail', 'first')}",
    ),
    "never called to its end": (
        f"delete from chaos.call where phase = 'end' and {unit('mail', 'first')}",
    ),
    "idempotency key changed": (
        f"update chaos.call set idempotency_key = id where {unit('mail', 'mend')}",
    ),
    "idempotency key shared": ("update chaos.call set idempotency_key = 'x'",),
    "attempt told twice": (
        (
            "insert into chaos.call (group_id, topic, partition_id, first_offset, last_offset, phase,"
            " attempt, idempotency_key, pid, at) select group_id, topic, partition_id, first_offset,"
            " last_offset, phase, attempt, idempotency_key, pid, at from chaos.call"
            f" where phase = 'begin' and {unit('mail', 'first')}"
        ),
    ),
    "left waiting": (aside("state = 'waiting'", unit("billing", "raise")),),
    "no end": (f"delete from chaos.effect where {event('billing', 'mend')}",),
    "handled and set aside": (effect("stock", "raise"),),
    "poison handled": (effect("billing", "dead"),),
    "skip handled": (effect("billing", "skip"),),
    "handled twice": (
        effect(
            "billing", "mend", f"(select xid from chaos.effect where {event('billing', 'mend')})"
        ),
    ),
}
# A key of calls that follow each other: the first of them ended once more, and that counts.
CALLS_CROSSED = (
    (
        "insert into chaos.call (group_id, topic, partition_id, first_offset, last_offset, phase,"
        " attempt, idempotency_key, pid, at) select group_id, topic, partition_id, first_offset,"
        " last_offset, phase, attempt, idempotency_key, pid, at from chaos.call"
        f" where phase = 'end' and {unit('mail', 'first')}"
    ),
    (
        "delete from chaos.call where id = (select min(id) from chaos.call"
        f" where phase = 'end' and {unit('mail', 'first')})"
    ),
)
CALL_PASSED = (f"update chaos.call set at = at - {HOUR} where {unit('mail', 'behind raise')}",)


def does(before: str, after: str) -> Corrupt:
    """Say that an event was sent to do something else."""

    def sent(e: Sent) -> Sent:
        return replace(e, does=after) if e.does == before else e

    return altered(Invoke, lambda each: replace(each, events=tuple(map(sent, each.events))))


def ended(before: str, after: str) -> Corrupt:
    """Say that handlers ended otherwise."""
    return altered(Handling, lambda e: replace(e, how=after) if e.how == before else e)


def killed(records: list[Record]) -> list[Record]:
    """Say that one unit ended many workers."""
    begin = next(e for e in records if isinstance(e, Handling) and e.phase == "begin")
    return [*records, *[begin] * 10]


def discarded(asked: Asked) -> Asked:
    return replace(asked, units=tuple((place, "discarded") for place, _ in asked.units))


IN_RECORDS: dict[str, tuple[str, Corrupt]] = {
    "a healthy unit is dead": ("healthy and dead", does("raise", "")),
    "a unit that kills is dead for another reason": ("killer unexplained", does("raise", "kill")),
    "a unit to be skipped is dead": ("healthy and dead", does("raise", "skip")),
    "a unit kills for ever": ("killed too often", killed),
    "trouble is counted": ("attempts miscounted", ended("raised", "trouble")),
    "a unit is passed without a word": ("effect lost", ended("skip", "ok")),
    "a call is passed without a word": ("never called to its end", ended("skip", "ok")),
    "two people discard one unit": ("discarded twice", altered(Asked, discarded)),
}
# What an at-least-once handler was given for one of its events.
CALL_SEEN = (
    "update chaos.call set seen = jsonb_set(seen, '{{0,{column}}}', '\"another\"')"
    f" where phase = 'begin' and {unit('mail', 'first')}"
)
