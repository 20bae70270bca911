"""gapless classic: its verbs; what doctor and status say of classic names."""

import psycopg
import pytest

from gapless.log.topics import Topic
from gapless.ops.groups import create_group


@pytest.fixture
def billing(conn: psycopg.Connection, topic: Topic) -> psycopg.Connection:
    create_group(conn, "billing", "outbox")
    return conn


@pytest.mark.long
def test_the_whole_way(gapless, billing: psycopg.Connection) -> None:
    assert gapless("classic").err == (
        "gapless: nothing is kept for programs of the classic design: gapless classic show GROUP\n"
    )
    shown = "public.consumer_offsets shows the offsets of billing\n"
    assert gapless("classic", "show", "billing").out == shown
    assert gapless("classic", "show", "billing").out == f"nothing to do: {shown}"
    assert gapless("classic", "notify", "outbox", "--json").json == {
        "topic": "outbox", "channel": "event_channel", "changed": True
    }  # fmt: skip
    notify, offsets = gapless("classic", "--json").json
    assert (notify["kind"], notify["name"], notify["group"]) == ("notify", "event_channel", None)
    assert (offsets["kind"], offsets["group"], offsets["topic"]) == ("offsets", "billing", "outbox")
    assert "2 classic names, as somebody asked" in gapless("doctor").out
    assert gapless("status", "--json").json["classic"] == []

    billing.execute("drop view public.consumer_offsets")
    remedy = "gapless classic show billing/outbox --as public.consumer_offsets"
    problem = "view public.consumer_offsets is gone, or is another one"
    assert gapless("status", "--json").json["classic"] == [
        {"name": "public.consumer_offsets", "problem": problem, "remedy": remedy}
    ]
    assert f"classic public.consumer_offsets: {problem}: {remedy}" in gapless("status").lines
    seen = gapless("doctor")
    assert seen.code == 1
    assert f"billing: {problem}" in seen.out
    assert gapless(*remedy.split()[1:]).code == 0

    said = "events of outbox are announced on no classic channel\n"
    assert gapless("classic", "silence", "outbox").out == said
    assert gapless("classic", "hide", "billing/outbox", "--json").json == {
        "group": "billing/outbox", "changed": True
    }  # fmt: skip
    assert gapless("classic", "hide", "billing").out.startswith("nothing to do: ")
