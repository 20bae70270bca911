"""Which rows of an attached table are copied, and what each becomes, beside a twin that has the same ids."""

from collections.abc import Iterator

import pytest

from features.attach.boxes import LIVE, Boxes, came, copied, moved, noted
from gapless.db.connect import connect

MORE = """
create table public.steady (id bigint primary key, customer text, body jsonb);
create table public.still (id bigint primary key, customer text, body jsonb);
create table public.holes (n int unique, customer text, body jsonb);
"""


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Boxes]:
    """Steady and still are live, and nobody has locked their rows."""
    with connect(module_dsn, role="test") as conn:
        boxes = Boxes(conn, MORE)
        with conn.transaction():
            boxes.live("public.steady", "other")
            boxes.live("public.still", "other")
        yield boxes


@pytest.fixture
def boxes(shared: Boxes) -> Iterator[Boxes]:
    """Twin is attached, and not live; of its rows one is copied, and one is noted as missed."""
    with shared.undone():
        shared.fill(1, 2, 3, 5, 8, table="twin")
        number = shared.attach("public.twin", "other")
        assert shared.value("select gapless.copy_attached(%s, 8, 3)", number) == 3
        miss = "insert into gapless.attached_miss (attachment_id, rows, error) values (%s, 3, 'no')"
        shared.run(miss, number)
        yield shared


# Of ids 1, 2, 3, 5, 8: up to which all are copied, the bound, how many at most; which are copied then.
COPIES: list[tuple[int | None, int, int, list[int]]] = [
    (None, 8, 10, [1, 2, 3, 5, 8]),
    (None, 5, 10, [1, 2, 3, 5]),
    (None, 4, 10, [1, 2, 3]),
    (None, 8, 2, [1, 2]),
    (None, 8, 5, [1, 2, 3, 5, 8]),
    (3, 8, 10, [5, 8]),
    (2, 5, 1, [3]),
    (8, 8, 10, []),
    (3, 4, 10, []),
    (None, 0, 10, []),
    (None, 8, 0, []),
]


@pytest.mark.parametrize(("before", "bound", "most", "ids"), COPIES)
def test_the_next_rows_are_copied(
    boxes: Boxes, before: int | None, bound: int, most: int, ids: list[int]
) -> None:
    boxes.fill(1, 2, 3, 5, 8)
    number = boxes.attach()
    if before is not None:
        boxes.run(
            "update gapless.attached set copied_to = %s where attachment_id = %s", before, number
        )
    with boxes.conn.transaction(force_rollback=True):
        assert boxes.value("select gapless.copy_attached(%s, %s, %s)", number, bound, most) == len(
            ids
        )
    changed = boxes.diff("select gapless.copy_attached(%s, %s, %s)", number, bound, most)
    place = moved("begin" if before is None else str(before), str(ids[-1])) if ids else []
    assert changed == sorted(copied(*ids) + place)
    logged = boxes.rows(
        "select source_id from gapless.attached_row where attachment_id = %s order by message_id",
        number,
    )
    assert [each for (each,) in logged] == ids, "in the order of their ids"


def test_once_the_trigger_copies_nobody_else_does(boxes: Boxes) -> None:
    number = boxes.value(
        "select attachment_id from gapless.attached where table_name = 'public.steady'"
    )
    boxes.run("set local session_replication_role = replica")
    boxes.fill(1, table="steady")
    assert boxes.value("select gapless.copy_attached(%s, 9, 9)", number) == 0
    assert boxes.rows("select from gapless.attached_row where attachment_id = %s", number) == []
    assert boxes.row("select * from gapless.attach_bound(%s)", number) == (None, None)


@pytest.mark.parametrize("call", ["copy_attached({}, 9, 9)", "copy_missed({})", "go_live({}, 9)"])
def test_two_that_copy_are_one_after_the_other(boxes: Boxes, call: str) -> None:
    number = boxes.value(
        "select attachment_id from gapless.attached where table_name = 'public.steady'"
    )
    boxes.run("alter table public.steady drop body, add body jsonb, drop customer")
    locked = (
        "select a.attachment_id from gapless.attached a where a.xmax::text = pg_current_xact_id()::xid::text"
        " and a.table_name <> 'public.twin'"
    )
    assert boxes.rows(locked) == []
    if "missed" in call:
        boxes.run("alter table public.steady add customer text")
    boxes.run(f"select gapless.{call.format(number)}")
    assert boxes.rows(locked) == [(number,)]


@pytest.mark.parametrize(("ids", "bound"), [([], None), ([3], 3), ([9, -5, 3], 9)])
def test_the_highest_id_that_is_there(boxes: Boxes, ids: list[int], bound: int | None) -> None:
    boxes.fill(*ids)
    assert boxes.row("select * from gapless.attach_bound(%s)", boxes.attach()) == (bound, [])


def test_what_was_missed_is_copied(boxes: Boxes) -> None:
    """Of twin, which has the same ids, nothing."""
    boxes.fill(2, 5)
    number = boxes.live()
    boxes.run("set local session_replication_role = replica")
    boxes.fill(1, 3, 9)
    miss = "insert into gapless.attached_miss (attachment_id, rows, error) values (%s, %s, 'why')"
    boxes.run(miss, number, 1)
    boxes.run(miss, number, 2)
    assert boxes.diff("select gapless.copy_missed(%s)", number) == sorted(
        [*copied(1, 3, 9), "- miss public.box 1 why", "- miss public.box 2 why"]
    )
    boxes.fill(4, 6)
    assert boxes.value("select gapless.copy_missed(%s)", number) == 2
    assert boxes.value("select gapless.copy_missed(%s)", number) == 0
    assert boxes.diff("select gapless.copy_missed(%s)", number) == []


def test_what_was_noted_and_is_not_found_is_said_once(boxes: Boxes) -> None:
    """Its id had been published, or it was deleted: it is in no log, and nobody would know."""
    number = boxes.live("public.box")
    boxes.fill(1, 2)
    noted = "select rows, error from gapless.attached_miss where attachment_id = %s"
    boxes.run("truncate public.box")
    boxes.run("alter table public.box rename body to gone; alter table public.box drop customer")
    boxes.run("insert into public.box (id, gone) values (1, '77'), (3, '78')")
    assert [rows for rows, _ in boxes.rows(noted, number)] == [2]
    boxes.run("alter table public.box add customer text")
    assert boxes.value("select gapless.copy_missed(%s)", number) == 1
    ((rows, why),) = boxes.rows(noted, number)
    assert rows == 1
    assert why.startswith("not in the table any more, or of an id that was published before")
    assert boxes.value("select gapless.copy_missed(%s)", number) == 0
    assert boxes.rows(noted, number) == []


def test_rows_without_an_id_are_missed_for_good(boxes: Boxes) -> None:
    number = boxes.live("public.holes", id="n")
    boxes.run("insert into public.holes values (null, 'c', '1'), (1, 'c', '1')")
    noted = "select rows, error from gapless.attached_miss where attachment_id = %s order by 1"
    ((rows, _),) = boxes.rows(noted, number)
    assert rows == 2, "all of the statement"
    for row, count in [("(null)", 2), ("(2)", 2)]:
        boxes.run(f"insert into public.holes values {row}")
        boxes.run("select gapless.copy_missed(%s)", number)
        assert boxes.rows(noted, number) == [(count, 'rows without "n" have no place in the order')]
    assert boxes.rows(
        "select source_id from gapless.attached_row where attachment_id = %s order by 1", number
    ) == [(1,), (2,)]


TRIGGER = (
    "create trigger gapless_attach after insert on public.{} referencing new table as new_rows"
    " for each statement execute function gapless.attach_rows('{}')"
)
MADE = "+ trigger box gapless_attach O public.box"


def test_the_last_rows_and_the_trigger(boxes: Boxes) -> None:
    boxes.fill(1, 2, 3)
    number = boxes.attach()
    with boxes.conn.transaction(force_rollback=True):
        assert boxes.value(LIVE, number, 2) is False
        assert boxes.value(
            "select live_ts is null from gapless.attached where attachment_id = %s", number
        )
    with boxes.conn.transaction(force_rollback=True):
        assert boxes.value(LIVE, number, 3) is True
    assert boxes.diff(LIVE, number, 3) == sorted(
        [*copied(1, 2, 3), *moved("begin", "3", live=("copied", "live")), MADE]
    )
    assert boxes.diff("insert into public.box values (5, 'c5', '5'), (4, 'c4', '4')") == came(4, 5)
    assert boxes.diff("insert into public.box select 1 where false") == []
    assert boxes.diff(LIVE, number, 3) == []


def locks(boxes: Boxes, table: str) -> list[str]:
    rows = boxes.rows(
        "select mode from pg_locks where pid = pg_backend_pid() and locktype = 'relation'"
        " and relation = %s::regclass and mode ~ 'Exclusive' order by 1",
        table,
    )
    return [mode for (mode,) in rows]


def test_what_is_live_is_left_alone(boxes: Boxes) -> None:
    """Its writers wait for nobody."""
    number = boxes.value(
        "select attachment_id from gapless.attached where table_name = 'public.steady'"
    )
    assert boxes.value(LIVE, number, 0) is True
    assert locks(boxes, "public.steady") == []
    boxes.run("select gapless.lock_attached(%s)", number)
    assert locks(boxes, "public.steady") == ["ShareRowExclusiveLock"]


# What was done to the trigger of box, which is live, and what to go live again changes.
AGAIN: list[tuple[str, list[str]]] = [
    ("alter table public.box enable always trigger gapless_attach", []),
    ("alter table public.box disable trigger gapless_attach", [MADE, "- trigger box gapless_attach D public.box"]),
    ("alter table public.box enable replica trigger gapless_attach", [MADE, "- trigger box gapless_attach R public.box"]),
    ("drop trigger gapless_attach on public.box", [MADE]),
    ("drop trigger gapless_attach on public.box; " + TRIGGER.format("box", 4711), [MADE, "- trigger box gapless_attach O"]),
    ("drop trigger gapless_attach on public.box; " + TRIGGER.format("box", "x"), [MADE, "- trigger box gapless_attach O"]),
    (
        "alter table public.box disable trigger gapless_attach; " + TRIGGER.format("twin", "{}"),
        [MADE, "- trigger box gapless_attach D public.box"],
    ),
    (
        "drop trigger gapless_attach on public.box; "
        + TRIGGER.format("box", "{}").replace("gapless_attach", "gapless_attach_mine", 1)
        + "; alter table public.box disable trigger gapless_attach_mine",
        [MADE],
    ),
    (
        "alter table public.box rename customer to client",
        [f"+ {noted('begin', 'live').replace('customer', 'client')}", f"- {noted('begin', 'live')}"],
    ),
    ("alter table public.box drop customer", []),
    ("alter table public.box rename body to doc; alter table public.box drop customer", []),
    (
        "update gapless.attached set table_id = 0 where table_name = 'public.box'",
        [f"+ {noted('begin', 'live')}", f"- {noted('begin', 'live')} elsewhere"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("done", "changed"), AGAIN)
def test_live_again(boxes: Boxes, done: str, changed: list[str]) -> None:
    number = boxes.live()
    boxes.run(f"update gapless.attached set live_ts = '2000-01-01' where attachment_id = {number}")
    boxes.run(done.replace("{}", str(number)))
    assert boxes.diff(LIVE, number, 9) == sorted(changed)
    assert boxes.value(
        "select live_ts = '2000-01-01' from gapless.attached where attachment_id = %s", number
    )
    assert boxes.value(LIVE, number, 9) is True


def test_a_trigger_is_no_proof_that_all_is_copied(boxes: Boxes) -> None:
    """As after a restore of a table that was copied in part."""
    boxes.fill(1, 2)
    number = boxes.attach()
    boxes.run(TRIGGER.format("box", number))
    assert boxes.diff(LIVE, number, 9) == sorted(
        [*copied(1, 2), *moved("begin", "2", live=("copied", "live"))]
    )
