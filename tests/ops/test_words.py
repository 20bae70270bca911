"""Records say themselves: str(record) is what the command prints, for a notebook as well."""

import psycopg
import pytest
from psycopg import Connection

from gapless import ops
from gapless.cli.main import main
from gapless.errors import UsageError
from gapless.log.topics import ensure_topic
from gapless.ops import GroupPlace
from gapless.settings import load

BILLING = GroupPlace.parse("billing/orders")


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], dsn: str):
    """What a command prints for people."""

    def run(*words: str) -> str:
        assert main(["--dsn", dsn, *words]) == 0
        return capsys.readouterr().out.rstrip("\n")

    return run


@pytest.mark.long
def test_what_was_done_to_a_group(conn: Connection, orders: None, said) -> None:
    done = str(ops.pause(conn, BILLING))
    assert done == "paused group billing, topic orders"
    assert str(ops.pause(conn, BILLING)) == said("pause", "billing/orders") != done
    assert said("resume", "billing/orders") == "resumed group billing, topic orders"
    assert str(ops.resume(conn, BILLING)) == said("resume", "billing/orders")

    made = ops.create_group(conn, "audit", "orders")
    assert str(made) == "created group audit of topic orders, from earliest"
    again = ops.create_group(conn, "audit", "orders")
    assert str(again) == said("groups", "create", "audit", "orders")
    assert str(ops.set_expiry(conn, "audit", 86_400)).endswith("when it is not used for 1d")
    again = ops.set_expiry(conn, "audit", 86_400)
    assert str(again) == said("groups", "expire", "audit", "--after", "1d")
    going = ops.remove_group(conn, "audit", dry_run=True)
    assert str(going) == said("groups", "remove", "audit", "--yes")


def test_what_became_of_a_topic(conn: Connection, orders: None, said) -> None:
    done = ops.alter_topic(conn, "orders", dedupe_window_s=60, direct=True, partitions=1)
    assert str(done) == (
        "topic orders remembers dedupe keys for 1m\n"
        "topic orders takes direct messages (to_group)\n"
        "nothing to do: topic orders has 1 partition"
    )
    words = ("--dedupe-window", "1m", "--direct", "--partitions", "1")
    assert str(done) == said("topics", "alter", "orders", *words)


def test_what_a_cancellation_was(conn: Connection, orders: None, said) -> None:
    (done,) = ops.cancel_later(conn, [17])
    assert str(done) == said("later", "cancel", "17")
    assert str(done).startswith("nothing to do: 17 is in the log already")


@pytest.mark.long
def test_install_what_a_configuration_asks_for(empty_dsn: str, said) -> None:
    loaded = load(None, environ={}, overrides={"total_partitions": 3, "chunk_events": 20_000})
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        first = ops.install_as_configured(conn, loaded)
        assert (first.is_new, first.topic and first.topic.partitions) == (True, 3)
        assert "of 20,000 events\ncreated topic outbox with 3 partitions" in str(first)
        again = ops.install_as_configured(conn, loaded)
        assert (again.is_new, again.record()["changed"]) == (False, False)
    assert str(again) == said("init", "--partitions", "3", "--dsn", empty_dsn)


def test_another_number_of_partitions_changes_nothing(conn: Connection) -> None:
    ensure_topic(conn, "outbox", partitions=3)
    asked = {"total_partitions": 5, "chunk_events": 20_000}
    before = conn.execute("select chunk_events from gapless.log_config").fetchone()
    with pytest.raises(UsageError, match="3 partitions"):
        ops.install_as_configured(conn, load(None, environ={}, overrides=asked))
    assert conn.execute("select chunk_events from gapless.log_config").fetchone() == before
