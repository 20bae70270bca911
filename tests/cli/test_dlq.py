"""dlq: what was refused and why; redrive, discard, export and import; harmless on a terminal."""

import json

import psycopg
import pytest

import gapless as package
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import ensure_topic
from gapless.testing import drain

PAYLOAD = b'{"total": 1.10, "total": 2, "note": "\xc2\x9b\\u0000"}'


@pytest.fixture
def letters(conn: psycopg.Connection, dsn: str) -> None:
    """A unit of two events that failed, and one of one, in group billing."""
    ensure_topic(conn, "orders", partitions=1)
    publish(conn, "orders", [NewEvent(payload=PAYLOAD, key="a", headers={"h": 1})] * 2)
    publish(conn, "orders", 1, key="b")
    publish(conn, "orders", 2, key="\x1b[31m", event_type="t")

    @package.handler(topic="orders", group="billing")
    def refuse(unit: package.Unit, conn: object) -> None:
        if next(iter(unit)).key != "b":
            raise ValueError("first line\nthe \x1b[31m last line")

    drain(dsn, refuse)


def states(conn: psycopg.Connection) -> dict[int, str]:
    return dict(conn.execute("select first_offset, state from gapless.dead_letter").fetchall())


@pytest.mark.long
def test_list(gapless, letters) -> None:
    rows = gapless("dlq", "--json").json
    assert [(row["offset"], row["events"], row["state"]) for row in rows] == [
        (4, 1, "dead"),
        (1, 2, "dead"),
    ]
    assert "the \x1b[31m last line" in rows[0]["error"]
    done = gapless("dlq")
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert (
        done.lines[0].split()
        == ("PLACE EVENTS KEY EVENT-TYPE STATE ATTEMPTS FAILED NEXT-ATTEMPT ERROR").split()
    )


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (("--limit", "1"), [4]),
        (("--group", "billing", "--topic", "orders", "--partition", "0"), [4, 1]),
        (("--key", "a"), [1]),
        (("--error", "LAST LINE"), [4, 1]),
        (("--error", "division"), []),
        (("--since", "2020-01-01"), [4, 1]),
        (("--since", "1h"), [4, 1]),
        (("--until", "2020-01-01T00:00:00+01:00"), []),
        (("--state", "waiting", "--state", "dead"), [4, 1]),
        (("--state", "redriven"), []),
        (("--state", "all"), [4, 1]),
    ],
)
def test_some(gapless, letters, words, offsets) -> None:
    assert [row["offset"] for row in gapless("dlq", "list", "--json", *words).json] == offsets
    if not offsets:
        done = gapless("dlq", "list", *words)
        assert (done.code, done.out, done.err) == (0, "", "gapless: no dead letters\n")


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", ["group", "topic"])
@pytest.mark.parametrize("verb", [("list",), ("redrive", "--yes"), ("export", "-")])
def test_a_group_or_topic_that_is_not_there(gapless, letters, conn, verb, kind) -> None:
    done = gapless("dlq", *verb, f"--{kind}", "x")
    message = f'gapless: there is no {kind} "x": gapless {kind}s lists them\n'
    assert (done.code, done.out, done.err) == (2, "", message)
    assert states(conn) == {1: "dead", 4: "dead"}
    conn.execute("truncate gapless.consumer_group cascade")
    assert len(gapless("dlq", "list", "--group", "billing", "--json").json) == 2, "of old"


def test_import_of_nothing(gapless, letters, tmp_path) -> None:
    path = tmp_path / "letters"
    path.write_bytes(b"\n")
    done = gapless("dlq", "import", str(path))
    assert (done.code, done.out, done.err) == (0, "", f"gapless: {path} has no units\n")


@pytest.mark.long
def test_show_tells_of_other_units_of_the_transaction(gapless, conn, dsn) -> None:
    ensure_topic(conn, "orders", partitions=4)
    with conn.transaction():
        for key in ("a", "b", "c", "d"):
            publish(conn, "orders", 1, key=key)

    @package.handler(topic="orders", group="billing")
    def refuse(unit: package.Unit, conn: psycopg.Connection) -> None:
        conn.execute("select 'x'::int")

    drain(dsn, refuse)
    rows = gapless("dlq", "--json").json
    assert len(rows) > 1
    assert {row["error"] for row in rows} == {
        'psycopg.errors.InvalidTextRepresentation: invalid input syntax for type integer: "x"'
    }
    first, *others = (f"billing/orders/{row['partition']}@{row['offset']}" for row in rows)
    shown = gapless("dlq", "show", first).out
    assert all(f"  elsewhere       {other} (dead)" in shown for other in others)
    same = gapless("dlq", "show", first, "--json").json["same_transaction"]
    assert len(same) == len(others)


@pytest.mark.long
def test_show(gapless, letters) -> None:
    done = gapless("dlq", "show", "billing/orders/0@2")
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert "\x9b" not in done.out
    for part in (
        "dead letter billing/orders/0@1 to 2",
        "state           dead",
        "events          2 of transaction ",
        "parked behind   nothing",
        "event at offset 2",
        "headers\n",
        '"total": 2',
        "Traceback (most recent call last)",
        "ValueError: first line",
        "the \\x1b[31m last line",
    ):
        assert part in done.out
    assert "key             \\x1b[31m" in gapless("dlq", "show", "billing/orders/0@4").out


def test_show_as_json(gapless, letters) -> None:
    done = gapless("dlq", "show", "billing/orders/0@2", "--json")
    unit = done.json
    assert (unit["group"], unit["offset"], unit["last_offset"]) == ("billing", 1, 2)
    assert [event["offset"] for event in unit["events"]] == [1, 2]
    assert unit["events"][0]["headers"] == {"h": 1}
    assert unit["behind"] == []
    assert '{"total": 1.10, "total": 2, "note": "\\u009b\\u0000"}' in done.out


@pytest.mark.long
def test_redrive_one(gapless, letters, conn) -> None:
    done = gapless("dlq", "redrive", "billing/orders/0@2")
    assert (done.code, done.out, done.err) == (0, "to be handled again: 1 unit\n", "")
    assert states(conn) == {1: "waiting", 4: "dead"}
    before = conn.execute("select * from gapless.dead_letter order by 4").fetchall()
    complaint = gapless("dlq", "redrive", "billing/orders/0@1").complaint()
    assert complaint.startswith("billing/orders/0@1 was redriven already, by ")
    assert complaint.endswith("it waits for the worker of its partition")
    conn.execute("set gapless.finished = 'x'")
    conn.execute(
        "update gapless.dead_letter set state = 'redriven', next_attempt_ts = null,"
        " closed_ts = now() where first_offset = 4"
    )
    assert (
        "4 was redriven already, by ?: it was handled 20"
        in gapless("dlq", "redrive", "billing/orders/0@4").complaint()
    )
    after = conn.execute("select * from gapless.dead_letter order by 4").fetchall()
    assert before[0] == after[0]


@pytest.mark.long
def test_redrive_many_is_a_dry_run_first(gapless, letters, conn) -> None:
    done = gapless("dlq", "redrive", "--group", "billing")
    assert [line.split()[0] for line in done.lines[1:]] == [
        "billing/orders/0@1",
        "billing/orders/0@4",
    ]
    assert (
        done.err == "gapless: nothing was changed: would redrive 2 units, 3 events; --yes does it\n"
    )
    assert gapless("dlq", "redrive", "--all", "--dry-run", "--yes", "--json").json == {
        "dry_run": True,
        "units": ["billing/orders/0@1", "billing/orders/0@4"],
    }
    assert states(conn) == {1: "dead", 4: "dead"}
    done = gapless("dlq", "redrive", "--all", "--yes", "--json")
    assert done.json == {
        "redrive": 2,
        "not": {},
        "units": {"billing/orders/0@1": "asked", "billing/orders/0@4": "asked"},
    }
    assert states(conn) == {1: "waiting", 4: "waiting"}
    assert gapless("dlq", "redrive", "--all", "--yes").err == "gapless: no dead letters\n"


@pytest.mark.long
def test_discard(gapless, letters, conn) -> None:
    done = gapless("dlq", "discard", "billing/orders/0@1", "--reason", "test data")
    assert (done.code, done.out) == (0, "discarded: 1 unit\n")
    assert states(conn) == {1: "discarded", 4: "dead"}
    shown = gapless("dlq", "show", "billing/orders/0@1").out
    assert "state           discarded by " in shown
    assert "Z: test data\n" in shown
    for verb in (("redrive",), ("discard", "--reason", "again")):
        complaint = gapless("dlq", verb[0], "billing/orders/0@2", *verb[1:]).complaint()
        assert "billing/orders/0@1 was discarded already, by " in complaint
        assert complaint.endswith(": test data")
    assert "--reason" in gapless("dlq", "discard", "billing/orders/0@4").complaint()
    assert (
        "the reason must say"
        in gapless("dlq", "discard", "billing/orders/0@4", "--reason", " ").complaint()
    )


@pytest.mark.long
def test_parked(gapless, letters, conn) -> None:
    """Who is parked says behind whom; who parks says whom."""
    conn.execute(
        "update gapless.dead_letter set state = 'parked', died_ts = null where first_offset = 4"
    )
    for offset in (1, 4):
        conn.execute(
            "insert into gapless.dead_letter_key"
            " values ('billing', gapless.topic_id('orders'), 0, 'k', %s)",
            [offset],
        )
    assert (
        "parked behind   1 unit, 1 event: 4\n" in gapless("dlq", "show", "billing/orders/0@1").out
    )
    assert (
        "state           parked behind billing/orders/0@1\n"
        in gapless("dlq", "show", "billing/orders/0@4").out
    )
    assert gapless("dlq", "redrive", "billing/orders/0@4").complaint() == (
        "billing/orders/0@4 is parked behind billing/orders/0@1: "
        "redrive or discard that one, and it follows"
    )
    gapless("dlq", "discard", "billing/orders/0@1", "--reason", "known")
    assert states(conn) == {1: "discarded", 4: "waiting"}


def test_export_mend_import_redrive(gapless, letters, conn, tmp_path, dsn) -> None:
    """What was mended is what the handler gets; all else stays to the letter."""
    file = tmp_path / "letters.jsonl"
    done = gapless("dlq", "export", str(file), "--group", "billing")
    assert (done.code, done.err) == (0, "gapless: 2 units exported\n")
    lines = file.read_text().splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [1, 4]
    assert '"payload": {"total": 1.10, "total": 2, "note": "\\u009b\\u0000"}' in lines[0]
    assert gapless("dlq", "export").lines == lines
    assert "File exists" in gapless("dlq", "export", str(file)).complaint()

    file.write_text(lines[1].replace('"payload": 2', '"payload": {"n": 12345678901234567890.10}'))
    gapless("dlq", "discard", "billing/orders/0@4", "--reason", "broken")
    assert "1 unit would be taken in" in gapless("dlq", "import", str(file), "--dry-run").err
    assert states(conn)[4] == "discarded"
    done = gapless("dlq", "import", str(file))
    assert (done.code, done.out, done.err) == (0, "mended: 1 unit\n", "")
    assert states(conn) == {1: "dead", 4: "dead"}
    gapless("dlq", "redrive", "billing/orders/0@4")
    stored = "select payload::text from gapless.dead_letter_event where c_offset = 4"
    assert conn.execute(stored).fetchone() == ('{"n": 12345678901234567890.10}',)
    done = gapless("dlq", "import", str(file))
    assert done.code == 1
    assert done.out == "waiting: 1 unit\n"
    assert "line 1: billing/orders/0@4: left alone (waiting)" in done.err


def test_half_a_surrogate_pair_comes_back_in_a_payload_and_nowhere_else(
    gapless, letters, conn
) -> None:
    lines = gapless("dlq", "export").out.replace("\\u0000", "é\\u0000\\ud800")
    assert gapless("dlq", "import", stdin=lines).out == "mended: 2 units\n"
    stored = "select payload::text from gapless.dead_letter_event where c_offset = 1"
    (payload,) = conn.execute(stored).fetchone()
    assert json.loads(payload)["note"] == "\x9bé\0\ud800"
    for half in ("\\ud800", "\\u0000"):
        line = lines.splitlines()[1].replace('"event_type": "t"', f'"event_type": "{half}"')
        complaint = gapless("dlq", "import", stdin=line).complaint()
        assert "line 1 is not a unit" in complaint
        assert complaint.endswith("half a surrogate pair or a NUL; nothing was changed")


@pytest.mark.long
def test_import_takes_nothing_that_may_have_been_handled(gapless, letters, conn, tmp_path) -> None:
    unit = json.loads(gapless("dlq", "export").lines[1])
    for change, outcome in (
        ({"offset": 3, "events": [{**unit["events"][0], "offset": 3}]}, "absent"),
        ({"events": [{**unit["events"][0], "offset": 5}]}, "other events"),
    ):
        done = gapless("dlq", "import", stdin=json.dumps({**unit, **change}))
        assert (done.code, done.out) == (1, f"{outcome}: 1 unit\n")
    assert states(conn) == {1: "dead", 4: "dead"}


def test_a_broken_line_is_named_and_nothing_is_imported(gapless, letters, conn) -> None:
    good = gapless("dlq", "export").lines[0].replace("1.10", "1.20")
    complaint = gapless("dlq", "import", stdin=f"{good}\n\n{{\n").complaint()
    assert complaint.startswith("standard input line 3 is not a unit as gapless dlq export")
    stored = "select count(*) from gapless.dead_letter_event where payload::text like '%1.20%'"
    assert conn.execute(stored).fetchone() == (0,)


@pytest.mark.long
def test_import_as_new_events(gapless, letters, conn) -> None:
    """One transaction for each unit, so that it stays a unit."""
    lines = gapless("dlq", "export").out
    assert gapless("dlq", "import", "--publish", stdin=lines).out == "published: 2 units\n"
    conn.execute("select gapless.sequence_events()")
    rows = conn.execute(
        "select transaction_id, payload::text, key from gapless.read('orders', 0, 5)"
    ).fetchall()
    assert len(rows) == 3
    assert rows[0][0] == rows[1][0] != rows[2][0]
    assert rows[0][1] == '{"total": 1.10, "total": 2, "note": "\\u009b\\u0000"}'
