"""replay: a range once, beside all groups; interrupted, killed, shared, continued, removed.

It asks before it acts, and may be tried: see the second half.
"""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.long import long_but
from support.servers import until

APP = f"{Path(__file__).with_name('replay_app.py')}:bill"
OFFSETS = "select array_agg(c_offset order by n) from handled where partition_id = %s"


@pytest.fixture
def orders(conn: psycopg.Connection) -> list[str]:
    """Group billing has passed ten events in each of two partitions; returns a key of each."""
    ensure_topic(conn, "orders", partitions=2)
    conn.execute("create table handled (n serial, partition_id int, c_offset bigint, pid int)")
    keys: dict[int, str] = {}
    for n in range(20):
        row = conn.execute("select gapless.partition_of(%s, 2)", [f"k{n}"]).fetchone()
        assert row is not None
        keys.setdefault(int(row[0]), f"k{n}")
    for n in range(10):
        publish(conn, "orders", [NewEvent(payload=n, key=keys[p]) for p in (0, 1)])
    sequence(conn)
    conn.execute("select gapless.create_group('billing', 'orders', 'latest')")
    return [keys[0], keys[1]]


def more(conn: psycopg.Connection, key: str, payload: str, count: int) -> None:
    for _ in range(count):
        publish(conn, "orders", payload, key=key)
    sequence(conn)


def value(conn: psycopg.Connection, statement: str, *params: object) -> object:
    row = conn.execute(statement, params).fetchone()
    return None if row is None else row[0]


def billing(conn: psycopg.Connection) -> list[tuple[int]]:
    return conn.execute(
        "select next_offset from gapless.consumer_offsets where group_id = 'billing'"
    ).fetchall()


@pytest.mark.long
@pytest.mark.parametrize("partitions", [1, 5])
def test_after_a_change_of_the_number_of_partitions(gapless, orders, conn, partitions) -> None:
    """What a partition waits for is in another one, which may come later."""
    conn.execute("select gapless.set_partitions('orders', %s)", [partitions])
    for key in orders:
        more(conn, key, "1", 5)
    done = gapless("replay", APP, "--dry-run")
    assert "30 units would be handled, 0 would fail" in done.out
    assert value(conn, "select count(*) from handled") == 0
    assert "replayed 30 events: all handled" in gapless("replay", APP, "--yes").out
    assert value(conn, "select count(distinct (partition_id, c_offset)) from handled") == 30


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (("--from", "3", "--to", "6"), [3, 4, 5]),
        (("--from", "latest"), None),
        (("--from", "2020-01-01"), list(range(1, 11))),
    ],
)
def test_a_range(gapless, orders, conn, words, offsets) -> None:
    done = gapless("replay", APP, "--partition", "0", *words, "--json", "--yes")
    assert done.json["events"] == done.json["done"] == len(offsets or [])
    assert value(conn, OFFSETS, 0) == offsets
    assert value(conn, OFFSETS, 1) is None


@pytest.mark.long
def test_what_fails_is_kept(gapless, orders, conn) -> None:
    more(conn, orders[0], "refuse", 2)
    done = gapless("replay", APP, "--name", "again", "--batch-size", "3", "--yes")
    assert done.out == (
        "replayed 22 events: 20 handled, 2 in 2 dead letters: gapless dlq list --group again; "
        "then gapless replay --remove again\n"
    )
    assert [row["name"] for row in gapless("replay", "--list", "--json").json] == ["again"]
    assert {row["state"] for row in gapless("dlq", "--json").json} == {"dead"}
    assert gapless("status", "--json").json["groups"][0]["group"] == "billing"
    assert [row["group"] for row in gapless("groups", "--json").json] == ["billing"]
    assert gapless("replay", APP, "--name", "again").complaint() == (
        'there is a group "again" already: choose another name, or continue with it (--continue)'
    )
    assert (
        gapless("replay", "--remove", "again").out == "removed replay again, and 2 dead letters\n"
    )
    assert value(conn, "select count(*) from gapless.dead_letter_event") == 0
    assert gapless("replay", "--list").err == "gapless: no replay is unfinished\n"


@pytest.mark.long
@pytest.mark.parametrize("number", long_but([signal.SIGINT, signal.SIGKILL], signal.SIGKILL))
def test_interrupted_and_continued(
    gapless, orders, conn, start: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    """Each event once, whatever ended it; the count in the end is of all of it."""
    more(conn, orders[0], "slow", 60)
    process = start("replay", APP, "--name", "r", "--batch-size", "4", "--yes")
    assert until(lambda: value(conn, "select count(*) from handled") >= 20)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert number == signal.SIGKILL or "continue with gapless replay" in err
    row = gapless("replay", "--list", "--json").json[0]
    assert (row["events"], row["running"]) == (80, False)
    assert 10 <= row["done"] < 80
    done = gapless("replay", APP, "--continue", "r")
    assert done.out == "replayed 80 events: all handled\n", done.err
    assert value(conn, OFFSETS, 0) == list(range(1, 71))
    assert value(conn, OFFSETS, 1) == list(range(1, 11))


@pytest.mark.long
def test_a_unit_that_kills_is_found(
    gapless, orders, conn, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """I8: once one died of it, units are tried one at a time, their attempts written down before."""
    more(conn, orders[0], "kill", 1)
    more(conn, orders[0], "fine", 5)
    words = ("--name", "r", "--batch-size", "50", "--yes")
    for nth in range(4):  # the first death is of a batch; then 3, as maxCrashes allows
        process = start("replay", APP, *(words if nth == 0 else ("--continue", "r")))
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    done = gapless("replay", APP, "--continue", "r")
    assert done.out.startswith("replayed 26 events: 25 handled, 1 in 1 dead letter: "), done.err
    assert value(conn, OFFSETS, 0) == [*range(1, 11), *range(12, 17)]
    assert value(conn, "select first_offset from gapless.dead_letter") == 11


@pytest.mark.long
def test_two_share_the_partitions(
    gapless, orders, conn, start: Callable[..., subprocess.Popen[str]]
) -> None:
    for key in orders:
        more(conn, key, "slow", 100)
    one = start("replay", APP, "--name", "r", "--batch-size", "5", "--keep", "--yes")
    assert until(lambda: value(conn, "select count(*) from handled") >= 5)
    two = gapless("replay", APP, "--continue", "r", "--batch-size", "5", "--keep")
    out, err = one.communicate(timeout=60)
    assert (two.code, one.returncode) == (0, 0), two.err + err
    assert "replayed 220 events: all handled\n" in two.out + out
    assert value(conn, "select count(distinct pid) from handled") == 2
    for partition in (0, 1):
        assert value(conn, OFFSETS, partition) == list(range(1, 111))
    assert gapless("replay", APP, "--continue", "r").out == "replayed 220 events: all handled\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "lag"), [("earliest", 20), ("latest", 0), ("4", 14), ("2020-01-01T00:00Z", 20)]
)
def test_a_new_group_at_a_place(gapless, orders, conn, place, lag) -> None:
    done = gapless("groups", "create", "audit", "orders", "--start", place)
    assert done.out.startswith("created group audit of topic orders, from ")
    assert value(conn, "select sum(lag) from gapless.lag where group_id = 'audit'") == lag
    assert "1 topic" not in gapless("groups", "remove", "audit").err
    assert gapless("groups", "remove", "audit").err == (
        "gapless: nothing was changed: group audit of orders has 0 dead letters; --yes removes it\n"
    )
    assert gapless("groups", "remove", "audit", "--yes").code == 0
    assert 'there is no group "audit"' in gapless("groups", "remove", "audit", "--yes").complaint()


# ---- what would be done, and trying it ----

ODD = APP.replace(":bill", ":odd")


@pytest.fixture
def untouched(orders: list[str], conn: psycopg.Connection) -> Callable[[], None]:
    """Assert that nothing was written since: no effect, event, group, letter, or line of the audit."""
    conn.execute("create table once (word text primary key)")
    conn.execute("create table late (word text unique deferrable initially deferred)")
    tables = ("consumer_group", "consumer_offsets", "lease", "dead_letter", "dead_letter_event")
    tables += ("audit", "delivery", "outbox_message_t")
    count_all = " union all ".join(
        f"select {name!r}, count(*) from {name}"
        for name in (*(f"gapless.{each}" for each in tables), "handled", "once", "late")
    )
    seen: list[object] = []

    def look() -> None:
        now = conn.execute(count_all).fetchall()
        if seen:
            assert now == seen[0]
        seen[:] = [now]

    return look


def odd_words(conn: psycopg.Connection, key: str, *words: str) -> None:
    for word in words:
        publish(conn, "orders", word, key=key)
    sequence(conn)


def test_it_asks_before_it_acts(gapless, orders, conn, untouched) -> None:
    untouched()
    done = gapless("replay", APP, "--from", "3", "--to", "6")
    assert done.code == 0
    assert done.err == (
        "gapless: nothing was done: 6 events would be handled; --yes does it, "
        "--dry-run tries it and rolls it back\n"
    )
    handler, effects, header, *partitions = done.lines
    assert handler == (
        "handler: replay_app:bill, one call for each transaction; claims of 100 events"
    )
    assert effects.startswith(f'effects: exactly once in database "{conn.info.dbname}" of the ')
    assert header.split()[:5] == "TOPIC PARTITION FIRST-OFFSET LAST-OFFSET EVENTS".split()
    assert [line.split()[:5] for line in partitions] == [
        ["orders", "0", "3", "5", "3"],
        ["orders", "1", "3", "5", "3"],
    ]
    untouched()


@pytest.mark.parametrize(
    ("how", "words"),
    [("decorator", ("--yes",)), ("environment", ("--dry-run",)), ("file", ("--continue", "r"))],
)
def test_what_is_at_least_once_is_refused(gapless, untouched, tmp_path, words, how) -> None:
    config = tmp_path / "gapless.yml"
    config.write_text("delivery: at-least-once\n" if how == "file" else "batchSize: 5\n")
    env = {"GAPLESS_DELIVERY": "at-least-once"} if how == "environment" else {}
    app = APP.replace(":bill", ":mail") if how == "decorator" else APP
    untouched()
    complaint = gapless("replay", app, *words, "--config", str(config), **env).complaint()
    assert complaint.endswith("is at-least-once: a replay would send it all again")
    untouched()


@pytest.mark.long
def test_a_dry_run_changes_nothing(gapless, orders, conn, untouched) -> None:
    odd_words(conn, orders[0], "publish", "refuse", "rows", "skip", "refuse")
    untouched()
    done = gapless("replay", ODD, "--dry-run")
    assert (done.code, done.lines) == (
        0,
        [
            "22 units would be handled, 1 skipped, 2 would fail:",
            "  orders/0@12: ValueError: refused",
            "  orders/0@15: ValueError: refused",
        ],
    ), done.err
    assert done.err.endswith("nothing was changed: 25 events were handled and rolled back\n")
    untouched()
    assert gapless("replay", "--list").err == "gapless: no replay is unfinished\n"
    assert gapless("replay", ODD, "--dry-run", "--from", "latest").lines == [
        "0 units would be handled, 0 would fail"
    ]


@pytest.mark.long
def test_a_dry_run_tells_what_the_replay_then_does(gapless, orders, conn, untouched) -> None:
    """Units see what earlier ones did, whatever claim those were in; constraints may be deferred."""
    words = ["once", *["n"] * 7, "once", "deferred", *["n"] * 7, "deferred", "once"]
    odd_words(conn, orders[1], *words)
    untouched()
    tried = gapless("replay", ODD, "--dry-run", "--json").json
    untouched()
    assert [each["offset"] for each in tried["failures"]] == [19, 28, 29]
    assert (tried["handled"], tried["failed"], tried["skipped"]) == (36, 3, 0)
    done = gapless("replay", ODD, "--name", "r", "--yes", "--json").json
    assert (done["done"], done["dead_units"]) == (tried["events"], tried["failed"])
    letters = gapless("dlq", "list", "--group", "r", "--json").json
    assert sorted(each["offset"] for each in letters) == [19, 28, 29]


@pytest.mark.parametrize(("handler", "word"), [("odd", "commit"), ("odd_batch", "rollback")])
def test_a_dry_run_of_a_handler_that_ends_its_transaction(
    gapless, orders, conn, untouched, handler, word
) -> None:
    odd_words(conn, orders[0], "n", word, "n", word)
    untouched()
    app = APP.replace(":bill", f":{handler}")
    done = gapless("replay", app, "--dry-run", "--json")
    assert done.code == 0, done.err
    assert (done.json["handled"], done.json["failed"]) == (22, 2), done.err
    assert [each["offset"] for each in done.json["failures"]] == [12, 14]
    assert all("COMMIT" in each["error"] for each in done.json["failures"])
    untouched()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_dry_run_that_is_ended_leaves_nothing(
    gapless, orders, conn, untouched, start: Callable[..., subprocess.Popen[str]], number
) -> None:
    """Meanwhile it stops nobody: the number of partitions can be changed, and events get offsets."""
    more(conn, orders[0], "slow", 1000)
    untouched()
    process = start("replay", APP, "--dry-run")
    at_it = "select count(*) > 0 from pg_locks where relation = 'handled'::regclass"
    assert until(lambda: value(conn, at_it))
    conn.execute("set lock_timeout = '10s'")
    conn.execute("select gapless.set_partitions('orders', 3)")
    publish(conn, "orders", "n", key=orders[0])
    assert sequence(conn) == 1
    assert value(conn, at_it)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert until(lambda: not value(conn, at_it))
    assert value(conn, "select count(*) from gapless.consumer_group") == 1
    assert value(conn, "select count(*) from handled") == 0


@pytest.mark.long
def test_a_handler_without_a_topic_is_given_the_configured_one(gapless, orders, conn) -> None:
    app = APP.replace(":bill", ":unnamed")
    assert 'topic "outbox" does not exist' in gapless("replay", app).complaint()
    assert gapless("replay", app, "--json", GAPLESS_TOPIC="orders").json["topic"] == "orders"
    assert gapless("replay", app, "--json", "--topic", "orders").json["topic"] == "orders"
    done = gapless("replay", app, "--yes", GAPLESS_TOPIC="orders")
    assert done.out == "replayed 20 events: all handled\n"
