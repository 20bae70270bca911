"""gapless subscriptions: listed, added, removed; what is refused; ops do the same."""

from typing import Any

import psycopg
import pytest

from gapless.log.topics import ensure_topic

MATCH = ("--match", '{"customer": "$.customer_id"}')
ANN = (*MATCH, "--params", '{"customer": 17}')


@pytest.fixture
def mails(gapless: Any, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=2)
    gapless("groups", "create", "mails", "orders")


@pytest.mark.long
def test_added_listed_and_removed(gapless: Any, mails: None) -> None:
    none = gapless("subscriptions", "list", "mails")
    assert (none.code, none.out) == (0, "")
    assert "mails has no subscriptions" in none.err
    done = gapless("subscriptions", "add", "mails/orders", "ann", *ANN)
    assert done.out == "group mails of topic orders takes the events of subscription ann\n"
    again = gapless("subscriptions", "add", "mails", "ann", *ANN)
    assert again.out.startswith("nothing to do: ")
    (row,) = gapless("subscriptions", "list", "mails", "--json").json
    assert (row["name"], row["params"]) == ("ann", {"customer": 17})
    assert (row["match"], row["where"]) == ({"customer": "$.customer_id"}, None)
    assert "ann" in gapless("subscriptions", "list", "mails/orders").out
    (group,) = gapless("groups", "--json").json
    assert group["takes"] == "subscriptions: 1"
    assert gapless("groups", "filter", "mails", "--json").json == []
    removed = gapless("subscriptions", "remove", "mails", "ann", "--json")
    expected = {"group": "mails", "topic": "orders", "name": "ann", "changed": True}
    assert removed.json == expected
    assert "nothing to do" in gapless("subscriptions", "remove", "mails", "ann").out


@pytest.mark.long
def test_doctor_names_a_group_whose_last_one_went(gapless: Any, mails: None) -> None:
    def found() -> tuple[str, str]:
        every = gapless("doctor", "--json").json["checks"]
        (one,) = [each for each in every if each["name"] == "subscriptions"]
        return one["level"], one["text"]

    assert found() == ("ok", "no group has subscriptions")
    gapless("subscriptions", "add", "mails", "ann", *ANN)
    said = "mails/orders has 1 subscription of 1 form, 0 may expire, none soon"
    assert found() == ("ok", said)
    assert gapless("status", "--json").json["subscribed"][0]["first_left_s"] is None
    gapless("subscriptions", "remove", "mails", "ann")
    assert found() == ("warning", "mails/orders has none left, and takes no event")


def test_only_an_operator_may(conn: psycopg.Connection, mails: None) -> None:
    conn.execute("set role gapless_consumer")
    for ask in (
        "select gapless.subscribe('mails', 'orders', 'ann', '{\"a\": \"key\"}', '{\"a\": 1}')",
        "select gapless.unsubscribe('mails', 'orders', 'ann')",
        "select gapless.forget_subscription('mails', 1, 'ann')",
        "select gapless.begin_subscriptions('mails', 'orders', 1)",
        "select gapless.renew_subscription('mails', 'orders', 'ann')",
        "select gapless.resume_subscription('mails', 'orders', 'ann')",
        "select gapless.set_missed_aside('mails', 1, 0, 1, 1, 1)",
        "select gapless.make_condition('true')",
        "select gapless.drop_condition('00000000-0000-0000-0000-000000000001')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(ask)


@pytest.mark.long
def test_sql_condition_is_stopped_named_mended_and_resumed(
    gapless: Any, mails: None, conn: psycopg.Connection
) -> None:
    text = "1 / (e.payload ->> 'n')::int > 0"
    refused = gapless("subscriptions", "add", "mails", "ann", "--condition", "pg_sleep(9) is null")
    assert refused.code != 0
    assert 'the SQL condition of subscription "ann" has no values of type void' in refused.err
    gapless("subscriptions", "add", "mails", "ann", "--condition", text)
    assert "is not stopped" in gapless("subscriptions", "resume", "mails", "ann").out
    conn.execute(
        "insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)"
        " select subscription_id, 1, 1, 'division by zero' from gapless.subscription"
    )
    (row,) = gapless("subscriptions", "list", "mails", "--json").json
    assert (row["sql_condition"], row["stopped_partitions"]) == (text, [1])
    assert row["stopped_why"] == "division by zero"
    (group,) = gapless("status", "--json").json["subscribed"]
    assert group["stopped"] == 1
    assert "1 subscription of group mails/orders stopped, " in gapless("status").out
    every = gapless("doctor", "--json").json["checks"]
    (found,) = [each for each in every if each["name"] == "subscriptions"]
    assert found["level"] == "warning"
    assert "gapless subscriptions resume mails/orders NAME" in found["remedy"]
    gapless("subscriptions", "add", "mails", "ann", "--condition", "true")
    done = gapless("subscriptions", "resume", "mails", "ann", "--json")
    assert done.json == {"group": "mails", "name": "ann", "resumed": True, "units": 0}
    (row,) = gapless("subscriptions", "list", "mails", "--json").json
    assert row["stopped_partitions"] == []


@pytest.mark.long
def test_published_to_one_of_them(gapless: Any, conn: psycopg.Connection, mails: None) -> None:
    """By options, by a line of a file, and by what lines lack; refused in one line."""
    gapless("subscriptions", "add", "mails", "ann", *ANN)
    conn.execute("select gapless.set_direct('orders')")
    to = ("--to-group", "mails", "--to-subscription", "ann")
    assert gapless("publish", "orders", "1", *to).code == 0
    lines = '{"payload": 2, "to_group": "mails", "to_subscription": "ann"}\n{"payload": 3}\n'
    assert gapless("publish", "orders", "-", *to[:2], stdin=lines).code == 0
    found = conn.execute(
        "select payload::text, headers ->> 'gapless-to-subscription'"
        " from gapless.outbox_message_t order by id"
    ).fetchall()
    assert found == [("1", "ann"), ("2", "ann"), ("3", None)]
    for words, says in (
        (to[2:], "say to_group, too"),
        ((*to[:3], "cid"), 'group "mails" has no subscription "cid" of topic "orders"'),
        ((*to[:3], ""), "to_subscription must be the name of a subscription"),
    ):
        assert says in gapless("publish", "orders", "1", *words).complaint()
