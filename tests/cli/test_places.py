"""A place is printed as GROUP/TOPIC/PARTITION@OFFSET, and taken with a slash before the offset too."""

import psycopg
import pytest

import gapless as package
from gapless.log.publish import publish
from gapless.log.topics import ensure_topic
from gapless.testing import drain


@pytest.fixture
def refused(conn, dsn: str) -> None:
    """One event, dead in group billing; the last line of its exception says nothing of it."""
    ensure_topic(conn, "orders", partitions=1)
    publish(conn, "orders", {"total": 5}, key="AA")

    @package.handler(topic="orders", group="billing")
    def refuse(unit: package.Unit, conn: psycopg.Connection) -> None:
        conn.execute("select 'x'::int")

    drain(dsn, refuse)


SPELLINGS = ("billing/orders/0@1", "billing/orders/0/1")


@pytest.mark.long
@pytest.mark.parametrize("place", SPELLINGS)
def test_both_are_taken_and_one_is_printed(gapless, refused, place: str) -> None:
    assert gapless("dlq", "show", place).lines[0] == f"dead letter {SPELLINGS[0]}"
    asked = gapless("dlq", "redrive", place, "--json").json
    assert asked["units"] == {SPELLINGS[0]: "asked"}
    assert f"{SPELLINGS[0]} was redriven already" in gapless("dlq", "redrive", place).complaint()
    assert gapless("dlq", "discard", place, "--reason", "test").out == "discarded: 1 unit\n"
    assert "dead letter billing/orders/0@2:" in gapless("dlq", "show", place[:-1] + "2").complaint()


@pytest.mark.parametrize("place", SPELLINGS)
def test_a_group_is_moved_to_a_place(gapless, refused, place: str) -> None:
    (move,) = gapless("seek", place, "--yes", "--json").json
    assert (move["partition"], move["new_offset"], move["again"]) == (0, 1, 1)
    assert "says where to" in gapless("seek", place, "--earliest").complaint()
    assert "where to?" in gapless("seek", "billing/orders/0").complaint()


@pytest.mark.long
def test_a_place_without_offset_is_a_range(gapless, refused) -> None:
    assert gapless("pause", "billing/orders/0").out == (
        "paused group billing, topic orders, partition 0\n"
    )
    assert gapless("resume", "billing", "--topic", "orders", "--partition", "0").code == 0
    assert gapless("pause", "billing/orders", "--json").json["partition"] is None
    complaint = gapless("pause", "billing/orders/0@1").complaint()
    assert complaint.endswith("a partition rests as a whole, billing/orders/0")
    assert "which of the two?" in gapless("pause", "billing/orders", "--topic", "x").complaint()
    assert "is not GROUP" in gapless("pause", "billing//0").complaint()
    assert "is not GROUP" in gapless("pause", f"billing/orders/{10**10}").complaint()
    rows = gapless("groups", "show", "billing/orders", "--json").json
    assert [row["partition"] for row in rows] == [0]
    assert "with all partitions" in gapless("groups", "show", "billing/orders/0").complaint()


def test_the_last_errors_show_what_dlq_shows(gapless, refused) -> None:
    """The last line of such an exception is a caret under the statement."""
    (row,) = gapless("dlq", "--json").json
    (seen,) = gapless("status", "--json").json["dead_letters"]
    assert seen["error"] == row["error"]
    assert "invalid input syntax" in seen["error"]
