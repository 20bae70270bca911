"""What a transaction's id and a cause say, and what a handler says of what it publishes."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.chains import NOBODY, Chains, cause_id

EMPTY = "insert into gapless.outbox_message_t (topic_id, key, payload) values ({orders}, 'k', '1')"


@pytest.fixture
def chains(linked: Chains) -> Iterator[Chains]:
    """As they are made: nobody has handled anything."""
    with linked.twins.undone():
        yield linked


# An id; its xid, its timeline.
IDS: list[tuple[str, str | None, int | None]] = [
    ("00000000-0000-8000-8000-000000000011", "17", 1),
    ("00000001-0000-8000-8000-000000000011", "17", 1),
    ("00000002-0000-8000-8000-000000000011", "17", 2),
    ("0000001f-0000-8000-8001-000000000000", str(2**48), 31),
    ("00000000-0000-8000-8fff-ffffffffffff", str(2**60 - 1), 1),
    ("00000000-0000-8000-9000-000000000011", None, None),
    ("00000000-0000-4000-8000-000000000011", None, None),
    ("00000000-0001-8000-8000-000000000011", None, None),
    (str(NOBODY), None, None),
]


@pytest.mark.parametrize(("transaction_id", "xid", "timeline"), IDS)
def test_what_an_id_carries(
    chains: Chains, transaction_id: str, xid: str | None, timeline: int | None
) -> None:
    call = (
        f"select gapless.xid_of('{transaction_id}')::text, gapless.timeline_of('{transaction_id}')"
    )
    assert chains.rows(call) == [(xid, timeline)]


NOTHING = (None,) * 6
# A cause; group, topic, partition, first and last offset, timeline.
CAUSES: list[tuple[str, tuple[Any, ...]]] = [
    ("g/t/3@17", ("g", "t", 3, 17, 17, 1)),
    ("g/t/3@17..19", ("g", "t", 3, 17, 19, 1)),
    ("g/t/3@17~2", ("g", "t", 3, 17, 17, 2)),
    ("g/t/3@17..19~2", ("g", "t", 3, 17, 19, 2)),
    ("a/b c/T.x_y-z/0@1", ("a/b c", "T.x_y-z", 0, 1, 1, 1)),
    ("g/t/3@", NOTHING),
    ("g/t/3@17 ", NOTHING),
    ("/t/3@17", NOTHING),
    ("g/t!/3@17", NOTHING),
    ("g/t/1234567890@17", NOTHING),
    ("g/t/3@1234567890123456789", NOTHING),
    ("g" * 993 + "/t/3@17", ("g" * 993, "t", 3, 17, 17, 1)),
    ("g" * 994 + "/t/3@17", NOTHING),
]


@pytest.mark.parametrize(("cause", "parts"), CAUSES)
def test_what_a_cause_names(chains: Chains, cause: str, parts: tuple[Any, ...]) -> None:
    (row,) = chains.rows(f"select * from gapless.parse_cause('{cause}')")
    assert row[: len(parts)] == parts


def test_the_id_follows_from_the_cause(chains: Chains) -> None:
    for cause in ("billing/orders/1@9", "ü"):
        assert chains.value(f"select gapless.cause_uuid('{cause}')") == cause_id(cause)


TELL = "select gapless.tell_cause({}, {})"
SAID = (
    "select nullif(current_setting('gapless.cause', true), ''),"
    " nullif(current_setting('gapless.correlation', true), '')"
)


def test_what_is_said_is_on_what_is_published(chains: Chains) -> None:
    """Until something else is said."""
    own = chains.own()
    for cause, correlation in ((None, None), ("c", NOBODY), ("d", None), (None, NOBODY)):
        chains.rows(
            TELL.format(
                f"'{cause}'" if cause else "null", f"'{correlation}'" if correlation else "null"
            )
        )
        assert chains.rows(SAID) == [(cause, str(correlation) if correlation else None)]
        wanted = cause_id(cause) if cause else own
        assert chains.value("select gapless.own_transaction_id()") == wanted
        published = chains.rows(f"{EMPTY} returning transaction_id, cause, correlation")
        assert published == [(wanted if cause else None, cause, correlation)]


CHAIN = "select set_config('gapless.chain', '{}', true), set_config('gapless.cause', 'c', true)"
CLOSE = "select gapless.close_chain({})"
UNTOLD = ("GL004", "a handler published without a cause: gapless.cause is empty")


@pytest.mark.parametrize("chain", ["open", "", "closed"])
@pytest.mark.parametrize(("units", "cause"), [(1, "c"), (2, "")])
def test_a_chain_is_closed(chains: Chains, chain: str, units: int, cause: str) -> None:
    """Behind a single unit what is published at COMMIT still comes of it."""
    chains.run(CHAIN.format(chain))
    chains.rows(CLOSE.format(units))
    said = "select current_setting('gapless.chain'), current_setting('gapless.cause')"
    assert chains.rows(said) == [("closed", cause)]


def test_what_is_untold_is_not_closed(chains: Chains) -> None:
    chains.run(CHAIN.format("untold"))
    assert chains.twins.refused(CLOSE.format(1)) == UNTOLD
    assert chains.twins.refused("select gapless.refuse_untold()") == UNTOLD


@pytest.mark.parametrize("call", ["own_transaction_id()", "close_chain(1)"])
def test_a_session_that_never_said_anything(chains: Chains, module_dsn: str, call: str) -> None:
    with connect(module_dsn, role="fresh") as conn, conn.transaction(force_rollback=True):
        xid = one(conn, "select pg_current_xact_id()::text")
        (row,) = conn.execute(f"select gapless.{call}").fetchall()
        assert row[0] in ("", chains.derived(xid))


FATE = "select gapless.transaction_fate('{}')"


def test_what_became_of_a_transaction_without_events(chains: Chains) -> None:
    xid = "select pg_current_xact_id()::text"
    other = chains.other
    committed = one(other, xid)
    with other.transaction(force_rollback=True):
        aborted = one(other, xid)
    with other.transaction():
        running = one(other, xid)
        fates = {
            chains.derived(committed): "unknown", chains.derived(aborted): "rolled-back",
            chains.derived(running): "open", chains.own(): "open", chains.derived(2**50 + 5): "unknown",
            chains.derived(aborted, 1): "rolled-back", chains.derived(aborted, 2): "unknown",
            chains.derived(running, 2): "unknown", NOBODY: "unknown",
        }  # fmt: skip
        found = {each: chains.value(FATE.format(each)) for each in fates}
    assert found == fates


def one(conn: Connection[Any], query: str) -> int:
    ((value,),) = conn.execute(query).fetchall()
    return int(value)
