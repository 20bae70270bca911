"""gapless.sequence_events(): how a run is planned, when it is made for the floor, and what comes while it waits."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from support.blocked import until_blocked
from support.sequenced import SequencedLog

NEWEST = "update gapless.sequencer set {} where run = (select max(run) from gapless.sequencer)"
XID = "select pg_current_xact_id()::text"
MODE = "current_setting('plan_cache_mode')"
STRAY = "insert into gapless.unrouted (topic_id, events, first_id, last_id) values (%s, 1, 1, 1)"
_ids = count(60_001)  # of topics that nobody has made

# What the newest run remembers, {newest} being the id that comes next; how the run after it is planned.
PLANNED = {
    "nothing": ("floor_id = {newest} - 2", "force_generic_plan"),
    "a floor that is far": ("floor_id = {newest} - 2000", "force_custom_plan"),
    "a floor that is nearly as far": ("floor_id = {newest} - 1999", "force_generic_plan"),
    "stragglers": ("floor_id = {newest} - 2, stragglers = '{{3}}'", "force_custom_plan"),
    "another cluster": ("floor_id = {newest} - 2, system_identifier = 1", "force_custom_plan"),
}


@pytest.fixture
def planned(still: SequencedLog) -> Iterator[SequencedLog]:
    """Each run says in its session how it was planned."""
    still.conn.execute(
        "create function public.note() returns trigger language plpgsql as $$begin"
        f" perform set_config('test.mode', {MODE}, false); return new; end$$;"
        "create trigger note before insert on gapless.sequencer for each row execute function public.note()"
    )
    yield still
    still.conn.execute("drop function public.note() cascade; set test.mode = ''")


@pytest.mark.parametrize("name", PLANNED)
def test_how_a_run_is_planned(planned: SequencedLog, name: str) -> None:
    """For what it finds where that may be much; the session keeps its own way."""
    log = planned
    words, mode = PLANNED[name]
    newest = log.allocated() + 5000
    log.conn.execute("select setval('gapless.outbox_message_id_seq', %s, false)", [newest])
    assert log.publish(log.passing) == newest
    log.conn.execute(NEWEST.format(words.format(newest=newest)).encode())
    assert sequence(log.conn) == 1
    assert log.row(f"select current_setting('test.mode'), {MODE}") == (mode, "auto")
    log.conn.execute(NEWEST.format("stragglers = '{}'").encode())


def test_a_run_is_made_for_the_floor_alone(still: SequencedLog) -> None:
    """Once the chunk before it is complete; and not again."""
    log = still
    log.conn.execute("select gapless.create_chunks()")
    (end,) = log.row("select min(upto) - 1 from gapless.chunk where upto > %s + 2", log.allocated())
    log.conn.execute("select setval('gapless.outbox_message_id_seq', %s, false)", [end])
    assert log.publish(log.passing) == end
    assert sequence(log.conn) == 1
    before = log.state()
    assert before.floor_id < end
    assert [sequence(log.conn) for _ in range(3)] == [0, 0, 0]
    after = log.state()
    assert (after.run, after.floor_id, after.events) == (before.run + 1, end, 0)


def test_who_has_the_very_xid_of_the_floor_has_no_id_below_it(still: SequencedLog) -> None:
    log = still
    with log.open():
        ((xid,),) = log.other.execute(XID).fetchall()
        log.conn.execute(NEWEST.format(f"next_floor_xid = '{xid}'").encode())
        log.publish(log.passing)
        assert sequence(log.conn) == 1
        assert log.state().next_floor_id == log.allocated()


def test_of_a_straggler_what_is_above_the_floor_was_seen(still: SequencedLog) -> None:
    """It has no offset, for its topic is not made."""
    log = still
    event = log.publish(next(_ids))
    assert sequence(log.conn) == 0
    words = (
        "floor_id = {0} - 1, next_floor_xid = '9000000000000',"
        " stragglers = array(select xid from gapless.outbox_message_t where id = {0})"
    )
    log.conn.execute(NEWEST.format(words.format(event)).encode())
    before = log.state()
    assert sequence(log.conn) == 0
    assert log.state() == before
    log.conn.execute(NEWEST.format("stragglers = '{}', next_floor_xid = '3'").encode())


def test_where_no_run_has_met_a_stray_none_is_looked_for(still: SequencedLog) -> None:
    log = still
    log.conn.execute(STRAY, [log.passing])
    log.publish(log.passing)
    assert sequence(log.conn) == 1
    assert log.unrouted() == [(log.passing, 1, 1, 1)]


def test_what_is_committed_while_a_restored_log_is_prepared(
    still: SequencedLog, module_dsn: str
) -> None:
    """By one who began before, with an id below the floor, and by one who came then: each once."""
    log, topic_id = still, still.topic(1)
    log.conn.execute(STRAY, [next(_ids)])
    log.conn.execute(NEWEST.format("system_identifier = 1").encode())
    with ThreadPoolExecutor() as pool, connect(module_dsn, role="third") as third:
        with log.open():
            low = log.publish(topic_id, conn=log.other)
            log.other.execute("select from gapless.unrouted for update")
            run = pool.submit(sequence, log.conn)
            until_blocked(third, log.conn, run)
            high = log.publish(topic_id, conn=third)
        assert run.result() == 2
    assert low < log.state().floor_id < high
    assert [row[3] for row in log.segments(topic_id)] == [[low, high]]
