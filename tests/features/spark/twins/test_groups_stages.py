"""Stages of a sink, and whether a run of a pipeline is under way."""

import pytest
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from support.twins import Twins

ONE = "00000000-0000-0000-0000-0000000000aa"
TWO = "00000000-0000-0000-0000-0000000000bb"


def stage(token: str) -> str:
    return f"gapless.stage_{token.replace('-', '')}"


@pytest.fixture
def staged(twins: Twins) -> Twins:
    """Two stages, of two events each."""
    for token in (ONE, TWO):
        name = twins.value("select gapless.open_stage(%s)", token)
        assert f"gapless.{name}" == stage(token)
        twins.conn.execute(
            f"insert into gapless.{name} select gapless.topic_id('orders'), 'k', null, 'me', %s, n,"
            " '{\"n\": 1}', '{\"h\": 1}' from unnest('{staged 1,staged 2}'::text[]) n",
            [token],
        )
    return twins


def tables(twins: Twins) -> list[str]:
    query = "select 'gapless.' || relname from pg_class where relname like 'stage\\_%' and relkind = 'r' order by 1"
    return [name for (name,) in twins.conn.execute(query)]


def test_a_stage_is_published(staged: Twins) -> None:
    changed = staged.changes(f"select gapless.publish_stage('{ONE}', 2)")
    assert changed == {f"stage {ONE}": {"token": (ONE, None)}}
    assert tables(staged) == [stage(TWO)]
    query = (
        "select t.name, key, user_id, transaction_id::text, event_type, payload, headers"
        " from gapless.outbox_message_t join gapless.topic t using (topic_id)"
        " where event_type like 'staged%' order by id"
    )
    assert staged.conn.execute(query).fetchall() == [
        ("orders", "k", "me", ONE, f"staged {n}", {"n": 1}, {"h": 1}) for n in (1, 2)
    ]


@pytest.mark.parametrize("events", [1, 3])
def test_a_stage_that_is_not_whole(staged: Twins, events: int) -> None:
    state, text = staged.refused(f"select gapless.publish_stage('{ONE}', {events})")
    assert (state, text) == (
        "GL001",
        f"stage {ONE} has 2 events instead of {events}: the server has crashed since; run the batch again",
    )
    assert tables(staged) == [stage(ONE), stage(TWO)]


# The tokens, and from which age on; which of ONE, an hour old, and TWO, a minute old, are left
DROPPED: dict[str, tuple[str, str, list[str]]] = {
    "none": ("'{}'", "null", [ONE, TWO]),
    "one that is named": (f"'{{{ONE}}}'", "null", [TWO]),
    "the other": (f"'{{{TWO}}}'", "null", [ONE]),
    "what is old": ("'{}'", "interval '59 min'", [TWO]),
    "nothing is so old": ("'{}'", "interval '61 min'", [ONE, TWO]),
    "what is old, and another": (f"'{{{TWO}}}'", "interval '59 min'", []),
    "all": ("'{}'", "interval '1 s'", []),
}  # fmt: skip


@pytest.mark.parametrize("name", DROPPED)
def test_stages_that_nobody_takes(staged: Twins, name: str) -> None:
    tokens, older, left = DROPPED[name]
    staged.conn.execute(
        "update gapless.stage set created_ts = clock_timestamp() - case token when %s then interval '1 h'"
        " else interval '1 min' end",
        [ONE],
    )
    dropped = staged.value(f"select gapless.drop_stages({tokens}, {older})")
    assert dropped == 2 - len(left)
    assert tables(staged) == [stage(token) for token in left]
    found = staged.conn.execute("select token::text from gapless.stage order by 1").fetchall()
    assert [token for (token,) in found] == left


def test_whether_a_pipeline_runs(twins: Twins, module_dsn: str) -> None:
    """Its own lock, in this database, whatever its name comes to as a number."""
    elsewhere = make_conninfo(module_dsn, dbname="postgres")
    with connect(module_dsn, role="test") as here, connect(elsewhere, role="test") as there:
        for name in ("crm", "erp", "a", "b", "c"):
            number = twins.value("select hashtext(%s)", name)
            locks = {
                "another kind": (here, f"pg_advisory_lock(7427003, {number})"),
                "one number": (
                    here,
                    f"pg_advisory_lock((7427005::bigint << 32) | {number & 0xFFFFFFFF})",
                ),
                "another database": (there, f"pg_advisory_lock(7427005, {number})"),
                "this": (here, f"pg_advisory_lock(7427005, {number})"),
            }
            for what, (conn, lock) in locks.items():
                conn.execute(f"select {lock}")
                assert twins.value("select gapless.pipeline_runs(%s)", name) is (what == "this"), (
                    what
                )
                assert twins.value("select gapless.pipeline_runs('no other')") is False
                conn.execute("select pg_advisory_unlock_all()")
