"""The sum of sessions that a fleet takes, and the refusal of a server that admits fewer."""

import pytest
from psycopg import Connection

from gapless.errors import ConnectError
from gapless.lease.room import Own, own_sessions, require_room
from support.cast import Cast


def require(
    cast: Cast,
    total: int,
    *,
    capacity: int | None = None,
    per_worker: int = 1,
    own: Own | None = None,
) -> None:
    """Ask for room for the partitions of a topic that is still to be made."""
    require_room(
        cast.conn,
        [("g", "new")],
        capacity=capacity,
        partitions_per_worker=per_worker,
        total_partitions=total,
        own=own or Own(),
    )


def admitted(conn: Connection) -> int:
    row = conn.execute(
        "select max_connections - reserved from gapless.sessions_needed(null, 1, '{}', '{}', 1)"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_there_is_room_up_to_the_last_session(cast: Cast) -> None:
    most = admitted(cast.conn) - 2
    for own, workers in (
        (None, most), (Own(3), most - 1), (Own(queue_workers=3), most - 3)
    ):  # fmt: skip
        require(cast, workers, own=own)
        with pytest.raises(ConnectError):
            require(cast, workers + 1, own=own)
    require(cast, 2 * most, per_worker=2)
    require(cast, 2 * most, capacity=most)


def test_what_is_measured_takes_a_session_more() -> None:
    assert (own_sessions(is_measured=False), own_sessions(is_measured=True)) == (2, 3)


def test_one_of_each_is_told_in_the_singular(cast: Cast) -> None:
    with pytest.raises(
        ConnectError, match=r"^1 partition takes 1 worker .* 1 supervisor takes 4000,"
    ):
        require(cast, 1, own=Own(4000))


def test_supervisors_that_are_there_are_in_the_sum(cast: Cast) -> None:
    cast.member("a")
    with pytest.raises(ConnectError, match=r"^4004 partitions .* 2 supervisors take 4,"):
        require(cast, 4000)


def test_the_refusal_spells_the_sum_out(cast: Cast) -> None:
    with pytest.raises(ConnectError) as refusal:
        require_room(
            cast.conn,
            [("g", "new")],
            capacity=None,
            partitions_per_worker=1,
            total_partitions=4000,
        )
    said = str(refusal.value)
    assert "4000 partitions take 4000 workers" in said
    assert "4000 + 2 = 4002 sessions" in said
    assert "max_connections" in said
    assert "partitionsPerWorker" in said
