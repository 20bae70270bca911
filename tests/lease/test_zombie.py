"""An owner that was evicted, and lives on: who waits for its partition ends its session, or says why not."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from gapless.db.connect import connect
from gapless.lease.room import missing_grant
from gapless.worker.zombie import Zombie
from support.cast import Cast

MOVE = "update gapless.lease set target = %s where partition_id = 0"
OWNED_BY = "alter function gapless.break_zombie owner to {}"


def test_a_zombie_is_ended(cast: Cast) -> None:
    worker = _evicted(cast)
    zombie = Zombie(cast.session(), cast.partition())
    assert zombie.end()
    with pytest.raises(psycopg.OperationalError):
        worker.execute("select")
    assert not Zombie(cast.session(), cast.partition(1)).end(), "there is none"


def test_what_hinders_that_is_said_once(
    cast: Cast, role: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    dsn = role("gapless_consumer")
    me, owner = (conninfo_to_dict(each)["user"] for each in (dsn, role("gapless_consumer")))
    worker = _evicted(cast)
    cast.conn.execute(OWNED_BY.format(owner).encode())
    with connect(dsn, role="test") as session:
        zombie = Zombie(session, cast.partition())
        assert not zombie.end()
        assert not zombie.end()
        assert len(caplog.messages) == 1
        assert f'grant "{me}" to "{owner}"' in caplog.messages[0]
        cast.conn.execute(f"grant {me} to {owner}".encode())
        assert missing_grant(session) is None
        assert not Zombie(session, cast.partition()).end(), "it is a superuser's"
        assert "grant" not in caplog.messages[1]
    cast.conn.execute(OWNED_BY.format("current_user").encode())
    worker.execute("select")


def _evicted(cast: Cast) -> psycopg.Connection:
    """Return the session of a worker whose supervisor is no member any more."""
    member = cast.member("a")
    cast.conn.execute(MOVE, [member.member_id])
    worker, _ = cast.work(member)
    member.leave()
    return worker
