"""What filters and expiries may be, what of a group is there, and what tells that somebody works for it."""

from typing import Any

import pytest

from support.twins import Twins

HEAD, TAIL = '{"n": "', '"}'


def params(chars: int) -> str:
    """An object of so many characters."""
    return HEAD + "x" * (chars - len(HEAD) - len(TAIL)) + TAIL


def condition(chars: int) -> str:
    return '$.n == "' + "x" * (chars - 9) + '"'


TYPES: dict[str, tuple[Any, str]] = {
    "none": (None, ""),
    "a hundred": (["a"] * 100, ""),
    "a list of none": ([], "a filter has 1 to 100 event types in a list, not 0"),
    "one more": (["a"] * 101, "a filter has 1 to 100 event types in a list, not 101"),
    "a table": ([["a"], ["b"]], "a filter has 1 to 100 event types in a list, not 2"),
    "the longest": (["a", "b" * 200], ""),
    "a longer one": (["a", "b" * 201], f'event type "{"b" * 100}" of a filter'),
    "an empty one": (["a", ""], 'event type "" of a filter'),
    "null": (["a", None], 'event type "null" of a filter'),
    "three wildcards": (["a", "*a*b*"], ""),
    "four": (["a", "*a**b*"], 'event type "*a**b*" of a filter'),
}


@pytest.mark.parametrize("name", TYPES)
def test_which_event_types_a_filter_may_have(twins: Twins, name: str) -> None:
    types, said = TYPES[name]
    call = "select gapless.check_event_types(%s::text[])"
    if not said:
        twins.conn.execute(call, [types])
        return
    state, text = twins.refused(call, [types])
    assert (state, text[: len(said)]) == ("GL400", said)


@pytest.mark.parametrize(
    ("after", "is_refused"),
    [(None, False), ("59.999 s", True), ("60 s", False), ("315576000 s", False), ("315576001 s", True)],
)  # fmt: skip
def test_after_which_time_something_may_expire(
    twins: Twins, after: str | None, is_refused: bool
) -> None:
    call = "select gapless.check_expiry('a thing', %s::interval)"
    if is_refused:
        state, text = twins.refused(call, [after])
        assert (state, text[:48]) == ("GL400", "a thing expires after 1 minute to 10 years, not ")
    else:
        twins.conn.execute(call, [after])


NO_VALUE = "the condition of a filter has no value for $"
TWICE = "the condition of a filter has ** more than once"
# condition, params, what it says (else it is one)
CONDITIONS: dict[str, tuple[str | None, str | None, str]] = {
    "nothing": (None, None, ""),
    "nothing, of an empty object": (None, "{}", ""),
    "params of no condition": (None, '{"n": 1}', "the params of a filter are for its condition, and there is none"),
    "params that are no object": ("$.n > 1", "[1]", "the params of a filter are a JSON object of at most 10000"),
    "the longest params": ("$.n > $n", params(10000), ""),
    "longer ones": ("$.n > $n", params(10001), "the params of a filter are a JSON object of at most 10000"),
    "the longest condition": (condition(10000), None, ""),
    "a longer one": (condition(10001), None, "the condition of a filter has at most 10000 characters, not 10001"),
    "no jsonpath": ("$.n >", None, "the condition of a filter is no jsonpath: $.n >: "),
    "everything below, once": ("$.**.n > 1", None, ""),
    "everything below, twice": ("$.**.n > $.**.m", None, TWICE),
    "in texts it is none": ('$.n == "** **" && $.**.m == 1', None, ""),
    "behind a quote in a text": (r'$.n == "\"" && $.**.m == 1 && $.**.o == 1', None, TWICE),
    "a value too few": ("$.n > $b && $.n < $a && $.n <> $c", '{"c": 1}', f"{NO_VALUE}a, b: "),
    "one that is not there twice": ("$.n > $b && $.n < $b", None, f"{NO_VALUE}b: "),
    "what says nothing of an empty object": ("$.n", None, ""),
    "all values": ("$.n > $b && $.n < $a", '{"a": 1, "b": null}', ""),
    "more values than one": ("$.n > $b", '{"a": 1, "b": 2}', ""),
    "a text is no variable": ('$.n == "a" && $."k" == 1', None, ""),
    "a name with a quote": (r'$.n == $"a\"b"', r'{"a\"b": 1}', ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_which_conditions_a_filter_may_have(twins: Twins, name: str) -> None:
    text, given, said = CONDITIONS[name]
    call = "select gapless.checked_condition(%s, %s::jsonb)"
    if said:
        state, heard = twins.refused(call, [text, given])
        assert (state, heard[: len(said)]) == ("GL400", said)
    else:
        (same,) = twins.conn.execute(
            "select gapless.checked_condition(%(c)s, %(p)s::jsonb)::text is not distinct from %(c)s::jsonpath::text",
            {"c": text, "p": given},
        ).fetchone() or (None,)
        assert same is True


def test_what_raises_at_each_event_is_refused_at_once(twins: Twins) -> None:
    text = '"2020-01-01T10:00:00+02:00".datetime() < "2020-01-01".datetime()'
    twins.refused("select gapless.checked_condition(%s, null)", [text])


@pytest.mark.parametrize(
    ("since_s", "gap_s", "counted_s"),
    [
        (10, 30, 10), (30, 30, 30), (31, 30, 30), (-5, 30, 0), (10, -1, 0),
        (3600, 9999, 3600), (3601, 9999, 3600), (3599.5, 9999, 3599.5),
    ],
)  # fmt: skip
def test_which_time_counts(twins: Twins, since_s: float, gap_s: float, counted_s: float) -> None:
    counted = twins.value(
        "select extract(epoch from gapless.counted_time(now(), now() + make_interval(secs => %s), %s))",
        since_s,
        gap_s,
    )
    assert float(counted) == counted_s


def test_a_star_is_the_only_wildcard(twins: Twins) -> None:
    assert twins.value("select gapless.type_pattern(%s)", r"a*b_c%d\*") == r"a%b\_c\%d\\%"


def test_who_looks_for_whom_an_event_is(twins: Twins) -> None:
    twins.conn.execute("update gapless.topic set direct = true where name = 'orders'")
    found = {
        each: twins.value("select gapless.unfiltered(%s)", n) for each, n in twins.topic_ids.items()
    }
    assert found == {"orders": -1, "other": 0}


@pytest.mark.parametrize(
    ("pauses", "is_paused"),
    [
        (["'mail', 'orders'", "'billing', 'other'", "'billing', 'orders', 0", "'billing', 'orders', 2"], False),
        (["'billing', 'orders'"], True),
        (["'billing', 'orders', 1"], True),
        (["'billing'"], True),
    ],
)  # fmt: skip
def test_whether_a_partition_is_paused(twins: Twins, pauses: list[str], is_paused: bool) -> None:
    for each in pauses:
        twins.conn.execute(f"select gapless.pause({each})")
    assert (
        twins.value("select gapless.is_paused('billing', %s, 1)", twins.topic_ids["orders"])
        is is_paused
    )


# The rows of a group: what is asked for, and how many partitions of which topics come, or what is said
PLACES: dict[str, tuple[str, list[str], str]] = {
    "all": ("'billing'", ["orders 0", "orders 1", "orders 2", "other 0", "other 1", "other 2"], ""),
    "a topic": ("'billing', 'orders'", ["orders 0", "orders 1", "orders 2"], ""),
    "a partition": ("'billing', 'orders', 1", ["orders 1"], ""),
    "a partition of the one topic": ("'alone', null, 1", ["orders 1"], ""),
    "of no group": ("'nobody'", [], 'GL404 there is no group "nobody": gapless groups lists them'),
    "of another topic": ("'alone', 'other'", [], 'GL404 group "alone" does not consume topic "other", but orders'),
    "a partition of several topics": (
        "'billing', null, 1", [],
        'GL400 group "billing" consumes several topics: say of which partition 1 is (--topic): orders, other',
    ),
    "a partition that is not there": (
        "'billing', 'orders', 3", [],
        'GL404 group "billing" has no partition 3 of topic "orders": gapless groups show billing lists them',
    ),
    "one of the only topic": (
        "'alone', null, 3", [],
        'GL404 group "alone" has no partition 3 of topic "orders": gapless groups show alone lists them',
    ),
    "no partition at all": ("'empty', 'orders'", [], 'GL404 group "empty" has no partition of topic "orders"'),
    "nor any topic's": ("'empty'", [], 'GL404 group "empty" has no partition of topic "orders"'),
}  # fmt: skip
LOST = (
    "delete from gapless.consumer_offsets where {here};"
    "update gapless.lease set epoch = 9 where {here};"
    "insert into gapless.log_start values ({orders}, 1, 4, now()), ({orders}, 0, 5, now()), ({other}, 1, 6, now())"
)


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("name", PLACES)
def test_which_partitions_a_group_has(twins: Twins, name: str, is_lost: bool) -> None:
    """One without a row of its own is there all the same, where its log begins, with its lease's epoch."""
    twins.conn.execute(
        "select gapless.create_group('alone', 'orders'), gapless.create_group('empty', 'orders')"
    )
    twins.conn.execute("update gapless.consumer_offsets set epoch = 3")
    twins.conn.execute("delete from gapless.consumer_offsets where group_id = 'empty'")
    twins.conn.execute("delete from gapless.lease where group_id = 'empty'")
    arguments, places, said = PLACES[name]
    if is_lost:
        words = {"here": twins.here("alone" if "alone" in arguments else "billing")}
        twins.conn.execute(LOST.format(**words, **twins.topic_ids))
    query = (
        "select t.name || ' ' || p.partition_id, p.next_offset, p.epoch, p.attempts, p.layout, p.passed"
        f" from gapless.group_partitions({arguments}) p join gapless.topic t using (topic_id)"
    )
    if said:
        assert " ".join(twins.refused(query)) == said
        return
    lost = (4, 9, 0, 0, 0)
    assert twins.conn.execute(query).fetchall() == [
        (place, *(lost if is_lost and place == "orders 1" else (1, 3, 0, 0, 0))) for place in places
    ]


LETTERS = (
    "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
    " transaction_id, state, attempts, reason, exception, next_attempt_ts)"
    " select group_id, topic_id, partition_id, n, n, 1, gen_random_uuid(), 'waiting', n, 'no', 'no',"
    " timestamptz '2020-01-01' + make_interval(secs => n) from gapless.consumer_offsets, generate_series(1, 2) n"
)
RANGES = (
    "insert into gapless.queue_range (first_offset, last_offset, lease_no, tries, since_ts)"
    " select n, n, l.lease_no, n, timestamptz '2020-01-01' + make_interval(secs => n)"
    " from gapless.lease l join gapless.consumer_group g using (group_id, topic_id), generate_series(1, 2) n"
    " where g.mode = 'queue'"
)
RANGE = "update gapless.queue_range set {} where lease_no = {lease} and first_offset = {}"
LETTER = "update gapless.dead_letter set {} where {here} and first_offset = {}"
TRACES = {
    "its place": "update gapless.consumer_offsets set epoch = epoch + 1 where {here}",
    "its offset": "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
    "update gapless.consumer_offsets set next_offset = 2 where {here}",
    "one range more": "insert into gapless.queue_range (first_offset, last_offset, lease_no, tries, since_ts)"
    " values (0, 1, {lease}, 0, '2020-01-01')",
    "the end of the last range": RANGE.format("last_offset = 3", 2, lease="{lease}"),
    "when the last one was taken": RANGE.format("since_ts = now()", 2, lease="{lease}"),
    "how often a range was": RANGE.format("tries = 3", 1, lease="{lease}"),
    "one letter less": "delete from gapless.dead_letter where {here} and first_offset = 1",
    "an attempt at a letter": LETTER.format("attempts = 9", 1, here="{here}"),
    "when a letter is due": LETTER.format("next_attempt_ts = now()", 2, here="{here}"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRACES)
def test_what_tells_that_somebody_works_for_a_group(twins: Twins, name: str) -> None:
    """Each of it changes the traces of this group, in whichever topic, and of no other."""
    for statement in (LETTERS, RANGES):
        twins.conn.execute(statement)

    def traces() -> dict[str, str]:
        query = "select g, gapless.group_traces(g) from unnest(%s::text[]) g"
        return dict(twins.conn.execute(query, [["auditor", "sender", "billing"]]).fetchall())

    before = traces()

    lease = twins.leases["sender", "orders", 1]
    twins.conn.execute(TRACES[name].format(here=twins.here("sender"), lease=lease))
    after = traces()
    assert {group for group in after if after[group] != before[group]} == {"sender"}
