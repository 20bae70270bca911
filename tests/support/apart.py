"""Twins in which every other partition has other offsets, segments and times than this one."""

from support.twins import Twins

ELSEWHERE = "not (topic_id = {topic} and partition_id = 1)"
DROPPED = "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)"


def run(twins: Twins, text: str) -> None:
    topic = twins.topic_ids["orders"]
    twins.conn.execute(text.format(topic=topic, elsewhere=ELSEWHERE.format(topic=topic)).encode())


def ids(twins: Twins) -> dict[int, int]:
    return dict(
        twins.conn.execute("select c_offset, message_id from gapless.read('orders', 1)").fetchall()
    )


def move(twins: Twins) -> Twins:
    """Raise every offset elsewhere by one, and drop some."""
    run(
        twins,
        "update gapless.log_segment set base_offset = base_offset + 1, last_offset = last_offset + 1 where {elsewhere}",
    )
    run(twins, f"{DROPPED} select topic_id, p, 3, '-infinity' from gapless.topic, generate_series(0, 4) p"
               " where not (topic_id = {topic} and p in (1, 3))")  # fmt: skip
    return twins


def date(moved: Twins) -> Twins:
    """Date segments a day apart, events an hour apart; elsewhere a week earlier."""
    run(moved, "update gapless.log_segment set sequenced_ts = timestamptz '2020-01-02Z'"
               " + (base_offset / 3) * interval '1 day' - case when {elsewhere} then interval '7 d' else '0' end")  # fmt: skip
    run(moved, "update gapless.outbox_message_t o set created_ts = s.sequenced_ts - (3 - u.n) * interval '1 hour'"
               " from gapless.log_segment s, unnest(s.message_ids) with ordinality u (id, n) where u.id = o.id")  # fmt: skip
    return moved
