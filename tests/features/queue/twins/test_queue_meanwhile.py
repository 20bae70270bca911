"""What becomes somebody else's while a call goes on: it is waited for, or left to whoever has it by then."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.twin_queues import DONE, DUE, HELD, HERE, PLACES, letter, letters, note, noted
from support.twins import Twins

GROUP, TOPIC, _ = HERE
TOKEN = "11111111-1111-4111-8111-111111111111"
LOCK_NOT_AVAILABLE = "55P03"


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    """Everywhere 1 to 4 are in hand under one token; that others see, too."""
    with connect(module_dsn, role="test") as conn:
        made = Twins(conn)
        for place in PLACES:
            note(made, place, [(1, 4, HELD)], holder="ann")
        conn.execute("update gapless.queue_range set token = %s", [TOKEN])
        yield made


@pytest.fixture
def other(twins: Twins, other: Connection[Any]) -> Connection[Any]:
    """Another session, in a transaction that is never committed; ours waits for it but shortly."""
    twins.conn.execute("set local lock_timeout = '200 ms'")
    return other


TAKEN = "select gapless.lock_taken(%s, 1, 4, %s, %s)"


@pytest.mark.parametrize("c_offset", [None, 2])
def test_who_takes_a_range_over_at_this_moment_is_waited_for(
    twins: Twins, other: Connection[Any], c_offset: int | None
) -> None:
    """Else it would be answered for, or cut, as it was before; others' ranges are not waited for."""
    lease = twins.leases[HERE]
    other.execute("select from gapless.queue_range where lease_no <> %s for update", [lease])
    with twins.undone():
        assert twins.value(TAKEN, lease, TOKEN, c_offset) == (4 if c_offset is None else 1)
    other.execute("select from gapless.queue_range where lease_no = %s for update", [lease])
    assert twins.refused(TAKEN, [lease, TOKEN, c_offset])[0] == LOCK_NOT_AVAILABLE


CHANGE = (
    "select gapless.change_mode(g, 'queue', 6) from gapless.consumer_group g"
    " where group_id = 'billing' and topic_id = gapless.topic_id('orders')"
)
GROUP_ROWS = (
    "select from gapless.consumer_group"
    " where {} (group_id = 'billing' and topic_id = gapless.topic_id('orders')) for update"
)


def test_who_changes_a_group_at_this_moment_is_waited_for(
    twins: Twins, other: Connection[Any]
) -> None:
    """What it has done by then decides, though it has begun already."""
    twins.conn.execute("update gapless.lease set epoch = 1 where group_id = 'billing'")
    other.execute(GROUP_ROWS.format(""))
    assert twins.refused(CHANGE)[0] == LOCK_NOT_AVAILABLE


def test_who_changes_other_groups_is_not_waited_for(twins: Twins, other: Connection[Any]) -> None:
    other.execute(GROUP_ROWS.format("not"))
    twins.conn.execute(CHANGE)
    mode = "select mode from gapless.consumer_group where group_id = 'billing' and topic_id = %s"
    assert twins.value(mode, twins.topic_ids["orders"]) == "queue"


# While the first of two is ended, this happens to the other one.
MEANWHILE = """
create function public.meanwhile() returns trigger language plpgsql as $$
begin
  update gapless.{table} set {change} where {here} and first_offset = 13 - old.first_offset;
  return new;
end
$$;
create trigger meanwhile before update on gapless.{table} for each row when (pg_trigger_depth() = 0)
  execute function public.meanwhile();
"""


def meanwhile(twins: Twins, table: str, change: str) -> None:
    lease = twins.leases[HERE]
    here = f"lease_no = {lease}" if table == "queue_range" else twins.here(GROUP)
    twins.conn.execute(MEANWHILE.format(table=table, change=change, here=here))


RANGES: dict[str, tuple[str, tuple[str, str]]] = {
    "taken by another": ("holder = 'bob'", (HELD, "bob")),
    "finished": ("deadline = null, token = null", (DONE, "dead")),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_that_is_not_the_dead_worker_s_any_more(twins: Twins, name: str) -> None:
    """It stays as it is, and is asked for again."""
    change, then = RANGES[name]
    note(twins, HERE, [(6, 6, HELD), (7, 7, HELD)], holder="dead")
    meanwhile(twins, "queue_range", change)
    assert twins.value("select gapless.end_holder('dead')") is None
    kept = sorted((state, holder) for first, _, state, _, holder in noted(twins) if first > 4)
    assert kept == sorted([(DUE, "dead"), then])
    assert twins.value("select gapless.end_holder('dead')") == 0


LETTERS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "taken by another": ("worker = 'bob'", ("waiting", "bob", False, True)),
    "given back for later": ("token = null", ("waiting", "dead", True, True)),
    "discarded": (
        "state = 'discarded', next_attempt_ts = null, discarded_by = 'me', discard_reason = 'old'",
        ("discarded", "dead", False, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LETTERS)
def test_a_unit_that_is_not_the_dead_worker_s_any_more(twins: Twins, name: str) -> None:
    """It stays as it is, and is asked for again."""
    change, then = LETTERS[name]
    for first in (6, 7):
        letter(twins, HERE, first, worker="dead", token=TOKEN, next_attempt_ts="2199-01-01")
    meanwhile(twins, "dead_letter", change)
    assert twins.value("select gapless.end_holder('dead')") is None
    kept = letters(twins, HERE, "state, worker, token is null, next_attempt_ts > '2198-01-01'")
    assert sorted(kept, key=str) == sorted([("waiting", "dead", True, False), then], key=str)
    assert twins.value("select gapless.end_holder('dead')") == 0
