"""Whatever way an event is published, one row comes to its topic with all that was said of it, and no other row."""

from typing import Any

import pytest

from gapless.db.connect import connect
from support.stored import call, cause_id, own_id, tell, told
from support.twins import Twins

TID = "12345678-1234-5678-1234-567812345678"
FIRST = "00000000-0000-4000-8000-00000000000c"
LATER = "00000000-0000-4000-8000-00000000000d"
HOST = "aabbccdd-0011-2233-4455-66778899aabb"
UNIT = "billing/orders/1@4"
OTHER_UNIT = "sender/orders/0@9"
FULL: dict[str, Any] = {
    "payload": '{"n":  1}', "key": "K", "event_type": "T", "headers": '{"h": 1}', "host_id": f"{{{HOST.upper()}}}",
    "user_id": "U",
}  # fmt: skip
BARE = dict.fromkeys(FULL) | {"payload": "5"}
STORED = {
    "full": ("K", "T", '{"n":  1}', {"h": 1}, HOST, "U"),
    "bare": (None, None, "5", *(None,) * 3),
}
ONE = (
    "%(payload)s, key => %(key)s, event_type => %(event_type)s, headers => %(headers)s, host_id => %(host_id)s,"
    " user_id => %(user_id)s"
)
EACH = (
    "array[%(payload)s], array[%(key)s], array[%(event_type)s], array[%(headers)s], array[%(host_id)s],"
    " array[%(user_id)s]"
)
SOME = EACH.replace("%(host_id)s", "gapless.canonical_host(%(host_id)s)")
OF = "%(transaction_id)s"
FROM = f"'{OTHER_UNIT}', '{LATER}', 'orders'"
WAYS = {
    "publish": f"select gapless.publish('orders', {ONE}, transaction_id => {OF})",
    "publish, with a key": f"select gapless.publish('orders', {ONE}, transaction_id => {OF}, dedupe_key => 'a')",
    "publish, for now": f"select gapless.publish('orders', {ONE}, transaction_id => {OF}, deliver_in => '0 s')",
    "publish, of a time": f"select gapless.publish('orders', {ONE}, transaction_id => {OF}, deliver_at => '2000-01-01Z')",
    "publish_once": (
        f"select transaction_id from gapless.publish_once('orders', {ONE}, transaction_id => {OF}, dedupe_key => 'a')"
    ),
    "publish_each": f"select transaction_id from gapless.publish_each('orders', {EACH}, array[{OF}])",
    "publish_each, with a key": (
        f"select transaction_id from gapless.publish_each('orders', {EACH}, array[{OF}], array['a'])"
    ),
    "publish_each, for now": (
        f"select transaction_id from gapless.publish_each('orders', {EACH}, array[{OF}], deliver_ins => array['0'])"
    ),
    "publish_from": f"select gapless.publish_from({FROM}, {ONE}, transaction_id => {OF})",
    "publish_some_from": f"select gapless.publish_some_from({FROM}, {SOME}, array[{OF}])",
}  # fmt: skip
PUBLISH_REQUEST = f"select transaction_id from gapless.publish_request('orders', 'a', 'x', {EACH})"


@pytest.mark.few(12)
@pytest.mark.parametrize("of", [None, TID], ids=["none", "own"])
@pytest.mark.parametrize("unit", [None, "", UNIT], ids=["untold", "empty", "told"])
@pytest.mark.parametrize("what", ["full", "bare"])
@pytest.mark.parametrize("way", [*WAYS, "publish_request"])
def test_one_row_with_all_that_was_said(
    twins: Twins, way: str, what: str, unit: str | None, of: str | None
) -> None:
    """Its transaction is the one that was given, else that of the unit, else none; that or its own is told."""
    if unit is not None:
        tell(twins, unit, FIRST if unit else "")
    statement = WAYS.get(way, PUBLISH_REQUEST)
    if way == "publish_request":
        of = None
    fields = FULL if what == "full" else BARE
    stored = call(twins, statement, {**fields, "transaction_id": of})
    cause, correlation = (unit, FIRST) if unit else (None, None)
    if "_from" in way:
        cause, correlation = OTHER_UNIT, LATER
    caused = cause_id(cause) if cause else None
    assert stored.events == [("orders", *STORED[what], of or caused, cause, correlation)]
    assert stored.waiting == []
    known = caused if way == "publish_some_from" else of or caused or own_id(twins)
    assert [str(row[0]) for row in stored.returned] == [known]
    keyed = "key" in way or way in {"publish_once", "publish_request"}
    digest = b"x" if way == "publish_request" else None
    keys = {(0, "orders", "a"): (of or caused or own_id(twins), stored.ids[0], digest, 0)}
    assert stored.keys == (keys if keyed else {})
    assert told(twins) == ((unit or ""), (FIRST if unit else ""))


LATER_WAYS = {
    "publish, in": f"select gapless.publish('orders', {ONE}, transaction_id => {OF}, deliver_in => '100 s')",
    "publish, at": f"select gapless.publish('orders', {ONE}, transaction_id => {OF}, deliver_at => now() + '100 s')",
    "publish, in, with a key": (
        f"select gapless.publish('orders', {ONE}, transaction_id => {OF}, deliver_in => '100 s', dedupe_key => 'a')"
    ),
    "publish_each, in": (
        f"select transaction_id from gapless.publish_each('orders', {EACH}, array[{OF}], deliver_ins => array['100 s'])"
    ),
    "publish_each, at": (
        f"select transaction_id from gapless.publish_each('orders', {EACH}, array[{OF}],"
        " deliver_ats => array[(now() + interval '100 s')::text])"
    ),
    "publish_each, in, with a key": (
        f"select transaction_id from gapless.publish_each('orders', {EACH}, array[{OF}], deliver_ins => array['100 s'],"
        " dedupe_keys => array['a'])"
    ),
    "publish_once, in": (
        f"select transaction_id from gapless.publish_once('orders', {ONE}, transaction_id => {OF},"
        " deliver_in => '100 s', dedupe_key => 'a')"
    ),
    "publish_once, at": (
        f"select transaction_id from gapless.publish_once('orders', {ONE}, transaction_id => {OF},"
        " deliver_at => now() + '100 s', dedupe_key => 'a')"
    ),
}  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("of", [None, TID], ids=["none", "own"])
@pytest.mark.parametrize("unit", ["", UNIT], ids=["untold", "told"])
@pytest.mark.parametrize("what", ["full", "bare"])
@pytest.mark.parametrize("way", LATER_WAYS)
def test_what_is_for_later_waits_with_all_of_it(
    twins: Twins, way: str, what: str, unit: str, of: str | None
) -> None:
    """Also with a key, which counts from now on and has no message yet."""
    tell(twins, unit, FIRST if unit else "")
    fields = FULL if what == "full" else BARE
    stored = call(twins, LATER_WAYS[way], {**fields, "transaction_id": of})
    key = "a" if "key" in way or "once" in way else None
    caused = cause_id(unit) if unit else None
    known = of or caused or own_id(twins)
    of_unit = (unit, FIRST) if unit else (None, None)
    assert stored.waiting == [("orders", *STORED[what], of or caused, *of_unit, key, 100)]
    assert stored.events == []
    assert [str(row[0]) for row in stored.returned] == [known]
    assert stored.keys == ({(0, "orders", "a"): (known, None, None, 0)} if key else {})


MIXED = """
select * from gapless.publish_each(
  'orders', array['1', '2', '3', '4', '5', '6', '7'], event_types => array['a', null, 'c', null, null, 'f', null],
  dedupe_keys => array['x', null, 'x', 'y', null, 'y', null],
  deliver_ins => array[null, null, null, '100 s', '200 s', '0', null],
  transaction_ids => array[%(tid)s, null, null, null, null, null, null]
)
"""


def test_each_of_several_is_what_it_would_be_alone(twins: Twins) -> None:
    """What one has, the next one has not: a number, a message, that it is a duplicate."""
    stored = call(twins, MIXED, {"tid": TID})
    own = own_id(twins)
    first, second = stored.ids[:2]
    later, latest = stored.waiting_ids
    assert [(str(row[0]), *row[1:]) for row in stored.returned] == [
        (TID, first, False, None),
        (own, None, False, None),
        (TID, first, True, None),
        (own, None, False, later),
        (own, None, False, latest),
        (own, None, True, None),
        (own, None, False, None),
    ]
    assert [row[2:4] for row in stored.events] == [("a", "1"), (None, "2"), (None, "7")]
    assert second > first
    assert [(row[3], *row[-2:]) for row in stored.waiting] == [("4", "y", 100), ("5", None, 200)]
    assert stored.keys == {
        (0, "orders", "x"): (TID, first, None, 0),
        (0, "orders", "y"): (own, None, None, 0),
    }


def test_several_of_a_unit_keep_their_order(twins: Twins) -> None:
    tell(twins, UNIT, FIRST)
    stored = call(
        twins,
        f"select gapless.publish_some_from({FROM}, array['3', '1', '2'], array['c', null, 'b'], null,"
        " array[null, '{\"h\": 2}', null], null, null, array[null, %s, null])",
        [TID],
    )
    caused = cause_id(OTHER_UNIT)
    assert [str(row[0]) for row in stored.returned] == [caused]
    told_of = (OTHER_UNIT, LATER)
    assert stored.events == [
        ("orders", "c", None, "3", None, None, None, caused, *told_of),
        ("orders", None, None, "1", {"h": 2}, None, None, TID, *told_of),
        ("orders", "b", None, "2", None, None, None, caused, *told_of),
    ]
    assert told(twins) == (UNIT, FIRST)
    stored = call(twins, "select gapless.publish_some_from(%s, null, 'other', array['4'], %s, %s, %s, %s, %s, %s)",
                  [UNIT, *[None] * 6])  # fmt: skip
    assert stored.events == [("other", None, None, "4", *(None,) * 3, cause_id(UNIT), UNIT, None)]


@pytest.mark.few(4)
@pytest.mark.parametrize("way", [*WAYS.values(), *LATER_WAYS.values(), PUBLISH_REQUEST])
def test_a_topic_that_is_not_there_is_refused(twins: Twins, way: str) -> None:
    wrong = way.replace("'orders'", "'order'")
    assert twins.refused(wrong, {**FULL, "transaction_id": None}) == (
        "GL404",
        'topic "order" does not exist: create it with gapless topics create order',
    )


@pytest.mark.parametrize(
    ("host_id", "stored"),
    [
        (HOST, HOST), (HOST.upper(), HOST), (f"{{{HOST.upper()}}}", HOST), (f"{{{HOST}}}", HOST),
        *((text, text) for text in (
            f"{{{HOST.upper()}", f"{HOST.upper()}}}", f"x{HOST.upper()}", f"{HOST.upper()}0", f"{{{{{HOST}}}}}",
            HOST.upper().replace("-", ""), HOST.upper()[:-1], HOST.upper().replace("A", "G"), "{A}", "A", "", None,
        )),
    ],
)  # fmt: skip
def test_one_host_has_one_spelling(twins: Twins, host_id: str | None, stored: str | None) -> None:
    assert twins.value("select gapless.canonical_host(%s)", host_id) == stored


@pytest.mark.parametrize(
    ("xid", "timeline", "text"),
    [
        (0, 1, "00000000-0000-8000-8000-000000000000"),
        (0xF23456789ABCDEF, 1, "00000000-0000-8000-8f23-456789abcdef"),
        (0xF23456789ABCDEF, None, "00000000-0000-8000-8f23-456789abcdef"),
        (1, 0, "00000000-0000-8000-8000-000000000001"),
        (1, 2, "00000002-0000-8000-8000-000000000001"),
        (0x100, 0x7FFFFFFF, "7fffffff-0000-8000-8000-000000000100"),
    ],
)  # fmt: skip
def test_the_id_of_a_transaction_says_its_xid_and_its_timeline(
    twins: Twins, xid: int, timeline: int | None, text: str
) -> None:
    made = twins.value(
        "select gapless.transaction_uuid(%s::text::xid8, %s)::text", str(xid), timeline
    )
    assert made == text
    if timeline is None:
        assert (
            twins.value("select gapless.transaction_uuid(%s::text::xid8)::text", str(xid)) == text
        )


@pytest.mark.parametrize(
    "way", ["publish", "publish_once", "publish_each", "publish_from", "publish_some_from", "publish_request"]
)  # fmt: skip
def test_in_a_session_that_was_never_told_anything(
    shared: Twins, module_dsn: str, way: str
) -> None:
    with connect(module_dsn, role="fresh") as conn, conn.transaction(force_rollback=True):
        statement = WAYS.get(way, PUBLISH_REQUEST)
        assert conn.execute(statement.encode(), FULL | {"transaction_id": None}).fetchone()
        query = "select cause from gapless.outbox_message_t where xid = pg_current_xact_id()"
        cause = OTHER_UNIT if "_from" in way else None
        assert conn.execute(query).fetchall() == [(cause,)]
