"""`gapless webhooks`: what it prints, what it refuses, and what doctor says of it."""

from collections.abc import Iterator

import pytest
from psycopg import Connection

from gapless.features.webhooks.checks import webhooks
from gapless.log.topics import Topic
from gapless.ops.doctor.finding import Patient
from support.endpoint import SECRET, Reply, Server, serving

URL = "https://shop.example/hooks"
ADD = ("webhooks", "add", "shop", "outbox")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.mark.long
def test_add_list_pause_remove(gapless, topic: Topic) -> None:
    assert "no webhook yet" in gapless("webhooks").err + gapless("webhooks").out
    made = gapless(*ADD, URL, "--secret", "env:HOOK", "--type", "order.*", "--rate", "5", "--json")
    assert made.json == {"name": "shop", "topic": "outbox", "created": True}
    again = gapless(*ADD, URL, "--secret", "env:HOOK", "--retry", "5,60", "--keep-order", "--json")
    assert again.json["created"] is False
    (found,) = gapless("webhooks", "list", "--json").json
    assert (found["url"], found["secrets"]) == (URL, ["env:HOOK"])
    assert (found["retry_delays_s"], found["keeps_order"]) == ([5, 60], True)
    assert gapless("webhooks", "pause", "shop").out == "paused shop\n"
    assert "nothing to do" in gapless("webhooks", "pause", "shop").out
    assert gapless("webhooks", "resume", "shop", "--json").json == {"name": "shop", "changed": True}
    assert gapless("webhooks", "remove", "shop").out == "removed shop\n"
    assert gapless("webhooks", "--json").json == []


@pytest.mark.long
def test_one_that_shares_a_group(gapless, topic: Topic, conn: Connection) -> None:
    words = (*ADD, "https://shop.example/hooks", "--secret", "env:HOOK", "--shared")
    given = ("--match", '{"shop": "$.shop"}', "--params", '{"shop": 1}')
    assert gapless(*words, *given).out == "webhook shop is called with outbox\n"
    (found,) = gapless("webhooks", "list", "--json").json
    assert (found["shared"], found["params"], found["paused"]) == (True, {"shop": 1}, False)
    (one,) = gapless("subscriptions", "list", "webhooks-outbox", "--json").json
    assert (one["name"], one["match"]) == ("shop", {"shop": "$.shop"})
    for option in (["--keep-order"], ["--concurrency", "2"], ["--retry", "5"]):
        said = gapless(*words, *option).complaint()
        assert "leave shared out, and it has a group of its own" in said
    conn.execute("select gapless.stop_webhook('shop', 'its circuit is open: answered 500', true)")
    told = [each.text for each in webhooks(Patient(conn=conn, second=conn))]
    assert "shop: its requests fail: its circuit is open: answered 500" in told
    assert gapless("webhooks", "resume", "shop").out == "resumed shop\n"
    again = gapless("webhooks", "replay", "shop", "--since", "2h", "--json").json
    assert again == {"name": "shop", "units": 0}
    asked = gapless("webhooks", "replay", "shop", "--since", "2h", "--dry-run").out
    assert asked == "shop would be sent 0 units again\n"
    assert "a time" in gapless("webhooks", "replay", "shop", "--since", "soon").complaint()
    assert gapless("webhooks", "remove", "shop").out == "removed shop\n"


@pytest.mark.long
def test_test_says_what_the_endpoint_answered(gapless, server: Server, topic: Topic) -> None:
    gapless(*ADD, f"{server.url}/x", "--secret", "env:HOOK", "--allow-http")
    where = {"HOOK": SECRET, "GAPLESS_WEBHOOKALLOW": "127.0.0.1"}
    assert gapless("webhooks", "test", "shop", **where).out == "webhook shop answered 204\n"
    assert server.calls[0].verified["type"] == "gapless.test"
    server.answer = lambda _: Reply(500)
    failed = gapless("webhooks", "test", "shop", "--json", **where)
    assert (failed.code, failed.json["taken"], failed.json["status"]) == (1, False, 500)
    without = gapless("webhooks", "test", "shop", GAPLESS_WEBHOOKALLOW="127.0.0.1")
    assert "secret env:HOOK" in without.out + without.err
    private = gapless("webhooks", "test", "shop", HOOK=SECRET)
    assert "loopback" in private.out + private.err
    assert SECRET not in str((failed, without, private))


@pytest.mark.long
def test_settings_that_do_not_fit_are_refused_before_it_starts(gapless, topic: Topic) -> None:
    wrong = gapless("run", "--webhooks", GAPLESS_WEBHOOKALLOW="here").complaint()
    assert "webhookAllow" in wrong
    short = gapless("run", "--webhooks", GAPLESS_MAXPROCESSINGMS="1000").complaint()
    assert "maxProcessingMs" in short
    no_file = gapless("run", "--webhooks", GAPLESS_WEBHOOKCAFILE="/none").complaint()
    assert "webhookCaFile /none" in no_file


def test_doctor_names_what_is_not_delivered(gapless, conn: Connection, topic: Topic) -> None:
    patient = Patient(conn=conn, second=conn)
    assert [each.level for each in webhooks(patient)] == ["ok"]
    gapless(*ADD, URL, "--secret", "env:HOOK")
    assert [each.text for each in webhooks(patient)] == ["no supervisor delivers to shop"]
    gapless("webhooks", "pause", "shop")
    assert any("shop is paused" in each.text for each in webhooks(patient))
    gapless("webhooks", "resume", "shop")
    conn.execute("select gapless.note_webhook('shop', 0, 10, 'answered 503', true)")
    assert any("answered 503" in each.text for each in webhooks(patient))
