"""Groups that are shown under the classic name: which, in which view, by whom; and what is anybody else's stays."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.twins import Changes, Twins

VIEW = "public.consumer_offsets"
SHOW = "select gapless.show_classic(%s, %s, %s)"
HIDE = "select gapless.hide_classic(%s, %s)"
SHOWN = "select group_id, topic_id, partition_id, next_offset from {} order by 1, 2, 3"
LOCKS = (
    "select count(*) from pg_locks where relation = 'gapless.guard_classic'::regclass"
    " and mode = 'ExclusiveLock' and granted and pid = pg_backend_pid()"
)
STAYS = "{} shows nothing any more; it stays: it is another role's, or something depends on it"


@pytest.fixture
def twins(twins: Twins) -> Twins:
    """Alone has one topic."""
    twins.conn.execute("select gapless.create_group('alone', 'other')")
    return twins


def called(twins: Twins, statement: str, *params: Any) -> tuple[Any, Changes]:
    twins.conn.execute("drop table if exists pg_temp.answer")
    changed = twins.changes(
        f"create temp table answer on commit drop as {statement} as n", [*params]
    )
    return twins.value("select n from pg_temp.answer"), changed


def noted(changed: Changes, place: str, *, is_shown: bool, view: str | None) -> None:
    """Take what is noted of a group, by whom, out of what changed."""
    row = changed.pop(f"classic_group {place}")
    was, now = (None, view) if is_shown else (view, None)
    assert row["view_name"] == (was, now)
    who = row["asked_by"]
    assert who[int(is_shown)] is not None
    audit = changed.pop(f"audit classic-{'show' if is_shown else 'hide'} {place} None")
    assert json.loads(audit["detail"][1]) == {"view": view if is_shown else None}


def shown(twins: Twins, view: str = VIEW) -> list[Any]:
    return twins.conn.execute(SHOWN.format(view).encode()).fetchall()


def is_there(twins: Twins, view: str = VIEW) -> bool:
    return twins.value("select to_regclass(%s) is not null", view) is True


def test_groups_are_shown_and_hidden(twins: Twins) -> None:
    """Each of its own topic; the view comes with the first, and goes with the last."""
    conn, ids = twins.conn, twins.topic_ids
    place = ("billing", "orders")
    answer, changed = called(twins, SHOW, *place, VIEW)
    noted(changed, "billing orders", is_shown=True, view=VIEW)
    assert (answer, changed) == (True, {})
    said = "select obj_description(%s::regclass)"
    assert twins.value(said, VIEW) == (
        "Offsets of groups of gapless, under the classic name: gapless classic hide"
    )
    assert called(twins, SHOW, *place, VIEW) == (False, {})
    twins.seek(7, twins.here())
    assert shown(twins) == [("billing", ids["orders"], n, 7 if n == 1 else 1) for n in range(3)]
    answer, changed = called(twins, SHOW, "alone", None, VIEW)
    noted(changed, "alone other", is_shown=True, view=VIEW)
    assert (answer, changed) == (True, {})
    for beside in (("mail", "orders"), ("billing", "other")):
        assert called(twins, SHOW, *beside, VIEW)[0] is True
        assert called(twins, HIDE, *beside)[0] is True
        assert called(twins, HIDE, *beside) == (False, {})
    answer, changed = called(twins, HIDE, *place)
    noted_hidden(changed, "billing orders")
    assert (answer, changed) == (True, {})
    assert shown(twins) == [("alone", ids["other"], n, 1) for n in range(3)]
    answer, changed = called(twins, HIDE, "alone", None)
    noted_hidden(changed, "alone other")
    assert (answer, changed, is_there(twins)) == (True, {}, False)
    assert called(twins, HIDE, *place) == (False, {})
    assert conn.execute("select from gapless.classic_group").fetchall() == []


def noted_hidden(changed: Changes, place: str) -> None:
    noted(changed, place, is_shown=False, view=VIEW)


NO_NAME = '"{}" is no name of a view: write it as SQL does, with its schema, such as public.consumer_offsets'
NAMES: dict[str, tuple[str, str]] = {
    "places": ("GL400", NO_NAME),
    "a.b.c": ("GL400", NO_NAME),
    "": ("GL400", NO_NAME),
    "public.": ("GL400", NO_NAME),
    "public.a b": ("GL400", NO_NAME),
    'public."a': ("GL400", NO_NAME),
    "public." + "x" * 64: ("GL400", NO_NAME),
    "public." + "ü" * 32: ("GL400", NO_NAME),
    "gapless.v": ("GL400", "schema gapless is that of gapless: show groups in one of your own"),
    'GAPLESS."v"': ("GL400", "schema gapless is that of gapless: show groups in one of your own"),
    "nowhere.v": ("GL404", 'there is no schema "nowhere"'),
}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_name_of_a_view(twins: Twins, name: str) -> None:
    state, said = NAMES[name]
    refused = twins.refused(SHOW, ["billing", "orders", name])
    assert refused == (state, said.format(name))


def test_a_view_has_some_name(twins: Twins) -> None:
    said = NO_NAME.format("<NULL>")
    assert twins.refused(SHOW, ["billing", "orders", None]) == ("GL400", said)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("public.places", "public.places"),
        ("PUBLIC.Places", "public.places"),
        ('public."Places of ""all"""', 'public."Places of ""all"""'),
        ("public." + "x" * 63, "public." + "x" * 63),
    ],
)
def test_names_are_as_sql_spells_them(twins: Twins, said: str, name: str) -> None:
    assert called(twins, SHOW, "billing", "orders", said)[0] is True
    assert len(shown(twins, name)) == 3
    assert twins.value("select view_name from gapless.classic_group") == name


def test_all_are_shown_under_one_name(twins: Twins) -> None:
    called(twins, SHOW, "billing", "orders", "public.places")
    said = "groups are shown in public.places already: one name for all; gapless classic hide ends that"
    for place in (("billing", "orders"), ("mail", "orders")):
        assert twins.refused(SHOW, [*place, VIEW]) == ("GL409", said)


@pytest.mark.parametrize(
    ("group", "topic", "state", "said"),
    [
        ("nobody", None, "GL404", 'there is no group "nobody": gapless groups lists them'),
        ("nobody", "orders", "GL404", 'there is no group "nobody" of topic "orders": gapless groups lists them'),
        ("alone", "orders", "GL404", 'there is no group "alone" of topic "orders": gapless groups lists them'),
        ("billing", None, "GL400", 'group "billing" has several topics: say which, as GROUP/TOPIC'),
        ("billing", "none", "GL404", 'topic "none" does not exist: create it with gapless topics create none'),
    ],
)  # fmt: skip
def test_which_group_is_meant(
    twins: Twins, group: str, topic: str | None, state: str, said: str
) -> None:
    assert twins.refused(SHOW, [group, topic, VIEW]) == (state, said)
    assert twins.refused(HIDE, [group, topic]) == (state, said)


# What has the name, and is none of ours; also while another view of ours is there.
THEIRS = {
    "a table": "create table {} (n int)",
    "a view of something else": "create view {} as select 1 as n",
    "a view of groups": "create view {} as select * from gapless.consumer_group",
    "a copy": "create materialized view {} as select * from gapless.classic_offsets",
    "a sequence": "create sequence {}",
}


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("what", THEIRS)
def test_what_is_somebody_elses_is_not_replaced(twins: Twins, what: str, beside: bool) -> None:
    """Nor dropped, where it took the place of the view since."""
    conn = twins.conn
    if beside:
        conn.execute("create view public.beside as select * from gapless.classic_offsets")
    with twins.undone():
        conn.execute(THEIRS[what].format(VIEW).encode())
        said = (
            f"{VIEW} is there, and gapless did not make it: rename it once no old consumer uses it, or show the "
            "groups under another name (--as)"
        )
        assert twins.refused(SHOW, ["billing", "orders", VIEW]) == ("GL409", said)
    called(twins, SHOW, "billing", "orders", VIEW)
    conn.execute(f"drop view {VIEW}".encode())
    conn.execute(THEIRS[what].format(VIEW).encode())
    assert called(twins, HIDE, "billing", "orders")[0] is True
    assert is_there(twins)
    assert is_there(twins, "public.beside") == beside


@pytest.mark.parametrize(
    ("name", "of_schema"), [(VIEW, "elsewhere.consumer_offsets"), ("elsewhere.v", "public.v")]
)
def test_the_same_name_in_another_schema_is_another(
    twins: Twins, name: str, of_schema: str
) -> None:
    conn = twins.conn
    conn.execute("create schema elsewhere")
    conn.execute(f"create view {of_schema} as select * from gapless.classic_offsets".encode())
    assert called(twins, SHOW, "billing", "orders", name)[0] is True
    assert len(shown(twins, name)) == 3
    assert called(twins, HIDE, "billing", "orders")[0] is True
    assert (is_there(twins, name), is_there(twins, of_schema)) == (False, True)


def test_a_view_that_is_gone_is_made_anew(twins: Twins) -> None:
    """Or was never needed: what it showed is noted still."""
    called(twins, SHOW, "billing", "orders", VIEW)
    twins.conn.execute(f"drop view {VIEW}".encode())
    assert called(twins, SHOW, "billing", "orders", VIEW) == (False, {})
    assert len(shown(twins)) == 3
    twins.conn.execute(f"drop view {VIEW}".encode())
    assert called(twins, HIDE, "billing", "orders")[0] is True
    assert not is_there(twins)


@pytest.mark.parametrize("whose", ["something depends on it", "it is another role's"])
def test_a_view_that_cannot_go_stays_and_shows_nothing(twins: Twins, whose: str) -> None:
    conn = twins.conn
    called(twins, SHOW, "billing", "orders", VIEW)
    if whose == "something depends on it":
        conn.execute(f"create view public.dashboard as select * from {VIEW}".encode())
    else:
        conn.execute("set local role gapless_operator")
    told: list[str | None] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            told.append(diagnostic.message_primary)

    conn.add_notice_handler(note)
    try:
        assert twins.value(HIDE, "billing", "orders") is True
    finally:
        conn.remove_notice_handler(note)
    conn.execute("reset role")
    assert told == [STAYS.format(VIEW)]
    assert shown(twins) == []


@pytest.mark.parametrize(
    "call",
    [
        "show_classic('billing', 'orders')", "hide_classic('billing', 'orders')",
        "notify_classic('orders')", "silence_classic('orders')",
    ],
)  # fmt: skip
def test_one_at_a_time_changes_what_is_shown(twins: Twins, call: str) -> None:
    assert twins.value(LOCKS) == 0
    twins.conn.execute(f"select gapless.{call}".encode())
    assert twins.value(LOCKS) == 1


@pytest.fixture(autouse=True)
def _quiet(shared: Twins) -> Iterator[None]:
    """Nothing is left of it."""
    yield
    assert shared.value("select count(*) from gapless.classic_group") == 0
