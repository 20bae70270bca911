"""The checker knows the policies: a good history passes, each kind of a corrupted one is found by name.

The good history is a real one: that of chaos.policy_play.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg import Connection

from chaos.checked import Run, played
from chaos.checker import check, report
from chaos.corruptions import SEEN
from chaos.history import Handling, select
from chaos.policy_corruptions import (
    CALL_PASSED,
    CALL_SEEN,
    CALLS_CROSSED,
    IN_RECORDS,
    IN_TABLES,
)
from chaos.policy_play import Play

# Where the first event of each order is; for the corruptions.
_TOLD = """
create table chaos.told as
select b.order_key, o.key, o.event_type as tag,
  coalesce(o.transaction_id, gapless.transaction_uuid(o.xid)) as transaction_id,
  s.partition_id, s.base_offset + u.n - 1 as first_offset
from chaos.business b
join gapless.outbox_message_t o on o.event_type = b.attempt || '/0'
join gapless.log_segment s on o.id = any (s.message_ids)
cross join lateral unnest(s.message_ids) with ordinality u (id, n)
where u.id = o.id
"""


@pytest.fixture(scope="module")
def run(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("history")

    def play(conn: Connection) -> None:
        with closing(Play(module_dsn, conn, folder)) as made:
            made.play()
        conn.execute(_TOLD)

    with played(module_dsn, folder, play) as run:
        yield run


@pytest.mark.long
def test_a_good_history_passes(run: Run) -> None:
    found = check(run.conn, run.folder)
    assert not found, report(found)
    states = run.conn.execute(
        "select group_id, state, count(*) from gapless.dead_letter group by 1, 2 order by 1, 2"
    ).fetchall()
    assert states == [
        ("audit", "dead", 2),
        ("billing", "dead", 2),
        ("billing", "redriven", 1),
        ("ledger", "dead", 1),
        ("mail", "dead", 1),
        ("mail", "discarded", 1),
        ("mail", "parked", 1),
        ("stock", "dead", 1),
        ("stock", "discarded", 1),
        ("stock", "parked", 1),
    ]
    ways = {each.how for each in select(run.records, Handling)} - {""}
    assert ways == {"ok", "raised", "retry", "dead", "skip", "trouble"}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", IN_TABLES)
def test_a_corrupted_table_is_found(run: Run, name: str) -> None:
    run.found(name, *IN_TABLES[name])


@pytest.mark.parametrize("column", SEEN)
def test_a_column_that_a_call_was_given_otherwise_is_found(run: Run, column: str) -> None:
    told = run.found("column seen otherwise", CALL_SEEN.format(column=column))
    assert any(each.text.startswith(f"{column}: ") for each in told)


def test_calls_that_cross_are_found(run: Run) -> None:
    run.found("key overtaken", *CALLS_CROSSED)
    run.found("held key passed", *CALL_PASSED)


@pytest.mark.parametrize("case", IN_RECORDS)
def test_a_corrupted_record_is_found(run: Run, case: str) -> None:
    name, corrupt = IN_RECORDS[case]
    run.found_in(name, corrupt(run.records))
