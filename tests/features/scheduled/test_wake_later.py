"""Who schedules wakes a sequencer that sleeps: it does not know until when it may."""

from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.listen import heard, listen
from gapless.features.scheduled.later import Promoter
from gapless.log.publish import publish
from gapless.log.sequence import WAKE_CHANNEL, try_sleep, wake_up
from gapless.log.topics import Topic


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


def test_a_rest_ends_when_the_next_is_due(conn: Connection, topic: Topic) -> None:
    promoter = Promoter()
    promoter.promote(conn)
    assert promoter.rest_s(3600) == 3600  # nothing waits
    publish(conn, "outbox", 1, deliver_in=600)
    promoter.promote(conn)
    assert promoter.rest_s(3600) <= 600
    assert promoter.rest_s(0.004) == 0.004  # nothing is due before its end
