"""groupBy user in SQL: user_units(), user_unit_end(), user_marks(), and torn_unit()."""

import re

import pytest

from support.twins import Twins

PUBLISH = (
    "insert into gapless.outbox_message_t (topic_id, host_id, user_id, payload)"
    " select %s, u.host_id, u.user_id, '1' from unnest(%s::text[], %s::text[]) u (host_id, user_id)"
    " returning id"
)
SEGMENT = (
    "insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids,"
    " unit_ends, run, layout) values (%s, 1, %s, %s, %s, %s::varbit, 1, %s)"
)


def lay(twins: Twins, log: str) -> None:
    """Let orders/1 be this log; others have segments one further, in which every event is a unit of z.

    Words are segments, letters the users of their events, those of a unit with + between them. Of a
    capital letter the host is another one, _ is a without host, - has no user, * is lost; ### is a
    hole of three offsets, and at ' another layout begins.
    """
    topic_id, base, layout = twins.topic_ids["orders"], 1, 0
    here = f"topic_id = {topic_id} and partition_id = 1"
    twins.conn.execute(f"delete from gapless.log_segment where {here}")
    twins.conn.execute("update gapless.outbox_message_t set host_id = 'h', user_id = 'z'")
    twins.conn.execute(
        "update gapless.log_segment set base_offset = base_offset + 1, last_offset = last_offset + 1,"
        " unit_ends = repeat('1', length(unit_ends))::varbit"
    )
    for word in log.split():
        if word == "'":
            layout += 1
            continue
        users = word.replace("+", "")
        if word[0] != "#":
            ends = "".join("0" if after else "1" for after in re.findall(r"[^+](\+?)", word))
            last = base + len(users) - 1
            ids = _publish(twins, users)
            twins.conn.execute(SEGMENT, [topic_id, base, last, ids, ends, layout])
        base += len(users)


def _publish(twins: Twins, users: str) -> list[int]:
    hosts = [None if user in "-_" else "i" if user.isupper() else "h" for user in users]
    names = [{"-": None, "_": "a"}.get(user, user.lower()) for user in users]
    rows = twins.conn.execute(PUBLISH, [twins.topic_ids["orders"], hosts, names])
    ids = [id_ for (id_,) in rows]
    lost = [id_ for id_, user in zip(ids, users, strict=True) if user == "*"]
    twins.conn.execute("delete from gapless.outbox_message_t where id = any (%s)", [lost])
    return ids


# The log, from where to where one looks, and the merged units: * behind those of which no more may come.
UNITS: dict[str, tuple[str, int, int, str]] = {
    "one unit": ("a", 1, 1, "1"),
    "neighbours": ("aaab", 1, 4, "3* 4"),
    "units of several events": ("a+a+aab+b", 1, 6, "4* 6"),
    "over segments": ("aa aaa ab", 1, 7, "6* 7"),
    "of many": ("a b b a", 1, 4, "1* 3* 4"),
    "from the middle of a segment": ("aabb", 2, 4, "2* 4"),
    "from its last event": ("aab bb", 3, 5, "5"),
    "from the begin of one": ("aab bb", 4, 5, "5"),
    "up to the begin of one": ("aa aa", 1, 3, "3"),
    "up to the middle of one": ("aab bba", 1, 5, "2* 5"),
    "a unit that goes on behind it": ("aab+b+b", 1, 4, "2*"),
    "the user's next goes on behind it": ("aaa+a", 1, 3, ""),
    "a unit over segments": ("a+ a+ab", 1, 4, "3* 4"),
    "another host": ("aAAa", 1, 4, "1* 3* 4"),
    "no host": ("__a", 1, 3, "2* 3"),
    "no user": ("--a", 1, 3, "1* 2* 3"),
    "no user at the end": ("a-", 1, 2, "1* 2*"),
    "partly without one": ("aa+-a", 1, 4, "1* 3* 4"),
    "of several users": ("aa+ba+bb", 1, 6, "1* 3* 5* 6"),
    "of several users but for the last": ("a+b+bb", 1, 4, "3* 4"),
    "of several users at the end": ("aa+b", 1, 3, "1* 3*"),
    "lost events": ("a*a", 1, 3, "1* 2* 3"),
    "a hole": ("aa ### aa", 1, 7, "2"),
    "behind a hole": ("aa ### aab", 6, 8, "7* 8"),
    "at the begin behind a hole": ("aa # ab bb", 4, 7, "4* 7"),
    "two holes": ("aa # aa ## ab", 4, 9, "5"),
    "behind two holes": ("a # a # ab", 5, 6, "5* 6"),
    "up to a hole": ("aa ## aa", 1, 3, "2"),
    "before another layout": ("aa ' aab", 1, 5, "2"),
    "nothing": ("aa", 3, 5, ""),
}


@pytest.mark.few(30)
@pytest.mark.parametrize("name", UNITS)
def test_units_of_a_user_are_merged(twins: Twins, name: str) -> None:
    log, first, last, merged = UNITS[name]
    lay(twins, log)
    rows = twins.conn.execute(
        "select unit_end || case when is_closed then '*' else '' end"
        " from gapless.user_units(%s, 1, %s, %s, 0)",
        [twins.topic_ids["orders"], first, last],
    )
    assert " ".join(row[0] for row in rows) == merged


def test_units_of_a_layout_that_came_later_are_merged_there(twins: Twins) -> None:
    lay(twins, "aa ' aa ' a")
    query = "select unit_end from gapless.user_units(%s, 1, 1, 9, %s)"
    for layout, ends in enumerate(([(2,)], [(4,)], [(5,)])):
        params = [twins.topic_ids["orders"], layout]
        assert twins.conn.execute(query, params).fetchall() == ends


# The log, where a unit begins, up to where a claim would go; where it goes to.
ENDS: dict[str, tuple[str, int, int, int]] = {
    "the user's next is another one's": ("aab", 1, 1, 2),
    "it ends there": ("aab b", 1, 2, 2),
    "what ends before does not count": ("abbc", 1, 2, 3),
    "the next segment": ("aa ab", 1, 1, 3),
    "the next segment has many": ("aa abcd", 1, 2, 3),
    "just all of the segment": ("aa bb", 1, 1, 2),
    "many segments": ("a a a a a a a ab", 1, 1, 8),
    "the end of the log": ("a a aa", 1, 1, 4),
    "that is at the end": ("a a aa", 1, 4, 4),
    "no further than a hole": ("a a # a b", 1, 1, 2),
    "a hole right behind it": ("a # a b", 1, 1, 1),
    "a unit that is nobody's": ("a-a", 1, 2, 2),
    "before another layout": ("a a ' a b", 1, 1, 2),
    "from behind the first unit": ("abaac", 3, 3, 4),
}


@pytest.mark.few(20)
@pytest.mark.parametrize("name", ENDS)
def test_a_claim_goes_on_to_the_end_of_its_user(twins: Twins, name: str) -> None:
    log, first, upto, end = ENDS[name]
    lay(twins, log)
    topic_id = twins.topic_ids["orders"]
    found = twins.value("select gapless.user_unit_end(%s, 1, %s, %s, 0)", topic_id, first, upto)
    assert found == end


def test_the_largest_segments_are_looked_through(twins: Twins) -> None:
    """They have two hundred events, and the claim would end in the first of them."""
    lay(twins, "".join("a" * 200 + " " for _ in range(3)) + "a+ab")
    topic_id = twins.topic_ids["orders"]
    for upto in (1, 200, 201, 600):
        assert twins.value("select gapless.user_unit_end(%s, 1, 1, %s, 0)", topic_id, upto) == 602


@pytest.mark.parametrize(
    ("events", "ends", "marks"),
    [(1, [7], "1"), (1, [], "0"), (3, [9], "001"), (3, [7, 9], "101"), (4, [6, 8, 11], "0100")],
)
def test_marks_of_merged_units(twins: Twins, events: int, ends: list[int], marks: str) -> None:
    found = twins.value("select gapless.user_marks(7, %s, %s::bigint[])", events, ends)
    assert found == marks


# The log, where a unit begins; its last offset, and how many of it are missing.
TORN: dict[str, tuple[str, int, tuple[int | None, int | None]]] = {
    "whole": ("a+aaa", 1, (2, 0)),
    "of one event": ("aa+aa", 1, (1, 0)),
    "in the middle": ("aa+a+aa", 2, (4, 0)),
    "at the end of a segment": ("aaa aa", 3, (3, 0)),
    "an event is lost": ("a+*+aa", 1, (3, 1)),
    "all are": ("a*+*a", 2, (3, 2)),
    "neighbours are": ("*a+a*", 2, (3, 0)),
    "over three segments": ("aa+a+ a+*+ *+aa", 2, (7, 2)),
    "the first event of another segment": ("aa+ aa", 2, (3, 0)),
    "a segment is missing": ("aa ### a", 3, (5, 3)),
    "what is before it is left": ("aa+ ## a", 2, (4, 2)),
    "in the middle of it": ("a ### a", 3, (4, 2)),
    "there is no end": ("aa+a+", 2, (None, None)),
    "the end of the log": ("aa", 3, (None, None)),
}  # fmt: skip


@pytest.mark.few(20)
@pytest.mark.parametrize("name", TORN)
def test_how_much_of_a_unit_is_missing(twins: Twins, name: str) -> None:
    log, first, found = TORN[name]
    lay(twins, log)
    query = "select last_offset, missing from gapless.torn_unit(%s, 1, %s)"
    assert twins.conn.execute(query, [twins.topic_ids["orders"], first]).fetchall() == [found]
