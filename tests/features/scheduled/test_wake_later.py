"""Who schedules wakes a sequencer that sleeps: it does not know until when it may."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.listen import heard, listen
from gapless.features.scheduled import later
from gapless.features.scheduled.later import Promoter, cancel
from gapless.log.publish import publish
from gapless.log.sequence import WAKE_CHANNEL, try_sleep, wake_up
from gapless.log.topics import Topic
from support.clock import stop_at


def test_it_wakes_a_sequencer_that_sleeps(dsn: str, conn: Connection, topic: Topic) -> None:
    with connect(dsn, role="sequencer") as sequencer:
        listen(sequencer, WAKE_CHANNEL)
        publish(conn, "outbox", 1, deliver_in=3600)
        sequencer.execute("select 1")
        assert len(heard(sequencer)) == 0
        assert try_sleep(sequencer)
        publish(conn, "outbox", 1, deliver_in=3600)
        sequencer.execute("select 1")
        assert len(heard(sequencer)) == 1
        wake_up(sequencer)


NOW = datetime(2100, 1, 1, 12, tzinfo=UTC)
# When events are due, in seconds from now: how many are promoted; how long a sequencer may sleep then, and rest.
LOOKS: dict[str, tuple[list[float], int, float, float]] = {
    "nothing": ([], 0, 60, 60),
    "one later": ([5], 0, 5, 5),
    "one soon": ([0.002], 0, 0.002, 0.004),
    "one now, one later": ([0, 7], 1, 7, 7),
    "more than a turn takes": ([-1] * 1001, 1000, 0, 0.004),
}


@pytest.mark.parametrize("name", LOOKS)
def test_when_the_next_look_is_due(
    conn: Connection, topic: Topic, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    dues, promoted, sleep_s, rest_s = LOOKS[name]
    now_s = [1000.0]
    monkeypatch.setattr(later, "monotonic", lambda: now_s[0])
    for due_s in dues:
        publish(conn, "outbox", 1, deliver_at=NOW + timedelta(seconds=due_s))
    stop_at(conn, NOW.isoformat())
    promoter = Promoter()
    assert promoter.is_due(), "the first look is due at once"
    assert promoter.promote(conn) == promoted
    assert promoter.wait_s(60) == pytest.approx(sleep_s, abs=1e-6)
    assert promoter.rest_s(60) == pytest.approx(rest_s, abs=1e-6)
    assert promoter.is_due() is (sleep_s == 0)
    now_s[0] += 0.01
    assert promoter.is_due(), "awake, it looks often"


def test_what_an_open_cancel_holds_is_looked_at_in_rounds(
    conn: Connection, topic: Topic, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others come at once; an event that a rollback lets go comes in a round: nothing tells of it (I11)."""
    now_s = [1000.0]
    monkeypatch.setattr(later, "monotonic", lambda: now_s[0])
    held = publish(conn, "outbox", 1, deliver_at=NOW - timedelta(seconds=5))
    stop_at(conn, NOW.isoformat())
    promoter = Promoter()

    def look() -> int:
        """Take a look when it is due, if that is within a second."""
        now_s[0] += (wait_s := promoter.wait_s(60))
        assert wait_s < 1
        return promoter.promote(conn)

    with connect(dsn, role="test") as other:
        other.execute("begin")
        assert cancel(other, held.scheduled_ids[0])
        assert promoter.promote(conn) == 0
        assert promoter.holds
        for _ in range(5):
            publish(conn, "outbox", 1, deliver_at=NOW - timedelta(seconds=1))
            assert [look() for _ in range(4)].count(1) == 1
            assert promoter.holds
        other.execute("rollback")
    looks = [look()]
    while promoter.wait_s(60) < 60:
        looks.append(look())
        assert len(looks) < 12, "it looks again and again"
    assert (sum(looks), promoter.holds) == (1, False)
