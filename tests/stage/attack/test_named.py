"""What stands in the way is named in the log, once."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stage.worker.fleet import Fleet, until

pytest_plugins = ["stage.worker.conftest"]


@pytest.mark.long
def test_events_without_a_topic(role: Callable[..., str], fleet: Fleet) -> None:
    """The sequencer says so, at its start and with the chunks it makes."""
    with psycopg.connect(role("gapless_producer"), autocommit=True) as producer:
        producer.execute(
            "insert into gapless.outbox_message_t (topic_id, payload) values (77, '1')"
        )
    fleet.value("select gapless.sequence_events()")
    a = fleet.start("a")
    until(lambda: a.logged("1 events are of topic ids that nobody made"), "said", within=a.log)


def test_a_squatter_that_cannot_be_ended(role: Callable[..., str], fleet: Fleet) -> None:
    """The schema's owner is no superuser here, and may not end a superuser's session."""
    dsn = role("gapless_consumer")
    owner = conninfo_to_dict(dsn)["user"]
    fleet.conn.execute(f"alter function gapless.end_squatters() owner to {owner}".encode())
    with psycopg.connect(make_conninfo(role()), autocommit=True) as stranger:
        stranger.execute("select pg_advisory_lock(7427001, 2)")
        a = fleet.start("a")
        fleet.until_owners(a=4)
        said = f"pid {stranger.info.backend_pid} of role"
        until(lambda: a.logged(said), "said", within=a.log)
        fleet.publish({}, {})
        fleet.until_handled()
        assert a.log().count(said) <= 2, "once by the supervisor, once by its sequencer"
        assert f"end it with select pg_terminate_backend({stranger.info.backend_pid})" in a.log()
    fleet.conn.execute("alter function gapless.end_squatters() owner to current_user")
