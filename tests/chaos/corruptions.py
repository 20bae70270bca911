"""Kinds of corrupted histories, by the name of the violation that they are."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chaos.history import Ended, Invoke, Outcome, Record, Sent

LATER = (
    "update chaos.effect set xid = '9000000000000' where id = (select max(id) from chaos.effect)"
)
AN_EFFECT = (
    "(select id from chaos.effect where c_offset > 3 and group_id = 'g' order by id limit 1)"
)
A_BATCH = (
    "(select id from chaos.cursor where next_offset > old_offset and old_offset > 1 and not made"
    " order by id limit 1)"
)
LAST_SEGMENT = (
    "(topic_id, partition_id, base_offset) = (select topic_id, partition_id, max(base_offset)"
    " from gapless.log_segment where partition_id = 1 group by 1, 2)"
)
A_LETTER = "where ctid = (select min(ctid) from gapless.dead_letter_event)"
AGAIN = (
    "insert into chaos.effect (group_id, topic, partition_id, c_offset, transaction_id, position,"
    " key, tag, epoch, pid, backend_pid, xid) select group_id, topic, partition_id, c_offset,"
    " transaction_id, position, key, tag, epoch, pid, backend_pid, {xid} from chaos.effect e"
    " where {which}"
)
AN_EVENT = "(select min(id) from gapless.outbox_message_t)"
A_LETTER_FOR_AN_EFFECT = (
    "with d as (insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset,"
    " last_offset, events, transaction_id, state, attempts, reason, exception) select e.group_id, t.topic_id,"
    " e.partition_id, e.c_offset, e.c_offset, 1, e.transaction_id, 'dead', 1, 'x', 'x'"
    " from chaos.effect e join gapless.topic t on t.name = e.topic"
    f" where e.id = {AN_EFFECT} returning *)"
    " insert into gapless.dead_letter_event (group_id, topic_id, partition_id, c_offset, first_offset,"
    " message_id, transaction_id, created_ts) select group_id, topic_id, partition_id, first_offset,"
    " first_offset, 1, transaction_id, now() from d"
)
# The statements that corrupt; each must change something.
IN_TABLES: dict[str, tuple[str, ...]] = {
    "effect lost": (f"delete from chaos.effect where id = {AN_EFFECT}",),
    "handled twice": (AGAIN.format(xid="xid", which=f"id = {AN_EFFECT}"),),
    "effect and offset apart": (LATER,),
    "effect without offset": (LATER,),
    "unit in two transactions": (
        (
            "update chaos.effect set xid = '9000000000000' where id = (select max(id) from chaos.effect"
            " where position = 1 and c_offset > 2)"
        ),
    ),
    "unit cut": ("update chaos.effect set position = 0 where position = 1",),
    "effect out of order": (
        AGAIN.format(xid="xid", which=f"id = {AN_EFFECT}"),
        f"delete from chaos.effect where id = {AN_EFFECT}",
    ),
    "offset jumped": (f"update chaos.cursor set old_offset = old_offset - 1 where id = {A_BATCH}",),
    "offset fell": (f"update chaos.cursor set next_offset = 1 where id = {A_BATCH}",),
    "another event": (f"update chaos.effect set tag = 'other' where id = {AN_EFFECT}",),
    "half a unit dead": (
        (
            "delete from chaos.letter where id in (select max(id) from chaos.letter"
            " group by group_id, partition_id)"
        ),
        (
            "delete from gapless.dead_letter_event d where not exists (select from chaos.letter l"
            " where (l.group_id, l.partition_id, l.c_offset) = (d.group_id, d.partition_id, d.c_offset))"
        ),
    ),
    "handled and dead": (A_LETTER_FOR_AN_EFFECT,),
    "healthy and dead": (A_LETTER_FOR_AN_EFFECT,),
    "poison handled": (
        f"delete from gapless.dead_letter_event {A_LETTER}",
        (
            "insert into chaos.effect (group_id, topic, partition_id, c_offset, position) select"
            " group_id, 't', partition_id, c_offset, 0 from chaos.letter where what = 'DELETE'"
        ),
    ),
    "letter changed": (f"update gapless.dead_letter_event set payload = '1' {A_LETTER}",),
    "ghost letter": (
        "update gapless.dead_letter set last_offset = 999",
        f"update gapless.dead_letter_event set c_offset = 999 {A_LETTER}",
    ),
    "commit by a former owner": (f"update chaos.cursor set backend_pid = 1 where id = {A_BATCH}",),
    "epoch fell": (
        "update chaos.effect set epoch = 0 where id = (select max(id) from chaos.effect)",
    ),
    "two owners": (
        "update chaos.effect set backend_pid = 1 where id = (select max(id) from chaos.effect)",
    ),
    "epoch given twice": ("update chaos.lease set epoch = 1, old_epoch = 0 where epoch = 2",),
    "unleased fence": ("delete from chaos.lease where epoch = 2",),
    "taken by another": (
        "update chaos.lease set owner = gen_random_uuid() where epoch <> old_epoch",
    ),
    "taken from the living": (
        (
            "update chaos.lease set old_owner = gen_random_uuid(), old_owner_lives = true"
            " where epoch <> old_epoch"
        ),
    ),
    "ghost": ("update gapless.outbox_message_t set event_type = 'x' where id = " + AN_EVENT,),
    "lost": ("update gapless.outbox_message_t set event_type = 'x' where id = " + AN_EVENT,),
    "changed": ("update gapless.outbox_message_t set payload = '2' where id = " + AN_EVENT,),
    "row missing": ("delete from gapless.outbox_message_t where id = " + AN_EVENT,),
    "hole": (
        (
            "update gapless.log_segment set base_offset = base_offset + 1, last_offset = last_offset + 1"
            f" where {LAST_SEGMENT}"
        ),
    ),
    "offset moved": (f"update gapless.log_segment set run = run + 1 where {LAST_SEGMENT}",),
    "two offsets": (
        f"update gapless.log_segment set message_ids[1] = message_ids[2] where {LAST_SEGMENT}",
    ),
    "not sequenced": (f"delete from gapless.log_segment where {LAST_SEGMENT}",),
    "beyond the end": (f"delete from gapless.log_segment where {LAST_SEGMENT}",),
    "insertion order": (
        (
            "update gapless.log_segment set message_ids[1] = message_ids[2], message_ids[2] ="
            f" message_ids[1] where {LAST_SEGMENT}"
        ),
    ),
    "torn unit": (
        f"update gapless.log_segment set unit_ends = set_bit(unit_ends, 0, 1) where {LAST_SEGMENT}",
    ),
    "unit without end": (
        (
            "update gapless.log_segment set unit_ends = set_bit(unit_ends, length(unit_ends) - 1, 0)"
            f" where {LAST_SEGMENT}"
        ),
    ),
    "not delivered": (
        "update gapless.consumer_offsets set next_offset = next_offset - 1 where partition_id = 1",
    ),
    "torn outbox": ("delete from chaos.business where id = 1",),
    "unserved": (
        "update gapless.lease set target = null where partition_id = 0 and group_id = 'g'",
    ),
    "unbalanced": ("update gapless.member_group set group_id = 'g' where group_id = 'h'",),
}
NOWHERE = (Sent(tag="new", topic="t", key="a"),)


def acknowledged(records: list[Record]) -> list[Outcome]:
    """Return the outcomes of attempts whose COMMIT was answered."""
    return [each for each in records if isinstance(each, Outcome) and each.ended == "ok"]


Corrupt = Callable[[list[Record]], list[Record]]


def altered(kind: type[Any], change: Callable[[Any], Any]) -> Corrupt:
    """Say that every record of a kind was another one."""
    return lambda records: [change(e) if isinstance(e, kind) else e for e in records]


def of_first(change: Callable[[Invoke, list[Record]], Invoke]) -> Corrupt:
    """Say that the first attempt that was acknowledged was another one."""

    def corrupt(records: list[Record]) -> list[Record]:
        id_ = acknowledged(records)[0].attempt
        return altered(Invoke, lambda e: change(e, records) if e.attempt == id_ else e)(records)

    return corrupt


def first_event(**what: Any) -> Corrupt:
    return of_first(lambda e, _: replace(e, events=(replace(e.events[0], **what), *e.events[1:])))


def nowhere(ended: Ended) -> Corrupt:
    """A producer was told that its order is done, and nothing is there."""
    made = Invoke(attempt="x", producer="p", order="x", events=NOWHERE)
    return lambda records: [*records, made, Outcome(attempt="x", ended=ended)]


def ghost(records: list[Record]) -> list[Record]:
    """What is in the log comes from a transaction that failed."""
    victim = acknowledged(records)[2]
    return [replace(e, ended="fail") if e is victim else e for e in records]


def twice(attempt: Invoke, records: list[Record]) -> Invoke:
    """The attempt is one of the order that another one published."""
    other = acknowledged(records)[1].attempt
    (order,) = (e.order for e in records if isinstance(e, Invoke) and e.attempt == other)
    return replace(attempt, order=order)


IN_RECORDS: dict[str, tuple[str, Corrupt]] = {
    "an acknowledged order is nowhere": ("lost", nowhere("ok")),
    "an order said to be done is nowhere": ("lost", nowhere("already")),
    "a failed transaction is in the log": ("ghost", ghost),
    "a rolled-back savepoint is in the log": ("ghost", first_event(undone=True)),
    "an order was published by two attempts": ("published twice", of_first(twice)),
    "commit order is not offset order": (
        "out of order",
        of_first(lambda e, records: replace(e, at_ns=records[-1].at_ns)),
    ),
    "a payload is not what was sent": ("changed", first_event(digest="0")),
}

# A case: the name of the violation, the column that it is to name, and the statement that corrupts.
SEEN = (
    *("id", "key", "event_type", "payload", "headers", "host_id", "user_id", "transaction_id"),
    *("created_us", "cause", "correlation"),
)
ANOTHER = """'{"another": true}'"""
_STORED = {
    "headers": ANOTHER,
    "host_id": "'another'",
    "user_id": "null",
    "transaction_id": "gen_random_uuid()",
    "payload": ANOTHER,
    "cause": "'g/t/0@1'",
    "correlation": "gen_random_uuid()",
    "xid": "'9000000000000'",
}
_IN_A_LETTER = {
    **{name: value for name, value in _STORED.items() if name != "xid"},
    "key": "'another'",
    "event_type": "'another'",
    "created_ts": "created_ts + interval '1 us'",
}
CREATED = (
    "update gapless.outbox_message_t set created_ts = created_ts {} interval '{}' where id = {}"
)
A_LATER_EVENT = "(select max(id) from gapless.outbox_message_t where event_type like '%/1')"
IN_COLUMNS: dict[str, tuple[str, str, str]] = {
    **{
        f"{name} is stored otherwise": (
            "column changed",
            name,
            f"update gapless.outbox_message_t set {name} = {value} where id = {AN_EVENT}",
        )
        for name, value in _STORED.items()
    },
    **{
        f"{name} is given otherwise": (
            "column seen otherwise",
            name,
            f'update chaos.effect set seen = seen || \'{{"{name}": "another"}}\' where id = {AN_EFFECT}',
        )
        for name in SEEN
    },
    **{
        f"{name} of a letter is another": (
            "letter changed",
            name,
            f"update gapless.dead_letter_event set {name} = {value} {A_LETTER}",
        )
        for name, value in _IN_A_LETTER.items()
    },
    "it was inserted before it was sent": (
        "created at another time",
        "created_ts",
        CREATED.format("-", "1 hour", AN_EVENT),
    ),
    "it was inserted after its COMMIT": (
        "created at another time",
        "created_ts",
        CREATED.format("+", "1 hour", AN_EVENT),
    ),
    "it was inserted before the one before it": (
        "created out of order",
        "created_ts",
        CREATED.format("-", "0.5 s", A_LATER_EVENT),
    ),
}
