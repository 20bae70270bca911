"""claim_at(), claim_ahead(), lock_fence(): what an owner claims of its partition, and when it claims nothing."""

from typing import Any

import pytest

from support.claims import CLAIMS, OTHER, PLACES, TOKEN, claim, ctid, here, moved, owned
from support.twins import Twins

__all__ = ["owned"]  # fixtures

ENDS = {1: "011", 4: "001", 7: "11"}


@pytest.mark.parametrize(("at", "size", "ahead", "last", "bases"), CLAIMS)
def test_what_is_claimed(
    owned: Twins, at: int, size: int, ahead: int, last: int, bases: list[int]
) -> None:
    owned.seek(at, owned.here())
    before = owned.conn.execute(PLACES).fetchall()
    rows = claim(owned, size=size, ahead=ahead)
    xid, timeline = (
        owned.value("select pg_current_xact_id()::text"),
        owned.value("select gapless.timeline()"),
    )
    place = ctid(owned, owned.here())
    ids = dict(
        owned.conn.execute(
            "select c_offset, message_id from gapless.read('orders', 1, 1, 9)"
        ).fetchall()
    )
    assert rows == [
        (
            "claimed",
            at,
            last,
            xid,
            place,
            base,
            [ids[base + n] for n in range(len(ENDS[base]))],
            ENDS[base],
            timeline,
        )
        for base in bases
    ]
    assert moved(owned, before) == here(owned, last + 1, 0, 0)
    assert owned.value("select current_setting('gapless.chain')") == "open"


WHY_NOT: dict[str, tuple[int, str, dict[str, Any], tuple[str, int | None, int | None]]] = {
    "the end": (9, "", {}, ("idle", 9, None)),
    "beyond the end": (10, "", {}, ("beyond", 10, 9)),
    "a newer owner": (1, "", {"epoch": 4}, ("fenced", None, None)),
    "an older owner": (1, "", {"epoch": 6}, ("fenced", None, None)),
    "another token": (1, "", {"token": OTHER}, ("fenced", None, None)),
    "no token": (1, "", {"token": None}, ("fenced", None, None)),
    "nobody owns it": (1, "update gapless.consumer_offsets set token = null", {}, ("fenced", None, None)),
    "no such place": (1, "", {"partition": 3}, ("unplaced", None, None)),
    "a filter": (1, "update gapless.consumer_offsets set filter_no = 3", {}, ("filtered", 1, None)),
    "no filter any more": (1, "", {"filter": 3}, ("filtered", 1, None)),
    "it reads latest": (1, "update gapless.consumer_offsets set latest_upto = 2", {}, ("filtered", 1, None)),
    "paused": (1, "select gapless.pause('billing', 'orders')", {}, ("idle", 1, None)),
    "paused here": (1, "select gapless.pause('billing', 'orders', 1)", {}, ("idle", 1, None)),
    "dropped": (3, "insert into gapless.log_start values ({topic}, 1, 4, now())", {}, ("overrun", 3, 3)),
    "stopped": (1, "update gapless.consumer_offsets set stopped_at = 7", {}, ("beyond", 1, 7)),
    "a hole": (4, "delete from gapless.log_segment where {place} and base_offset = 4", {}, ("hole", 4, 6)),
    "in a hole": (5, "delete from gapless.log_segment where {place} and base_offset = 4", {}, ("hole", 5, 6)),
    "the begin is lost": (1, "delete from gapless.log_segment where {place} and base_offset = 1", {}, ("hole", 1, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", WHY_NOT)
def test_when_nothing_is_claimed(owned: Twins, name: str) -> None:
    at, change, given, (outcome, first, last) = WHY_NOT[name]
    topic = owned.topic_ids["orders"]
    owned.seek(at, owned.here())
    if change:
        place = f"topic_id = {topic} and partition_id = 1"
        owned.conn.execute(change.format(topic=topic, place=place))  # type: ignore[arg-type]
    before = owned.conn.execute(PLACES).fetchall()
    assert [row[:3] for row in claim(owned, **given)] == [(outcome, first, last)]
    assert moved(owned, before) == []


@pytest.mark.parametrize(
    "change",
    [
        "select gapless.pause('mail', 'orders'), gapless.pause('billing', 'other'), gapless.pause('billing', 'orders', 2)",
        "insert into gapless.log_start select topic_id, 2, 7, now() from gapless.topic",
        "insert into gapless.log_start select topic_id, 1, 7, now() from gapless.topic where topic_id <> {topic}",
        "insert into gapless.log_start values ({topic}, 1, 3, now())",
        "delete from gapless.log_segment where not ({place}) and base_offset = 4",
        "update gapless.consumer_offsets set stopped_at = 3, filter_no = 4, latest_upto = 9 where not ({here})",
        "update gapless.consumer_offsets set latest_upto = 3",
        "update gapless.log_segment set base_offset = base_offset + 1, last_offset = last_offset + 1 where not ({place})",
    ],
)
def test_what_is_so_elsewhere_is_in_nobody_s_way(owned: Twins, change: str) -> None:
    topic = owned.topic_ids["orders"]
    place = f"topic_id = {topic} and partition_id = 1"
    owned.seek(3, owned.here())
    owned.conn.execute(change.format(topic=topic, place=place, here=owned.here()))  # type: ignore[arg-type]
    rows = claim(owned)
    assert [(*row[:3], row[5]) for row in rows] == [("claimed", 3, 8, base) for base in (1, 4, 7)]


@pytest.mark.parametrize(
    "where",
    [
        "group_id = 'billing' and topic_id = {topic} and partition_id = 1",
        "group_id = 'billing' and topic_id = {topic} and partition_id = 2",
        "group_id = 'billing' and topic_id <> {topic} and partition_id = 1",
        "group_id = 'mail' and topic_id = {topic} and partition_id = 1",
    ],
)
def test_a_place_that_is_another_one_s_now(owned: Twins, where: str) -> None:
    """Rows move, and others come to where they were."""
    place = ctid(owned, where.format(topic=owned.topic_ids["orders"]))
    before = owned.conn.execute(PLACES).fetchall()
    rows = claim(owned, size=1, place=place)
    assert [row[:3] for row in rows] == [("claimed", 1, 2)]
    assert rows[0][4] == ctid(owned, owned.here())
    assert moved(owned, before) == here(owned, 3, 0, 0)


def test_a_unit_over_two_segments(owned: Twins) -> None:
    """Its end is the one of this partition; elsewhere segments begin one further, and every event ends a unit."""
    place = f"topic_id = {owned.topic_ids['orders']} and partition_id = 1"
    owned.conn.execute(
        f"update gapless.log_segment set unit_ends = b'000' where {place} and base_offset = 1"  # type: ignore[arg-type]
    )
    owned.conn.execute(
        "update gapless.log_segment set base_offset = base_offset + 1, last_offset = last_offset + 1,"  # type: ignore[arg-type]
        f" unit_ends = repeat('1', length(unit_ends))::varbit where not ({place})"
    )
    assert [row[:3] for row in claim(owned, size=1)] == [("claimed", 1, 6)] * 2


AHEAD = "select * from gapless.claim_ahead('billing', %s, 1, %s, %s, %s, 6, %s::tid)"


@pytest.mark.parametrize(
    ("owner", "first", "pause", "is_claimed"),
    [
        ((5, TOKEN), 1, None, True), ((4, TOKEN), 1, None, False), ((5, OTHER), 1, None, False),
        ((5, TOKEN), 2, None, False), ((5, TOKEN), 1, "'billing', 'orders'", False),
        ((5, TOKEN), 1, "'billing', 'orders', 1", False), ((5, TOKEN), 1, "'billing', 'orders', 2", True),
        ((5, TOKEN), 1, "'mail', 'orders'", True), ((5, TOKEN), 1, "'billing', 'other'", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("of", ["here", "elsewhere"])
def test_a_claim_of_what_was_read_ahead(
    owned: Twins, owner: tuple[int, str], first: int, pause: str | None, is_claimed: bool, of: str
) -> None:
    if pause:
        owned.conn.execute(f"select gapless.pause({pause})")  # type: ignore[arg-type]
    before = owned.conn.execute(PLACES).fetchall()
    place = ctid(owned, owned.here() if of == "here" else owned.here("mail"))
    params = [owned.topic_ids["orders"], *owner, first, place]
    rows = owned.conn.execute(AHEAD, params).fetchall()
    if is_claimed:
        xid = owned.value("select pg_current_xact_id()::text")
        assert rows == [(xid, ctid(owned, owned.here()))]
        assert moved(owned, before) == here(owned, 7, 0, 0)
    else:
        assert rows == []
        assert moved(owned, before) == []


def test_nothing_that_was_read_ahead_is_claimed_past_a_new_filter(owned: Twins) -> None:
    owned.conn.execute("update gapless.consumer_offsets set filter_no = 3")
    before = owned.conn.execute(PLACES).fetchall()
    for place in (ctid(owned, owned.here()), ctid(owned, owned.here("mail"))):
        params = [owned.topic_ids["orders"], 5, TOKEN, 1, place]
        assert owned.conn.execute(AHEAD, params).fetchall() == []
    assert moved(owned, before) == []


@pytest.mark.parametrize("where", ["{t} and partition_id = 2", "not {t} and partition_id = 1"])
def test_one_owner_of_several_moves_only_the_one_that_is_meant(owned: Twins, where: str) -> None:
    owned.conn.execute("update gapless.consumer_offsets set token = %s", [TOKEN])
    before, topic_id = owned.conn.execute(PLACES).fetchall(), owned.topic_ids["orders"]
    where = where.format(t=f"topic_id = {topic_id}")
    place = ctid(owned, f"group_id = 'billing' and {where}")
    owned.conn.execute(AHEAD, [topic_id, 5, TOKEN, 1, place])
    assert moved(owned, before) == here(owned, 7, 0, 0)


@pytest.mark.parametrize(
    ("epoch", "token", "is_mine"), [(5, TOKEN, True), (4, TOKEN, False), (5, OTHER, False)]
)
def test_whose_the_fence_is(owned: Twins, epoch: int, token: str, is_mine: bool) -> None:
    lock = "select gapless.lock_fence('billing', %s, 1, %s, %s)"
    assert owned.value(lock, owned.topic_ids["orders"], epoch, token) is is_mine
    locked = owned.value(f"select xmax::text from gapless.consumer_offsets where {owned.here()}")
    assert (locked == owned.value("select pg_current_xact_id()::text")) is is_mine


def test_whose_place_changes_meanwhile_is_fenced_whatever_filters_others_have(owned: Twins) -> None:
    """The trigger stands for somebody who was there between the look and the claim."""
    owned.conn.execute(
        "update gapless.consumer_offsets set filter_no = 3, token = %s where not (group_id = 'billing'"
        " and topic_id = %s and partition_id = 1)",
        [TOKEN, owned.topic_ids["orders"]],
    )
    owned.conn.execute(
        "create function public.passed() returns trigger language plpgsql as 'begin return null; end'"
    )
    owned.conn.execute(
        "create trigger passed before update on gapless.consumer_offsets"
        " for each row execute function public.passed()"
    )
    assert [row[0] for row in claim(owned)] == ["fenced"]


@pytest.mark.parametrize(("most", "come"), [(8, 8), (7, 0), (9, 8)])
def test_what_a_filter_keeps_comes_along_if_it_is_not_too_much(
    owned: Twins, most: int, come: int
) -> None:
    """All events of it, or none: then they are read by themselves."""
    owned.conn.execute("select gapless.set_filter('billing', 'orders', '{*}')")
    claimed = owned.conn.execute(
        "select outcome, c.id, kept_offsets from gapless.claim_kept('billing', %s, 1, 5, %s, 100, %s, null) c",
        [owned.topic_ids["orders"], TOKEN, most],
    ).fetchall()
    assert claimed[0][0] == "claimed"
    assert claimed[0][2] == list(range(1, 9))
    assert sum(row[1] is not None for row in claimed) == come
