"""claim_at(), claim_events(), claim(): what is changed meanwhile, who reads by user, which events come along."""

from typing import Any

import pytest

from support.claims import CLAIMS, OTHER, TOKEN, claim, here, moved, owned
from support.claims import PLACES as OFFSETS
from support.compacted import write
from support.filtered import ROWS, ids
from support.twins import Twins

__all__ = ["owned"]

# Between the look and the claim somebody changes the row; of the first try nothing is seen, as if it had locked it.
MEANWHILE = """
create function public.passed() returns trigger language plpgsql as $$ begin
  if pg_trigger_depth() = 1 then return null; end if;
  return new;
end $$;
create function public.changed() returns trigger language plpgsql as $$ begin
  if pg_trigger_depth() = 1 then update gapless.consumer_offsets set {change} where {here}; end if;
  return null;
end $$;
create trigger passed before update on gapless.consumer_offsets for each row execute function public.passed();
create trigger changed after update on gapless.consumer_offsets execute function public.changed()
"""


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ("filter_no = 3", "filtered"), ("epoch = 6", "fenced"), ("filter_no = 3, epoch = 6", "fenced"),
        (f"filter_no = 3, token = '{OTHER}'", "fenced"), ("filter_no = 3, token = null", "fenced"),
    ],
)  # fmt: skip
def test_who_lost_its_place_meanwhile_is_told_so_first(
    owned: Twins, change: str, outcome: str
) -> None:
    owned.conn.execute(MEANWHILE.format(change=change, here=owned.here()).encode())
    assert [row[0] for row in claim(owned)] == [outcome]


# Between the look at the log and the claim.
MOVED = """
alter function gapless.kept_in rename to kept_before;
create function gapless.kept_in(_t int, _p int, _first bigint, _last bigint, _filter gapless.group_filter, _g text)
returns table (
  kept_offsets bigint[], kept bigint[], filter_errors text[], upto bigint, lost_offset bigint, lost_id bigint,
  matched text[]
) language plpgsql as $$ begin
  update gapless.consumer_offsets set next_offset = 3 where {here} and next_offset = 1;
  return query select * from gapless.kept_before(_t, _p, _first, _last, _filter, _g);
end $$
"""


def test_what_was_looked_at_in_vain_is_looked_at_again(owned: Twins) -> None:
    """As when gapless skip moves the group: of what lies before its new place nothing comes."""
    owned.conn.execute("select gapless.set_filter('billing', 'orders', '{*}')")
    owned.conn.execute(MOVED.format(here=owned.here()).encode())
    rows = owned.conn.execute(
        "select first_offset, last_offset, kept_offsets, kept"
        " from gapless.claim_kept('billing', %s, 1, 5, %s, 100, 0, null)",
        [owned.topic_ids["orders"], TOKEN],
    ).fetchall()
    offsets = list(range(3, 9))
    assert rows[0] == (3, 8, offsets, ids(owned, offsets))


@pytest.mark.parametrize(
    ("marks", "size", "last"),
    [("100", 1, 1), ("100", 2, 6), ("100", 3, 6), ("010", 2, 2), ("010", 3, 6), ("110", 3, 6)],
)
def test_a_unit_that_begins_in_one_segment_and_ends_in_the_next(
    owned: Twins, marks: str, size: int, last: int
) -> None:
    owned.conn.execute(
        "update gapless.log_segment set unit_ends = %s::varbit where topic_id = %s and base_offset = 1",
        [marks, owned.topic_ids["orders"]],
    )
    assert [row[:3] for row in claim(owned, size=size)] == [("claimed", 1, last)] * (1 + last // 6)


BY_USER = "select last_offset, base_offset, unit_ends from gapless.claim_at('billing', %s, 1, 5, %s, %s, %s, null, 'user')"


@pytest.mark.parametrize(
    ("size", "ahead", "last", "marks"),
    [
        (1, 0, 3, ["001"]), (1, 3, 3, ["001"]), (1, 4, 3, ["001", "000"]), (1, 7, 3, ["001", "000", "00"]),
        (1, 8, 3, ["001", "000", "10"]), (4, 0, 7, ["001", "000", "10"]), (4, 1, 7, ["001", "000", "10"]),
        (8, 0, 8, ["001", "000", "11"]),
    ],
)  # fmt: skip
def test_units_of_one_user_are_one(
    owned: Twins, size: int, ahead: int, last: int, marks: list[str]
) -> None:
    """Ann has 1 to 3, Ben 4 to 7; of what is read ahead no end is told that may not be one."""
    owned.conn.execute(
        "update gapless.outbox_message_t o set user_id = case when s.base_offset + u.n <= 4 then 'ann'"
        " when s.base_offset + u.n <= 8 then 'ben' else 'cyd' end"
        " from gapless.log_segment s, unnest(s.message_ids) with ordinality u (id, n) where o.id = u.id"
    )
    rows = owned.conn.execute(BY_USER, [owned.topic_ids["orders"], TOKEN, size, ahead]).fetchall()
    assert rows == [(last, base, each) for base, each in zip((1, 4, 7), marks, strict=False)]


# What of CLAIMS reads nothing ahead.
READS = [(at, size, last) for at, size, ahead, last, _ in CLAIMS if not ahead]


def claim_events(twins: Twins, at: int, size: int, most: int) -> tuple[list[Any], list[Any]]:
    """Its rows of segments, then those of events."""
    twins.seek(at, twins.here())
    rows = twins.conn.execute(
        "select * from gapless.claim_events('billing', %s, 1, 5, %s, %s, %s, null)",
        [twins.topic_ids["orders"], TOKEN, size, most],
    ).fetchall()
    return [row for row in rows if row[0]], sorted(row for row in rows if not row[0])


@pytest.mark.few(len(READS))
@pytest.mark.parametrize(("at", "size", "last"), READS)
@pytest.mark.parametrize("over", [-1, 0])
def test_events_come_along_if_they_are_not_too_many(
    owned: Twins, at: int, size: int, last: int, over: int
) -> None:
    """Those of the range, or none."""
    for n in range(1, 9):
        write(owned, n, f"k{n}-", f'{{"n": {n}}}', "a", host_id="h", headers='{"h": 1}')
    with owned.conn.transaction(force_rollback=True):
        owned.seek(at, owned.here())
        expected = claim(owned, size=size)
    before = owned.conn.execute(OFFSETS).fetchall()
    segments, events = claim_events(owned, at, size, last - at + 1 + over)
    place = owned.value(f"select ctid::text from gapless.consumer_offsets where {owned.here()}")
    assert [row[:4] + row[5:9] for row in segments] == [row[:4] + row[5:] for row in expected]
    assert all(row[4] == place for row in segments)
    assert [row[9:] for row in segments] == [(None,) * 12] * len(segments)
    offsets = [] if over else list(range(at, last + 1))
    found = owned.conn.execute(ROWS, [ids(owned, offsets)]).fetchall()
    assert [(row[:9], row[9:]) for row in events] == [((None,) * 9, row) for row in found]
    assert moved(owned, before) == here(owned, last + 1, 0, 0)


def test_nothing_comes_along_with_nothing(owned: Twins) -> None:
    segments, events = claim_events(owned, 9, 100, 100)
    assert ([row[:3] for row in segments], events) == ([("idle", 9, None)], [])


def test_who_needs_no_hints_is_told_the_same(owned: Twins) -> None:
    with owned.conn.transaction(force_rollback=True):
        expected = claim(owned, size=4)
    rows = owned.conn.execute(
        "select * from gapless.claim('billing', %s, 1, 5, %s, 4)",
        [owned.topic_ids["orders"], TOKEN],
    ).fetchall()
    assert rows == [row[:4] + row[5:8] for row in expected]
