"""claim_latest() while another session changes its place: nothing is claimed of what it does not know."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.compacted import keep
from support.twins import SEEKS, Twins
from support.waiting import in_thread, until_waiting

TOKEN = "00000000-0000-4000-8000-000000000001"
CLAIM = (
    "select outcome, first_offset, last_offset, kept_offsets"
    " from gapless.claim_latest('billing', %s, 1, 5, %s, 100, 100, 100) where outcome is not null"
)
START = "next_offset = 3, latest_upto = 9, epoch = 5, token = %s, filter_no = 0"
WHERE = (
    "select next_offset, latest_upto, epoch, filter_no from gapless.consumer_offsets"
    " where group_id = 'billing' and topic_id = %s and partition_id = 1"
)


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """One event is kept of this place, which has an owner."""
    shared.conn.execute(
        "update gapless.outbox_message_t o set key = 'k' || s.partition_id"
        " from gapless.log_segment s where o.id = any (s.message_ids)"
    )
    keep(shared, f"topic_id = {shared.topic_ids['orders']} and partition_id = 1", 5)
    return shared


@pytest.fixture
def begun(settled: Twins) -> Iterator[Twins]:
    """Everywhere as it was at the begin, also after a COMMIT."""
    change(settled.conn, START, "true", TOKEN)
    yield settled
    change(settled.conn, START, "true", TOKEN)


def change(conn: Connection[Any], what: str, where: str, *params: object) -> None:
    with conn.transaction():
        conn.execute(SEEKS)
        conn.execute(f"update gapless.consumer_offsets set {what} where {where}".encode(), params)


def claim(twins: Twins) -> list[Any]:
    """Claim, in a transaction that is taken back."""
    with twins.undone():
        return twins.conn.execute(CLAIM, [twins.topic_ids["orders"], TOKEN]).fetchall()


@pytest.mark.parametrize(
    "changed",
    [
        "epoch = 6", "token = gen_random_uuid()", "next_offset = 4", "latest_upto = 8",
        "filter_no = 7", "token = null", "latest_upto = null",
    ],
)  # fmt: skip
def test_who_was_overtaken_asks_again(begun: Twins, module_dsn: str, changed: str) -> None:
    with connect(module_dsn, role="test") as other:
        other.execute("begin")
        try:
            other.execute(SEEKS)
            other.execute(
                f"update gapless.consumer_offsets set {changed} where {begun.here()}".encode()
            )
            with in_thread(lambda: claim(begun)) as done:
                until_waiting(other, "transactionid")
                other.execute("commit")
                assert done.result() == [("filtered", 3, None, None)]
        finally:
            other.execute("rollback")


def test_who_was_not_claims_it(begun: Twins, module_dsn: str) -> None:
    """Of another place it may be what it will; and what a claim opens is over with its transaction."""
    topic = begun.topic_ids["orders"]
    change(begun.conn, "epoch = 6, filter_no = 7, latest_upto = 8", f"not ({begun.here()})")
    assert claim(begun) == [("claimed", 3, 8, [5]), ("claimed", 3, 8, None)]
    with connect(module_dsn, role="test") as other:
        with other.transaction():
            other.execute(SEEKS)
            other.execute(CLAIM, [topic, TOKEN])
        assert other.execute(WHERE, [topic]).fetchall() == [(9, 9, 5, 0)]
        assert other.execute("select current_setting('gapless.chain', true)").fetchone() == ("",)
