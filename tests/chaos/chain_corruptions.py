"""Corrupted histories of a chain, by the name of the violation that they are.

The good history is that of test_chain_checker.py.
"""

BELOW = "topic_id in (select topic_id from gapless.topic where name in ('payments', 'parcels'))"
# Two events of a unit of `payments`, one after the other, and the unit behind it in the segment.
A_UNIT = (
    "(select s.ctid as at, u.n, s.message_ids[u.n] as id, s.message_ids[u.n + 1] as next_id"
    " from gapless.log_segment s join gapless.topic t using (topic_id)"
    " cross join lateral generate_series(1, cardinality(s.message_ids) - 1) u (n)"
    " join gapless.outbox_message_t o on o.id = s.message_ids[u.n]"
    " join gapless.outbox_message_t p on p.id = s.message_ids[u.n + 1]"
    " where t.name = 'payments' and {} order by 1, 2 limit 1)"
)
TWO_OF_ONE = A_UNIT.format("o.cause = p.cause")
TWO_OF_TWO = A_UNIT.format("o.cause <> p.cause")
OTHERS = A_UNIT.format("o.cause <> p.cause and o.correlation <> p.correlation")
AN_EVENT = f"(select x.id from {TWO_OF_ONE} x)"


def ends_unit(which: str, bit: int) -> str:
    """Return a statement: behind the first event a unit ends, or it does not."""
    return (
        f"update gapless.log_segment s set unit_ends = set_bit(s.unit_ends, x.n - 1, {bit})"
        f" from {which} x where s.ctid = x.at"
    )


def event(what: str, which: str = AN_EVENT) -> str:
    """Return a statement: an event that a handler published is another one."""
    return f"update gapless.outbox_message_t set {what} where id = {which}"


def of_its_neighbour(column: str, which: str) -> str:
    """Return a statement: an event has what the one behind it has."""
    return (
        f"update gapless.outbox_message_t o set {column} = p.{column}"
        f" from {which} x join gapless.outbox_message_t p on p.id = x.next_id where o.id = x.id"
    )


HANDLED_BELOW = "e.group_id = 'pack' and e.position = 1"
# A case: the name of the violation, and the statements that corrupt; each must change something.
IN_TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a row is gone": (
        "chain lost",
        (f"delete from gapless.outbox_message_t where id = {AN_EVENT}",),
    ),
    "it never got an offset": (
        "not sequenced",
        (
            (
                f"delete from gapless.log_segment where {BELOW} and (topic_id, partition_id, base_offset)"
                " = (select topic_id, partition_id, max(base_offset) from gapless.log_segment"
                f" where {BELOW} group by 1, 2 limit 1)"
            ),
        ),
    ),
    "an event is there twice": (
        "chain doubled",
        (of_its_neighbour("event_type", TWO_OF_ONE),),
    ),
    "an event has two offsets": (
        "chain doubled",
        (
            (
                "update gapless.log_segment s set message_ids[x.n] = x.next_id"
                f" from {TWO_OF_ONE} x where s.ctid = x.at"
            ),
        ),
    ),
    "nobody published it": ("chain ghost", (event("event_type = 'x'"),)),
    "a savepoint was not rolled back": (
        "chain ghost",
        (event("event_type = event_type || '>undone'"),),
    ),
    "its unit was not handled": (
        "chain ghost",
        (
            (
                "delete from chaos.effect e where e.group_id = 'pay' and exists (select"
                " from gapless.outbox_message_t o where o.event_type = e.tag || '>0')"
            ),
        ),
    ),
    "another payload": ("chain changed", (event("payload = '{}'"),)),
    "two units in one": ("chain mixed", (ends_unit(TWO_OF_TWO, 0),)),
    "a unit in two": ("chain split", (ends_unit(TWO_OF_ONE, 1),)),
    "events change places": (
        "chain out of order",
        (
            (
                "update gapless.log_segment s set message_ids[x.n] = x.next_id,"
                f" message_ids[x.n + 1] = x.id from {TWO_OF_ONE} x where s.ctid = x.at"
            ),
        ),
    ),
    "units change places": (
        "chain overtaken",
        (
            (
                "create temporary table turned on commit drop as select s.ctid as at, array_agg(u.id"
                " order by u.n desc) as message_ids from gapless.log_segment s join gapless.topic t"
                " using (topic_id) cross join unnest(s.message_ids) with ordinality u (id, n)"
                " where t.name = 'payments' group by s.ctid"
            ),
            (
                "update gapless.log_segment s set message_ids = t.message_ids from turned t"
                " where s.ctid = t.at"
            ),
        ),
    ),
    "a part of a unit was handled by another transaction": (
        "chain apart",
        (
            (
                "update chaos.effect set xid = '9000000000000' where id ="
                f" (select max(e.id) from chaos.effect e where {HANDLED_BELOW})"
            ),
        ),
    ),
    "a part of a unit was not handled": (
        "chain apart",
        (f"delete from chaos.effect e where {HANDLED_BELOW}",),
    ),
    "a part of a unit was given to another call": (
        "chain apart",
        (f"update chaos.effect e set position = 0 where {HANDLED_BELOW}",),
    ),
    "it came of another unit": ("wrong cause", (of_its_neighbour("cause", TWO_OF_TWO),)),
    "it came of nothing": ("wrong cause", (event("cause = null"),)),
    "it is of another chain": ("wrong correlation", (of_its_neighbour("correlation", OTHERS),)),
    "another transaction_id": (
        "wrong transaction",
        (event("transaction_id = gen_random_uuid()"),),
    ),
}
