"""The sum of sessions that a fleet takes, and the refusal of a server that admits fewer."""

import pytest
from psycopg import Connection

from gapless.errors import ConnectError
from gapless.lease.room import Own, own_sessions, require_room
from support.cast import Cast
from support.fleet import until

ME = (("g", "outbox"),)


def needed(
    conn: Connection,
    capacity: int | None = None,
    per_worker: int = 1,
    pairs: tuple[tuple[str, str], ...] = ME,
    total: int = 8,
) -> tuple[int, int, int]:
    """Supervisors, partitions, workers; `outbox` has 4 partitions."""
    row = conn.execute(
        "select supervisors, partitions, workers from gapless.sessions_needed(%s, %s, %s, %s, %s)",
        [capacity, per_worker, [g for g, _ in pairs], [t for _, t in pairs], total],
    ).fetchone()
    assert row is not None
    return row


def test_alone(cast: Cast) -> None:
    assert needed(cast.conn) == (1, 4, 4)
    assert needed(cast.conn, per_worker=3) == (1, 4, 2)
    assert needed(cast.conn, capacity=3) == (1, 3, 3)
    assert needed(cast.conn, capacity=0) == (1, 0, 0)
    assert needed(cast.conn, pairs=(*ME, ("h", "outbox"))) == (1, 8, 8)


def test_topics_that_are_still_to_be_made_count(cast: Cast) -> None:
    assert needed(cast.conn, pairs=(("g", "new"),), total=64) == (1, 64, 64)
    assert needed(cast.conn, pairs=(("g", "new"),), total=64, per_worker=16) == (1, 64, 4)


def test_with_others_the_partitions_are_shared(cast: Cast) -> None:
    cast.member("a")
    assert needed(cast.conn) == (2, 4, 4)
    assert needed(cast.conn, per_worker=4) == (2, 4, 3), "two of a, and one of two partitions"
    cast.member("b", groups=("h",))
    assert needed(cast.conn) == (3, 8, 8), "groups of others take sessions too"


def test_who_is_dead_takes_none(cast: Cast) -> None:
    cast.member("a", groups=("h",))._conn.close()
    until(lambda: needed(cast.conn)[1:] == (4, 4), "its session is gone")


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
