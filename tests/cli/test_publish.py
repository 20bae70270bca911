"""publish: what a line says is what is in the log, and a bad line is named."""

import json
import signal
import subprocess
import time
from uuid import UUID

import psycopg
import pytest

from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic


@pytest.fixture
def orders(conn: psycopg.Connection) -> str:
    return ensure_topic(conn, "orders", partitions=4).name


def stored(conn: psycopg.Connection) -> list[dict]:
    rows = conn.execute(
        "select payload::text, key, event_type, headers, host_id, user_id,"
        " coalesce(transaction_id, gapless.transaction_uuid(xid)), xid::text"
        " from gapless.outbox_message_t order by id"
    ).fetchall()
    names = "payload key event_type headers host_id user_id transaction_id xid".split()
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_one_event(gapless, conn, orders) -> None:
    done = gapless(
        *("publish", "orders", '{"a": 1.10, "a": 2}', "--key", "AA", "--type", "order.placed"),
        *("--header", "trace=x=y", "--header", "n=1", "--host-id", "h", "--user-id", "u"),
    )
    assert (done.code, "without an offset" in done.err) == (0, True)
    (event,) = stored(conn)
    assert event["transaction_id"] == UUID(done.out.strip())
    del event["transaction_id"], event["xid"]
    assert event == {
        "payload": '{"a": 1.10, "a": 2}',
        "key": "AA",
        "event_type": "order.placed",
        "headers": {"trace": "x=y", "n": "1"},
        "host_id": "h",
        "user_id": "u",
    }


@pytest.mark.parametrize(
    "words",
    [
        ("orders", '{"a": 1}', "--key", "AA"),
        ("orders", "--key", "AA", '{"a": 1}'),
        ("--key", "AA", "orders", "--type", "t", '{"a": 1}'),
    ],
)
def test_options_stand_anywhere(gapless, conn, orders, words: tuple[str, ...]) -> None:
    assert gapless("publish", *words).code == 0
    (event,) = stored(conn)
    assert (event["payload"], event["key"]) == ('{"a": 1}', "AA")


def test_lines(gapless, conn, orders, tmp_path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"payload": {"n" : 1e400}, "key": "a", "event_type": "t", "headers":'
        b' {"h": 1}, "host_id": "h", "user_id": "u"}\r\n'
        b"\n   \n"
        b'{"payload": "caf\\u00e9 \\u0000 \xc3\xa9"}\n'
        b'{ "payload" : [ 1 , 2 ] , "key" : null }'
    )
    done = gapless("publish", "orders", "--file", str(file))
    assert done.code == 0
    assert done.out == ""
    assert done.err.startswith("gapless: published 3 events in 1 transaction, ")
    first, second, third = stored(conn)
    assert (first["payload"], first["key"], first["headers"]) == ('{"n" : 1e400}', "a", {"h": 1})
    assert second["payload"] == '"caf\\u00e9 \\u0000 é"'
    assert (third["payload"], third["key"]) == ("[ 1 , 2 ]", None)


def test_the_whole_line_is_the_payload(gapless, conn, orders) -> None:
    lines = '{"c": "AA", "x": 1}\n {"c": 17.50}\n'
    assert gapless("publish", "orders", "-", "--key-field", "c", stdin=lines).code == 0
    assert gapless("publish", "orders", "-", "--payload-only", "--key", "k", stdin="5\n").code == 0
    assert [(event["payload"], event["key"]) for event in stored(conn)] == [
        ('{"c": "AA", "x": 1}', "AA"),
        ('{"c": 17.50}', "17.50"),
        ("5", "k"),
    ]


def test_transactions(gapless, conn, orders) -> None:
    """So many lines each; neighbours of one transaction_id are never cut apart."""
    a, b = (f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2))
    units = [None, None, None, a, a, a, a, b.upper(), b, None]
    lines = "".join(
        json.dumps({"payload": n, "transaction_id": unit}) + "\n" for n, unit in enumerate(units)
    )
    done = gapless("publish", "orders", "-", "--batch", "2", stdin=lines)
    assert "published 10 events in 4 transactions" in done.err
    xids = [event["xid"] for event in stored(conn)]
    assert [xids.index(xid) for xid in xids] == [0, 0, 2, 2, 2, 2, 2, 7, 7, 9]


def test_one_transaction(gapless, conn, orders) -> None:
    lines = "".join(f'{{"payload": {n}}}\n' for n in range(2500))
    done = gapless("publish", "orders", "-", "--one-transaction", stdin=lines)
    assert "published 2,500 events in 1 transaction," in done.err
    assert len({event["xid"] for event in stored(conn)}) == 1


BAD_LINES = [
    (b'{"payload": ', "not JSON"),
    (b"[1]", "not an object"),
    (b'{"a": 1}', "unknown field 'a'"),
    (b'{"key": "k"}', "no payload"),
    (b'{"payload": 1, "payload": 2}', "'payload' stands there twice"),
    (b'{"payload": Infinity}', "Infinity is not JSON"),
    (b'{"payload": 1, "key": 5}', "key must be text"),
    (b'{"payload": 1, "headers": [1]}', "headers must be an object"),
    (b'{"payload": 1, "headers": {"a": "\\u0000"}}', "\\u0000 cannot be converted to text"),
    (b'{"payload": 1, "headers": {"a": "\\ud800"}}', "half a surrogate pair"),
    (b'{"payload": 1, "key": "\\ud800"}', "half a surrogate pair"),
    (b'{"payload": 1, "key": "a\\u0000"}', "NUL"),
    (b'{"payload": 1, "transaction_id": "x"}', "transaction_id 'x' is not a UUID"),
    (b'{"payload": "\xff"}', "not UTF-8 at byte 14"),
    (b'{"payload": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply"),
]


@pytest.mark.long
def test_a_bad_line_is_named(gapless, conn, orders) -> None:
    good = b'{"payload": 1}\n'
    for published, (line, says) in enumerate(BAD_LINES, start=1):
        lines = good * 3 + b"\n" + line + b"\n" + good
        complaint = gapless("publish", "orders", "-", "--batch", "2", stdin=lines).complaint()
        assert complaint.startswith("standard input line 5: "), line
        assert says in complaint
        assert complaint.endswith("2 events published, up to line 2; nothing after it")
        assert len(stored(conn)) == 2 * published


@pytest.mark.parametrize("before", [50, 500])
def test_a_line_that_only_the_server_refuses(gapless, conn, orders, before: int) -> None:
    """Few lines are one INSERT, which names no row; many are a COPY, which counts no blanks."""
    bad = '{"payload": 1, "headers": {"a": "\\u0000"}}\n'
    lines = '{"payload": 1}\n' * before + "\n" + bad + '{"payload": 1}\n' * 20
    done = gapless("publish", "orders", "-", "--one-transaction", stdin=lines)
    complaint = done.complaint()
    assert complaint.startswith(f"standard input line {before + 2}: ")
    assert complaint.endswith("nothing was published")
    assert stored(conn) == []


@pytest.mark.long
def test_key_field_that_is_not_there(gapless, orders) -> None:
    for line in ('{"x": 1}', '{"c": null}', '{"c": [1]}', '{"c": true}', "5"):
        done = gapless("publish", "orders", "-", "--key-field", "c", stdin=line)
        assert done.complaint().startswith("standard input line 1: ")


def test_wait_gives_offsets_when_no_sequencer_is_there(gapless, conn, orders) -> None:
    done = gapless("publish", "orders", "-", "--wait", stdin='{"payload": 1}\n' * 3)
    assert done.code == 0
    assert done.err.endswith("gapless: all of it has offsets\n")
    assert conn.execute("select sum(events) from gapless.topics").fetchone() == (3,)


@pytest.mark.long
def test_wait_leaves_the_work_to_an_active_sequencer(start, conn, orders) -> None:
    """It waits for the session that has the role, and does not do its work."""
    conn.execute("select pg_advisory_lock(7427001, 3)")
    process = start("publish", "orders", "1", "--wait")
    assert process.stdout.readline(), "the transaction's name, before the wait"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)
    assert conn.execute("select sum(events) from gapless.topics").fetchone() == (0,)
    assert sequence(conn) == 1
    assert process.wait(timeout=30) == 0


@pytest.mark.long
def test_a_pipe_is_not_kept_waiting(start, conn, orders) -> None:
    """What came through a pipe is published soon, though the batch is not full."""
    process = start("publish", "orders", "-")
    for n in range(3):
        process.stdin.write(f'{{"payload": {n}}}\n')
        process.stdin.flush()
        give_up = time.monotonic() + 30
        while len(stored(conn)) <= n:
            assert time.monotonic() < give_up
            assert process.poll() is None
            time.sleep(0.01)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "published 3 events in 3 transactions" in err


@pytest.mark.long
def test_ctrl_c_says_what_was_published(start, conn, orders) -> None:
    process = start("publish", "orders", "-")
    process.stdin.write('{"payload": 1}\n')
    process.stdin.flush()
    give_up = time.monotonic() + 30
    while not (stored(conn) and conn.execute(_RESTS).fetchone() == (1,)):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "gapless: interrupted; 1 event published, up to line 1; nothing after it\n"


_RESTS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'gapless/publish'
  and state = 'idle' and clock_timestamp() - state_change > interval '0.2 s'
"""


@pytest.mark.long
def test_ctrl_c_while_it_commits_says_that_nobody_knows(start, conn, orders) -> None:
    conn.execute(_WAITS)
    process = start("publish", "orders", "-")
    process.stdin.write('{"payload": 1}\n')
    process.stdin.flush()
    give_up = time.monotonic() + 30
    while conn.execute(_COMMITS).fetchone() != (1,):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted; nothing was published, but for lines 1 to 1: whether they are is" in err


_WAITS = """
create function waits() returns trigger language plpgsql as
$$ begin perform pg_sleep(3600); return null; end $$;
create constraint trigger waits after insert on gapless.outbox_message_t
  deferrable initially deferred for each row execute function waits();
"""
_COMMITS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'gapless/publish'
  and state = 'active' and query ~* '^commit'
"""
