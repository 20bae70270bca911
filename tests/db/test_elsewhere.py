"""One installation, in another schema than `gapless`: all of it works there, and only there."""

import json
from collections.abc import Callable

import pytest

from db.installation import Installation

HANDLERS = ("bill", "send", "watch", "beat")


@pytest.fixture
def audit(installation: Callable[[str], Installation]) -> Installation:
    made = installation("audit")
    made.install()
    return made


@pytest.mark.long
def test_everything_works_in_another_schema(audit: Installation) -> None:
    audit.run("capture", "add", "public.stock", "stock.changes")
    audit.run("schedule", "add", "pulse", "pulses", "--every", "1s")
    audit.start(*HANDLERS)
    audit.start(*HANDLERS)
    for n in range(20):
        audit.publish(n, key=f"k{n % 5}")
    audit.publish("bad", key="of its own")
    audit.run("publish", "mails", '"later"', "--in", "1s")
    audit.conn.execute("insert into stock values (1, 1), (2, 2)")
    audit.conn.execute("update stock set n = n + 1")
    audit.until_did("bill", 20)
    audit.until_did("send", 21)
    audit.until_did("watch", 2)
    audit.until_did("beat", 2)
    audit.until(
        lambda: audit.value("select count(*) from gapless.dead_letter where state = 'dead'") == 1,
        "the bad one is a dead letter",
    )
    assert sorted(audit.did("bill")) == list(range(20))
    assert audit.did("send").count("of an order") == 20
    assert {each["op"] for each in audit.did("watch")} == {"insert"}
    _operators_see_it(audit)
    audit.conn.execute("delete from did where payload::text = '\"bad\"'")
    audit.run("schedule", "pause", "pulse")
    audit.drain()
    assert audit.conn.execute("select to_regnamespace('gapless')").fetchone() == (None,)


def _operators_see_it(audit: Installation) -> None:
    status = json.loads(audit.run("status", "--json"))
    assert {each["group"] for each in status["groups"]} >= {"billing", "sender"}
    owned = audit.sql("select owner is not null from gapless.lease where group_id = 'billing'")
    assert owned == [(True,), (True,)]
    assert audit.conn.execute(
        "select count(*) from pg_stat_activity where application_name like 'gapless/%'"
        " and datname = current_database()"
    ).fetchone() == (0,)
    (letter,) = json.loads(audit.run("dlq", "list", "--json"))
    assert letter["group"] == "billing"
    found = json.loads(audit.tried("doctor", "--json", code=1).stdout)
    bad = {each["name"] for each in found["checks"] if each["level"] == "FAIL"}
    assert bad == {"durability"}  # of the server of the tests
    audit.run("groups")
    audit.run("capture")
    audit.run("queue", "state", "sender")
    audit.run("dlq", "redrive", "--group", "billing", "--yes")
    audit.run("seek", "watcher/stock.changes", "--earliest", "--pause")


def test_nobody_polls_in_another_schema(audit: Installation) -> None:
    """Publishers wake the sequencer, and it the workers, by channels of the schema: or it takes an hour."""
    audit.start("bill", GAPLESS_WAITPERIODMS="3600000")
    audit.until_owned()
    for n in range(5):
        audit.publish(n)
        audit.until_did("bill", n + 1)
