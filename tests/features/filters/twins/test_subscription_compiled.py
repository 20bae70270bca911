"""What the server makes of the text of a SQL condition: refused for what it uses, compiled once, and taken away."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.fleet import until
from support.subscribed import SUBSCRIBE, deed, request, rows, subscribe
from support.twins import Twins

MAKE = "select gapless.make_condition(%s)::text"
DROP = "select gapless.drop_condition(%s)"
KNOWN = "e.key = 'known'"
TIMES = (
    "has a time such as 'today' or 'now' in quotes, which is read only once, when it is registered:"
    " write current_date, current_date - 1, current_date + 1 or now()"
)
OVER = "is an expression over e and s, and not "
TAKEN = [
    "e.payload @> '{\"a\": 1}' or s.params ? 'a'",
    "case when e.key = 'a' then true else e.payload ->> 'a' = '(' end",
    "e.created_ts > now() - interval '1 day' and extract(hour from e.created_ts) >= 0",
    "e.created_ts::date > current_date - 1",
    "e.event_type like 'order.%' or e.key = any (array['a', 'b'])",
    "coalesce(e.user_id, e.host_id) is distinct from nullif(s.name, '')",
    "array[e.key] = array[s.name] and (array[e.key])[1] = greatest(e.key, 'b')",
    "e is not null and to_char(e.created_ts, 'YYYY') > '2000' and pg_catalog.lower(e.key) = 'a'",
    "e.payload ->> 'today' = 'now' or e.event_type in ('today', 'yesterday''s', 'tomorrow')",
    "e.created_ts > '2026-11-25' and e.payload ? 'now'",
    "jsonb_path_exists_tz(e.payload, '$.a') or concat(e.key, 1) = ''",
]
REFUSED = {
    "(select true)": "has no subqueries",
    "exists (select 1)": "has no subqueries",
    "count(*) > 1": f"{OVER}aggref",
    "row(1, e.key) = row(1, s.name) and row(e.key) is null": f"{OVER}rowexpr",
    "pg_sleep(1) is null": "has no values of type void",
    "textout(e.key) is null": "has no values of type cstring",
    "'pg_class'::regclass is null": "has no values of type regclass",
    "'{pg_class}'::regclass[] is null": "has no values of type regclass[]",
    "'pg_class'::regclass is null or textout(e.key) is null": "has no values of type cstring, regclass",
    "repeat(e.key, 3) = ''": "may not call repeat",
    "lpad(e.key, 3) = rpad(e.key, 3)": "may not call lpad, rpad",
    "random() > 0.5": "may not call random",
    "generate_series(1, 3) > 1": "may not call generate_series",
    "current_setting('a') = ''": "may not call current_setting",
    "set_config('a.b', 'c', false) = ''": "may not call set_config",
    "e.created_ts >= 'today'": TIMES,
    "e.created_ts < 'now'::timestamptz": TIMES,
    "e.key = 'now' and e.created_ts::time < 'now'": TIMES,
    "e.created_ts::date = any ('{today,tomorrow}')": TIMES,
    "e.created_ts > 'now' and random() > 0.5": "may not call random",
    "e.created_ts > 'now' and": 'is no SQL condition: syntax error at or near ")"',
    "e.key = 'now' and nosuch": 'is no SQL condition: column "nosuch" does not exist',
    "1": "is no SQL condition: return type mismatch in function declared to return boolean",
    "true union select true": 'is no SQL condition: syntax error at or near "union"',
    "e.key = 'a": "has a text that does not end",
    "a;": 'is one expression, without ";"',
}


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """One of the texts is known: a subscription of another group has it."""
    subscribe(shared, "known", ("mail", "other"), sql=KNOWN)
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        yield settled


@pytest.fixture
def other(module_dsn: str, twins: Twins) -> Iterator[Connection[Any]]:
    """Another session; what it does is taken back, before the other one goes on."""
    with connect(module_dsn, role="test") as conn, conn.transaction(force_rollback=True):
        yield conn


def digest(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def names(*texts: str) -> set[str]:
    """The rows of these texts."""
    kinds = (
        (f"condition {text}" for text in texts),
        (f"compiled condition_{digest(text)}" for text in texts),
    )
    return {each for kind in kinds for each in kind}


@pytest.mark.parametrize("text", TAKEN, ids=lambda text: text[:20])
def test_a_text_is_compiled(twins: Twins, text: str) -> None:
    """Once; and nothing else happens."""
    answer, changed, audited = deed(twins, MAKE, [text])
    assert UUID(answer).hex == digest(text)
    assert (set(changed), audited) == (names(text), [])
    assert changed[f"condition {text}"] == (None, answer)
    assert deed(twins, MAKE, [text]) == (answer, {}, [])


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_a_text_is_refused_for_what_it_means(twins: Twins, text: str) -> None:
    state, said = twins.refused(MAKE, [text])
    assert state == "GL400"
    assert said == REFUSED[text] or (REFUSED[text].startswith(OVER) and REFUSED[text] in said)
    said = twins.refused(
        "select gapless.subscribe('billing', 'orders', 'a', sql_condition => %s)", [text]
    )[1]
    assert said.startswith(f'the SQL condition of subscription "a" {REFUSED[text]}')


def test_one_that_is_known_is_not_made_again_and_locks_nobody_out(
    twins: Twins, other: Connection[Any]
) -> None:
    """But nobody drops it any more."""
    assert other.execute(MAKE, [KNOWN]).fetchall() == [(str(UUID(digest(KNOWN))),)]
    twins.conn.execute("set local lock_timeout = '20ms'")
    twins.conn.execute("lock table gapless.condition in share row exclusive mode")
    free = "select count(*) from (select from gapless.condition for update skip locked) x"
    assert twins.value(free) == 0
    assert twins.value(free.replace("update", "key share")) == 1


def test_who_compiles_waits_for_who_compiles(twins: Twins, other: Connection[Any]) -> None:
    other.execute(MAKE, ["e.key = 'new'"])
    twins.conn.execute("set local lock_timeout = '20ms'")
    assert twins.refused(MAKE, ["e.key = 'newer'"])[0] == "55P03"
    assert twins.refused(DROP, [digest(KNOWN)])[0] == "55P03"
    assert deed(twins, MAKE, [KNOWN])[1] == {}


def test_what_nobody_has_is_taken_away_alone(twins: Twins) -> None:
    """What somebody has stays, whichever group it is."""
    free, used = ["e.key = '1'", "e.key = '2'"], ["e.key = '3'", "e.key = '4'"]
    for text in free:
        twins.conn.execute(MAKE, [text])
    subscribe(twins, "a", ("mail", "other"), sql=used[0])
    subscribe(twins, "a", ("billing", "orders"), sql=used[1])
    for text in (*used, KNOWN, "e.key = '5'"):
        assert deed(twins, DROP, [digest(text)])[1] == {}
    for text in free:
        _, changed, audited = deed(twins, DROP, [digest(text)])
        assert (set(changed), audited) == (names(text), [])
        assert all(after is None for _, after in changed.values())


def test_what_others_found_keeps_nobody_from_dropping_another(
    twins: Twins, other: Connection[Any]
) -> None:
    other.execute(MAKE, [KNOWN])
    twins.conn.execute(MAKE, ["e.key = '1'"])
    twins.conn.execute("set local lock_timeout = '20ms'")
    assert set(deed(twins, DROP, [digest("e.key = '1'")])[1]) == names("e.key = '1'")


def test_what_somebody_is_about_to_have_is_waited_for_and_stays(
    module_dsn: str, settled: Twins
) -> None:
    """Who drops it knows only then that it is not the last one. (Committed, so cleaned up.)"""
    text = "e.key = 'found'"
    waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    with connect(module_dsn, role="test") as a, connect(module_dsn, role="test") as b:
        a.execute(MAKE, [text])
        try:
            with ThreadPoolExecutor(1) as pool:
                with a.transaction():
                    a.execute(SUBSCRIBE, request("found", sql=text))
                    dropped = pool.submit(b.execute, DROP, [digest(text)])
                    until(lambda: settled.value(waits, b.info.backend_pid), "it waits")
                dropped.result()
            assert names(text) <= rows(settled).keys()
        finally:
            a.execute("select gapless.unsubscribe('billing', 'orders', 'found')")
        assert not names(text) & rows(settled).keys()


# How ask_condition() is there, and whether its conditions are safe with that.
ASK = "gapless.ask_condition(uuid, gapless.condition_event[], gapless.condition_subscription[], bigint[], bigint[])"
SAFE = {
    "as it is made": ("", True),
    "somebody else's": (f"alter function {ASK} owner to current_user", False),
    "a superuser's": ("alter role gapless_condition superuser", False),
    "of who asks": (f"alter function {ASK} security invoker", False),
    "not there": (f"drop function {ASK}", False),
    "beside one of another schema": (
        "create function public.ask_condition() returns int language sql return 1", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE)
def test_conditions_are_asked_with_no_rights_or_not_at_all(twins: Twins, name: str) -> None:
    change, safe = SAFE[name]
    if change:
        twins.conn.execute(change)
    assert twins.value("select gapless.conditions_are_safe()") is safe
    if safe:
        assert deed(twins, MAKE, ["true"])[0] == str(UUID(digest("true")))
    else:
        state, said = twins.refused(MAKE, [KNOWN])
        assert (state, said.split(",")[0]) == ("GL400", "needs role gapless_condition")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("'sad'::public.mood is null", "type public.mood"),
        ("e.key operator(public.~~~~) 'a'", "operator public.~~~~(text,text)"),
        ("public.lower_of(e.key) = 'a'", "function public.lower_of(text)"),
        ("e.key = 'a'", None),
    ],
)
def test_what_depends_on_somebody_is_refused_by_the_tree(
    twins: Twins, body: str, named: str | None
) -> None:
    """Should a text ever get past the first wall; another condition's tree, or its name elsewhere, is not looked at."""
    made = "00000000-0000-0000-0000-00000000000"
    arguments = "(e gapless.condition_event, s gapless.condition_subscription) returns boolean language sql stable"
    for each in (
        "type public.mood as enum ('sad')",
        "function public.lower_of(text) returns text language sql immutable return lower($1)",
        "operator public.~~~~ (leftarg = text, rightarg = text, function = texteq)",
        f"function gapless.condition_{'0' * 31}1{arguments} return ({body})",
        f"function gapless.condition_{'0' * 31}2{arguments} return (public.lower_of(e.key) = 'b')",
        f"function public.condition_{'0' * 31}1{arguments} return (true)",
    ):
        twins.conn.execute(f"create {each}")
    check = "select gapless.check_condition(%s)"
    if named is None:
        twins.conn.execute(check, [f"{made}1"])
        return
    said = f"uses nothing but what PostgreSQL comes with, and not {named}"
    assert twins.refused(check, [f"{made}1"]) == ("GL400", said)


def test_what_it_calls_is_looked_at_by_itself(twins: Twins) -> None:
    """Should its dependencies ever not tell."""
    arguments = "(e gapless.condition_event, s gapless.condition_subscription)"
    for each in (
        "create function public.lower_of(text) returns text language sql immutable return lower($1)",
        (
            f"create function gapless.condition_{'0' * 32}{arguments} returns boolean language sql stable"
            " return (public.lower_of(e.key) = 'b')"
        ),
        "delete from pg_depend where refobjid = 'public.lower_of'::regproc",
    ):
        twins.conn.execute(each)
    check = "select gapless.check_condition('00000000-0000-0000-0000-000000000000')"
    assert twins.refused(check) == ("GL400", "may not call lower_of")
