"""subscribe(), unsubscribe(), renew_subscription() and what expires: which rows of which group change, and no others.

Four groups have the same subscriptions a and b, stopped in every partition. The clock of what expires stands still.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.subscribed import (
    ELSEWHERE,
    HERE,
    PLACES,
    SUBSCRIBE,
    Changed,
    deed,
    number,
    request,
    rows,
    stop,
    subscribe,
)
from support.twins import Twins

SAID: dict[str, Any] = {
    "match": {"c": "$.c"}, "params": {"c": 1, "min": 2}, "condition": "$.n > $min",
    "sql": "e.key is not null", "expires_after": "1 day",
}  # fmt: skip
PATH = '($."n" > $"min")'
ROW = "subscription billing orders "
A, B, C = f"{ROW}a", f"{ROW}b", f"{ROW}c"
STOPS = [f"stop billing orders a {n}" for n in range(3)]
FORM = f"billing orders {{c}} {{$.c}} {PATH} e.key is not null"
UNSUBSCRIBE = "select gapless.unsubscribe(%s, %s, %s)"
RENEW = "select gapless.renew_subscription(%s, %s, %s)"
NO_GROUP = ("GL404", 'there is no group "nobody": gapless groups lists them')


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    conn = shared.conn
    conn.execute("select gapless.create_group('fresh', t) from unnest(array['orders', 'other']) t")
    conn.execute("update gapless.expiry_clock set watched = '10 days', looked_ts = '2999-01-01Z'")
    for place in PLACES:
        for name in ("a", "b"):
            subscribe(shared, name, place, **SAID)
    conn.execute("update gapless.subscription set renewed_at = '3 days'")
    stop(shared, "true", 5)
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        yield settled


@pytest.fixture
def other(module_dsn: str, twins: Twins) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="test") as conn, conn.transaction(force_rollback=True):
        yield conn


def again(twins: Twins, name: str = "a", **other: Any) -> tuple[Any, Changed, list[Any]]:
    """Subscribe, and say the same but for these."""
    return deed(twins, SUBSCRIBE, request(name, HERE, **SAID | other))


def audit(name: str, **other: Any) -> Any:
    """What is audited of a subscription that says the same but for these."""
    said = SAID | other
    detail = {
        "name": name, "match": said["match"], "params": said["params"], "where": said.get("path", PATH),
        "sql_condition": said["sql"], "expires_after": said["expires_after"],
    }  # fmt: skip
    return ("subscribe", *HERE, None, detail)


def test_to_say_the_same_renews_it_alone(twins: Twins) -> None:
    answer, changed, audited = again(twins)
    assert (answer, audited, list(changed)) == (False, [], [A])
    was, now = changed[A]
    assert (was["renewed_at"], now) == ("3 days", was | {"renewed_at": "10 days"})


@pytest.mark.parametrize("expires_after", ["2 days", None])
def test_another_time_is_a_change_that_keeps_its_number(
    twins: Twins, expires_after: str | None
) -> None:
    answer, changed, audited = again(twins, expires_after=expires_after)
    detail = {"name": "a", "expires_after": expires_after}
    assert (answer, list(changed)) == (True, [A])
    assert audited == [("subscribe", *HERE, None, detail)]
    was, now = changed[A]
    assert now == was | {"renewed_at": "10 days", "expires_after": expires_after}


TRUE = "condition true", "compiled condition_b326b5062b2f0e69046810717534cb09"
# What is said anew; what of its row is another, and which rows come.
ANEW: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "params": ({"params": {"c": 2, "min": 2}}, {"params": {"c": 2, "min": 2}, "values": [2]}, []),
    "params that are no values": (
        {"params": {"c": 1, "min": 2, "x": 0}}, {"params": {"c": 1, "min": 2, "x": 0}}, [],
    ),
    "another path": (
        {"match": {"c": "key"}}, {"form": FORM.replace("$.c", "key")},
        ["form " + FORM.replace("$.c", "key")],
    ),
    "another name": (
        {"match": {"min": "$.c"}}, {"form": FORM.replace("{c}", "{min}"), "values": [2]},
        ["form " + FORM.replace("{c}", "{min}")],
    ),
    "no values": (
        {"match": {}}, {"form": FORM.replace("{c} {$.c}", "{} {}"), "values": []},
        ["form " + FORM.replace("{c} {$.c}", "{} {}")],
    ),
    "no path": (
        {"condition": None, "path": None}, {"form": FORM.replace(f" {PATH}", "")},
        ["form " + FORM.replace(f" {PATH}", "")],
    ),
    "another path, spelled the same": ({"condition": "$.n>$min"}, {}, []),
    "no SQL": (
        {"sql": None}, {"form": FORM.replace(" e.key is not null", "")},
        ["form " + FORM.replace(" e.key is not null", "")],
    ),
    "other SQL": (
        {"sql": "true"}, {"form": FORM.replace("e.key is not null", "true")},
        ["form " + FORM.replace("e.key is not null", "true"), *TRUE],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in ANEW if "spelled" not in name])
def test_to_say_something_else_replaces_it(twins: Twins, name: str) -> None:
    """Under its number, by which letters know it; what was stopped of it stays so."""
    other, differs, come = ANEW[name]
    said = {key: value for key, value in other.items() if key != "path"}
    answer, changed, audited = again(twins, **said)
    assert (answer, sorted(changed)) == (True, sorted([A, *come]))
    was, now = changed[A]
    assert now == was | differs | {"renewed_at": "10 days"}
    assert all(changed[each][0] is None for each in come)
    assert audited == [audit("a", **other)]
    assert again(twins, **said)[:2] == (False, {})


def test_a_path_that_is_spelled_otherwise_says_the_same(twins: Twins) -> None:
    assert again(twins, condition="$.n>$min")[0] is False


def test_a_new_one_says_what_it_is_told(twins: Twins) -> None:
    """Others of the group, and those of its name elsewhere, say the same: that is no matter."""
    for place in ELSEWHERE:
        subscribe(twins, "c", place, **SAID)
    answer, changed, audited = again(twins, "c")
    assert (answer, list(changed), audited) == (True, [C], [audit("c")])
    was, now = changed[C]
    like = rows(twins)[A]
    assert (was, now) == (None, like | {"renewed_at": "10 days", "number": number(twins, "c")})
    assert again(twins, "c")[:2] == (False, {})


def test_a_form_is_of_one_group_and_topic(twins: Twins) -> None:
    """Even if others have the same."""
    other = SAID | {"sql": "true"}
    for place in ELSEWHERE:
        subscribe(twins, "c", place, **other)
    form = FORM.replace("e.key is not null", "true")
    answer, changed, _ = again(twins, "c", sql="true")
    assert (answer, sorted(changed)) == (True, sorted([f"form {form}", C]))
    assert changed[C][1]["form"] == form


def test_what_it_has_to_say(twins: Twins) -> None:
    """An SQL condition is enough; nothing at all is not, nor is no time."""
    nothing = {"match": {}, "params": {}, "condition": None}
    assert again(twins, "c", **nothing)[0] is True
    refused = twins.refused(SUBSCRIBE, request("d", **nothing))
    assert (refused[0], refused[1].split(",")[0]) == (
        "GL400",
        'subscription "d" matches by values',
    )
    said = 'subscription "d" expires after 1 minute to ten years, not 00:00:59'
    asked = request("d", **SAID | {"expires_after": "59 s"})
    assert twins.refused(SUBSCRIBE, asked) == ("GL400", said.replace("ten", "10"))


def test_the_last_of_a_form_takes_it_with_it_and_the_last_of_a_text_that(twins: Twins) -> None:
    """Each subscription goes with what was stopped of it."""
    said = (True, [("unsubscribe", *HERE, None, {"name": "a"})])
    answer, changed, audited = deed(twins, UNSUBSCRIBE, [*HERE, "a"])
    assert (answer, audited, sorted(changed)) == (*said, sorted([A, *STOPS]))
    assert deed(twins, UNSUBSCRIBE, [*HERE, "a"]) == (False, {}, [])
    _, changed, _ = deed(twins, UNSUBSCRIBE, [*HERE, "b"])
    stops = [each.replace(" a ", " b ") for each in STOPS]
    assert sorted(changed) == sorted([B, *stops, f"form {FORM}"])
    assert all(after is None for _, after in changed.values())
    for place in ELSEWHERE:
        _, changed, _ = deed(twins, UNSUBSCRIBE, [*place, "a"])
        assert not any(each.startswith(("form", "condition", "compiled")) for each in changed)
        _, changed, _ = deed(twins, UNSUBSCRIBE, [*place, "b"])
        kinds = sorted(each.split()[0] for each in changed if not each.startswith("s"))
        assert kinds == (["form"] if place != ELSEWHERE[-1] else ["compiled", "condition", "form"])
    assert again(twins)[0] is True


def test_who_is_not_there_cannot_be_taken_away(twins: Twins) -> None:
    for place in (HERE, ("fresh", "orders"), ("auditor", "orders")):
        assert deed(twins, UNSUBSCRIBE, [*place, "c"]) == (False, {}, [])
        assert deed(twins, RENEW, [*place, "c"]) == (False, {}, [])
    for statement in (UNSUBSCRIBE, RENEW):
        assert twins.refused(statement, ["nobody", "orders", "a"]) == NO_GROUP


@pytest.mark.parametrize("expires", [True, False])
def test_one_that_expires_is_renewed(twins: Twins, expires: bool) -> None:
    if not expires:
        twins.conn.execute("update gapless.subscription set expires_after = null")
    answer, changed, audited = deed(twins, RENEW, [*HERE, "a"])
    assert (answer, audited, list(changed)) == (True, [], [A] if expires else [])
    if expires:
        was, now = changed[A]
        assert now == was | {"renewed_at": "10 days"}


def test_a_group_begins_with_its_first_one(twins: Twins) -> None:
    """Its next claims in every partition know, and what was counted for it begins anew; no other group is touched."""
    twins.conn.execute(
        "insert into gapless.filter_tally (group_id, topic_id, partition_id, filter_no, kept, passed, unasked)"
        " select group_id, topic_id, partition_id, filter_no, 1, 1, 0 from gapless.consumer_offsets"
        " where group_id in ('fresh', 'billing')"
    )
    asked = request("a", ("fresh", "orders"), **SAID)
    answer, changed, _ = deed(twins, SUBSCRIBE, asked)
    assert answer is True
    was, now = changed["filter fresh orders"]
    assert (was, now["subscribed"], now["event_types"], now["condition"]) == (
        None, True, None, None,
    )  # fmt: skip
    places = [f"place fresh orders {n}" for n in range(3)]
    tallies = [f"tally fresh orders {n}" for n in range(3)]
    assert sorted(changed) == sorted(
        [
            "filter fresh orders",
            *places,
            *tallies,
            "subscription fresh orders a",
            "form " + FORM.replace("billing", "fresh"),
        ]
    )
    for place in places:
        was, now = changed[place]
        assert now == was | {"filter_no": changed["filter fresh orders"][1]["filter_no"]}
    begin = "select gapless.begin_subscriptions('fresh', 'orders', %s)::text"
    assert deed(twins, begin, [twins.topic_ids["orders"]]) == ("", {}, [])


LATEST = "update gapless.consumer_offsets set latest_upto = next_offset + {} where {}"
FRESH = "group_id = 'fresh' and topic_id = {orders}"
READS_LATEST = (
    "GL409",
    (
        'group "fresh" still reads the latest event of each key: '
        "it takes subscriptions when it has come to the log"
    ),
)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (LATEST.format(0, FRESH), None),
        (LATEST.format(1, FRESH), READS_LATEST),
        (LATEST.format(1, f"{FRESH} and partition_id = 2"), READS_LATEST),
        (LATEST.format(1, f"not ({FRESH})"), None),
        ("update gapless.consumer_group set mode = 'queue', block = 4 where not ({fresh})", None),
        ("delete from gapless.group_filter", None),
    ],
)
def test_what_others_read_or_are_is_no_matter(
    twins: Twins, change: str, refusal: tuple[str, str] | None
) -> None:
    orders = twins.topic_ids["orders"]
    change = change.replace("{fresh}", FRESH).format(orders=orders)
    twins.conn.execute(change)
    asked = request("a", ("fresh", "orders"), **SAID)
    if refusal is None:
        assert twins.conn.execute(SUBSCRIBE, asked).fetchone() == (True,)
    else:
        assert twins.refused(SUBSCRIBE, asked) == refusal
