"""Waiting for an answer that is long in coming, and what arrives along with one."""

import signal
from threading import Timer
from time import monotonic
from types import FrameType

import psycopg
import pytest

from gapless.db.listen import heard, listen, readable
from gapless.db.wire import fetch_all
from support.world import Group, World

SOON_S = 0.3
TIMEOUT_S = 20


@pytest.fixture
def woken(world: World, group: Group) -> Group:
    """A worker that has been notified and has not heard it yet: its socket can be read."""
    listen(group.conn, "gossip")
    world.conn.execute("notify gossip")
    assert readable(20, group.conn.fileno())
    group.conn.execute(f"set statement_timeout = '{TIMEOUT_S}s'")
    world.conn.execute("notify gossip")
    assert readable(20, group.conn.fileno())
    world.units(1)
    return group


class TestWait:
    @pytest.mark.long
    def test_lets_other_threads_go_on(self, world: World, woken: Group) -> None:
        """Here one of them ends what is waited for; calls at least once are threads, too."""
        with psycopg.connect(world.dsn) as other:
            other.execute("select from gapless.consumer_offsets for update")
            ends = Timer(SOON_S, other.rollback)
            ends.start()
            woken.drain()
            ends.join()
        woken.assert_all_once(1)

    @pytest.mark.long
    def test_lets_signals_through(self, world: World, woken: Group) -> None:
        """And what interrupted it is not answered to whoever asks next."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            raise KeyboardInterrupt

        former = signal.signal(signal.SIGALRM, interrupt)
        began_s = monotonic()
        try:
            with psycopg.connect(world.dsn) as other:
                other.execute("select from gapless.consumer_offsets for update")
                signal.setitimer(signal.ITIMER_REAL, SOON_S)
                with pytest.raises(KeyboardInterrupt):
                    woken.step()
        finally:
            signal.signal(signal.SIGALRM, former)
        assert woken.conn.closed
        assert monotonic() - began_s < TIMEOUT_S, "it was not the server that ended the wait"


def test_a_notification_that_comes_with_an_answer_is_heard_at_once(
    world: World, group: Group
) -> None:
    """libpq has taken it off the socket: who looks there alone would sleep until the next one."""
    listen(group.conn, "gossip")
    world.conn.execute("notify gossip, 'psst'")
    assert readable(20, group.conn.fileno())
    fetch_all(group.conn, "connect", "backend_pid")
    assert heard(group.conn) == ["psst"]
