"""Units that are forgotten, what keeps an event in order, and which units may be committed; among twins."""

import psycopg
import pytest

from gapless.db.connect import connect
from gapless.db.queries import sql_root
from support.letters import HERE, Letters, digest

UUID = "10000000-2000-4000-8000-00000000000{}"


@pytest.mark.parametrize(("from_offset", "forgotten"), [(3, 4), (4, 3), (5, 2), (9, 0)])
def test_what_will_be_met_again_is_forgotten(
    letters: Letters, from_offset: int, forgotten: int
) -> None:
    """Whatever its state, with its keys, and with calls that were not heard of yet."""
    letters.keys({1: "a", 3: "b", 4: "ac", 8: "a"})
    letters.run(
        "insert into gapless.delivery (group_id, topic_id, partition_id, first_offset, last_offset, attempts)"
        " select group_id, topic_id, partition_id, n, n, 1 from gapless.consumer_offsets, generate_series(1, 8) n"
    )
    call = f"select gapless.forget_letters('billing', {{orders}}, 1, {from_offset})"
    answer, changed = letters.changes(call)
    assert answer == forgotten
    units = [n for n in (1, 3, 4, 7, 8) if n >= from_offset]
    events = [n for n in range(1, 9) if n >= from_offset and not (n in (5, 6) and from_offset > 4)]
    calls = [n for n in range(1, 9) if n >= from_offset]
    keys = [f"{key} {n}" for key, n in ("a8", "a4", "b3", "c4") if int(n) >= from_offset]
    assert changed.keys() == {
        "guard_keys billing orders",
        *(f"dead_letter {HERE} {n}" for n in units),
        *(f"dead_letter_event {HERE} {n}" for n in events),
        *(f"delivery {HERE} {n}" for n in calls),
        *(f"dead_letter_key {HERE} {key}" for key in keys),
    }


def test_what_keeps_an_event_in_order(letters: Letters) -> None:
    """Its key; its host, in one spelling; its transaction, named or not."""
    host = "ABCDEF00-0000-4000-8000-000000000001"
    rows = letters.rows(
        "with made as (insert into gapless.outbox_message_t (topic_id, key, host_id, transaction_id, payload) values"
        f" ({{orders}}, 'k', '{host}', null, '1'), ({{orders}}, null, '{host}', '{UUID.format(1)}', '1'),"
        f" ({{orders}}, null, null, '{UUID.format(1)}', '1'), ({{orders}}, null, null, null, '1') returning *)"
        " select gapless.key_digest(m::gapless.outbox_message_t) from made m order by m.id"
    )
    xid = letters.value("select pg_current_xact_id()::text")
    ordered = ["k", host.lower(), UUID.format(1), xid]
    assert [row[0] for row in rows] == [digest(each) for each in ordered]


AT_COMMIT = "set constraints all immediate"
CLAIMED = "update gapless.dead_letter set state = 'redriven', next_attempt_ts = null{} where {{here}} and first_offset = {}"
FINISHED = "select set_config('gapless.finished', {}, true)"


@pytest.fixture(params=["as it is", "made anew"])
def guarded(request: pytest.FixtureRequest, letters: Letters) -> Letters:
    """The trigger is there, or is made where it was not, though another table has one of its name."""
    if request.param == "made anew":
        file = sql_root() / "consume/functions/aside/refuse_early_letter.sql"
        letters.conn.execute(
            "drop trigger refuse_early_letter on gapless.dead_letter;"
            " create trigger refuse_early_letter after insert on gapless.dead_letter_event"
            " for each row execute function gapless.refuse_early_letter()"
        )
        for _ in range(2):
            letters.conn.execute(file.read_text())
    return letters


@pytest.mark.parametrize("finished", ["''", "'1'", None])
def test_a_unit_that_was_claimed_and_not_finished_is_not_committed(
    guarded: Letters, finished: str | None
) -> None:
    if finished:
        guarded.run(FINISHED.format(finished))
    guarded.run(CLAIMED.format("", 3))
    code, why = guarded.twins.refused(AT_COMMIT)
    assert code == "GL001"
    assert "must not COMMIT" in why


def test_a_session_that_never_finished_anything_commits_none(module_dsn: str) -> None:
    with (
        connect(module_dsn, role="fresh") as conn,
        pytest.raises(psycopg.Error, match="must not COMMIT"),
        conn.transaction(force_rollback=True),
    ):
        conn.execute(
            "update gapless.dead_letter set state = 'redriven', next_attempt_ts = null where first_offset = 3"
        )
        conn.execute(AT_COMMIT)


@pytest.mark.parametrize(
    "before",
    [
        FINISHED.format("pg_current_xact_id()::text") + ";" + CLAIMED.format("", 3),
        CLAIMED.format(", token = gen_random_uuid()", 3),
        CLAIMED.format("", 4),
        CLAIMED.format("", 1),
        "update gapless.dead_letter set state = 'dead', next_attempt_ts = null where state = 'waiting'",
        "update gapless.dead_letter set attempts = 9 where {here}",
    ],
    ids=[
        "finished",
        "of a client of a queue",
        "was parked",
        "was dead",
        "is dead",
        "state is the same",
    ],
)
def test_what_else_may_be_committed(guarded: Letters, before: str) -> None:
    guarded.run(before)
    guarded.run(AT_COMMIT)
