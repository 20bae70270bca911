"""The metrics of compacted topics: what a scrape finds of them."""

from __future__ import annotations

from psycopg import Connection

from gapless.features.compaction.latest import compact, set_compaction
from gapless.features.metrics.look import Standstill, take_look
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic


def test_compacted_topics(conn: Connection) -> None:
    ensure_topic(conn, "orders", partitions=1)
    prices = ensure_topic(conn, "prices", partitions=2)
    names = [f"gapless_compaction_{what}" for what in ("lag_events", "standstill_seconds", "keys")]

    def found() -> list[float | None]:
        every = take_look(conn, Standstill()).measured
        assert {label for name in names for (label,) in every[name]} <= {"prices"}
        return [every[name].get((prices.name,)) for name in names]

    assert found() == [None] * 3, "none is"
    set_compaction(conn, "prices", compact=True)
    assert found() == [0, 0, 0]
    for key in ("tea", "tea", "milk"):
        publish(conn, "prices", 1, key=key)
    sequence(conn)
    conn.execute("update gapless.log_segment set sequenced_ts = sequenced_ts - interval '1 hour'")
    lag, stands_s, keys = found()
    assert (lag, keys) == (3, 0)
    assert isinstance(stands_s, float)
    assert 3600 <= stands_s < 3700, "nobody compacts"
    while compact(conn):
        pass
    assert found() == [0, 0, 2]
    (size,) = take_look(conn, Standstill()).measured["gapless_compaction_bytes"].values()
    assert isinstance(size, int)
    assert size > 0
    set_compaction(conn, "prices", compact=False)
    assert found() == [None] * 3, "a topic that is being removed has no figures"
