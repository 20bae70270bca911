"""doctor: a line for each check, and exit code 1 only when something is really wrong."""

from contextlib import ExitStack
from datetime import timedelta

import psycopg
import pytest
from psycopg.errors import RaiseException

from gapless.db.connect import connect
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from gapless.ops.doctor import session
from gapless.ops.doctor.rounds import diagnose
from support.servers import until

NAMES = (
    "connection server-version primary pooler clock wake-up notify-queue encoding durability autovacuum "
    "client-check horizon prepared schema locks restored roles privileges terminate connections wake-trigger "
    "chunks default-chunk sequencer re-base unrouted foreign_locks obstacles members partitions "
    "offsets leases retention dedupe queues filters subscriptions later schemas compaction expiry captures attachments classic webhooks pipelines"
).split()


def levels(done) -> dict[str, str]:
    """The worst level of each check."""
    assert done.err == ""
    found: dict[str, str] = {}
    for check in done.json["checks"]:
        if found.get(check["name"]) != "FAIL":
            found[check["name"]] = check["level"]
    return found


def text(done, name: str) -> str:
    return "; ".join(c["text"] for c in done.json["checks"] if c["name"] == name)


@pytest.fixture
def durable(conn: psycopg.Connection) -> bool:
    """Whether the server of the tests is one that survives a crash."""
    return conn.execute("show fsync").fetchone() == ("on",)


@pytest.mark.long
def test_every_check_is_made(gapless, durable: bool) -> None:
    done = gapless("doctor", "--json")
    assert list(levels(done)) == NAMES
    assert levels(done)["durability"] == ("ok" if durable else "FAIL")
    assert done.code == (0 if durable else 1)
    wrong = {name: level for name, level in levels(done).items() if level == "FAIL"}
    assert set(wrong) <= {"durability"}
    assert levels(done)["wake-up"] == "ok"


@pytest.mark.long
def test_the_report_for_people(gapless, tmp_path) -> None:
    config = tmp_path / "gapless.yml"
    config.write_text("batchSize: 7\n")
    done = gapless("doctor", "--config", str(config), GAPLESS_WAITPERIODMS="500")
    assert done.err == ""
    lines = [" ".join(line.split()) for line in done.lines]
    assert any(line.startswith("ok pooler none") for line in lines)
    findings = [line.partition(" ")[0] for line in lines[1 : lines.index("")]]
    worst = next(level for level in ("FAIL", "warning", "ok") if level in findings)
    assert lines[0] == lines[-1]
    assert lines[0].startswith(
        f"{worst} of {len(findings)} findings {findings.count(worst)} {worst}"
    )
    assert f"batchSize 7 {config} line 1" in lines
    assert "waitPeriodMs 500 environment GAPLESS_WAITPERIODMS" in lines
    assert "dsn (not shown) environment GAPLESS_DSN" in lines


def test_without_a_schema(bare, empty_dsn: str) -> None:
    done = bare("doctor", "--json", "--dsn", empty_dsn)
    assert done.code == 1
    assert levels(done)["schema"] == "FAIL"
    assert "sequencer" not in levels(done)
    assert done.json["checks"][-1]["remedy"] == "run gapless init"


def test_without_a_server(bare) -> None:
    done = bare("doctor", "--json", "--dsn", "host=/nowhere")
    assert done.code == 1
    assert levels(done) == {"connection": "FAIL"}


@pytest.mark.long
def test_of_many_findings_the_worst_are_told_and_the_others_counted(gapless, conn) -> None:
    ensure_topic(conn, "orders", partitions=8)
    gapless("groups", "create", "g", "orders")
    conn.execute("update gapless.lease set error = 'retrying: slow' where partition_id < 7")
    conn.execute("update gapless.lease set error = 'stopped: a hole' where partition_id = 7")
    checks = [c for c in gapless("doctor", "--json").json["checks"] if c["name"] == "partitions"]
    assert [each["level"] for each in checks[:6]] == ["FAIL", *["warning"] * 5]
    assert checks[0]["text"].startswith("g/orders/7 does not continue: stopped")
    assert (checks[5]["text"], checks[5]["remedy"]) == (
        "3 more findings",
        "gapless status shows all",
    )


@pytest.mark.long
def test_a_log_that_stands_still(gapless, conn) -> None:
    ensure_topic(conn, "orders", partitions=2)
    gapless("groups", "create", "g", "orders")
    publish(conn, "orders", 1)
    done = gapless("doctor", "--json")
    assert levels(done)["sequencer"] == levels(done)["members"] == "warning"
    assert "1 event without an offset yet" in text(done, "sequencer")
    conn.execute("select pg_advisory_lock(7427001, 3)")
    sequence(conn)
    conn.execute("update gapless.lease set error = 'stopped: a hole' where partition_id = 1")
    conn.execute("alter table gapless.outbox_message_t disable trigger wake_sequencer")
    done = gapless("doctor", "--json")
    assert done.code == 1
    found = levels(done)
    assert (found["sequencer"], found["partitions"]) == ("ok", "FAIL")
    assert found["wake-trigger"] == "warning"
    assert text(done, "partitions") == "g/orders/1 does not continue: stopped: a hole"


@pytest.mark.long
def test_a_full_queue_of_notifications(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To fill it takes gigabytes: here it counts as full when it is empty."""
    monkeypatch.setattr(session, "_QUEUE_MAX", -1.0)
    found = [each for each in diagnose(dsn, connect_timeout_s=5) if each.name == "notify-queue"]
    assert [each.level for each in found] == ["FAIL"]
    assert "when it is full no NOTIFY commits" in found[0].text


@pytest.mark.long
def test_events_that_nobody_moves(gapless, conn) -> None:
    ensure_topic(conn, "orders", partitions=2)
    insert = "insert into gapless.outbox_message_t (topic_id, created_ts) values (%s, now() - %s)"
    topic = conn.execute("select gapless.topic_id('orders')").fetchone()[0]
    conn.execute(insert, [topic, timedelta(seconds=600)])
    done = gapless("doctor", "--json")
    assert (done.code, levels(done)["sequencer"]) == (1, "FAIL")
    assert "no session is the sequencer; 1 event without an offset yet, the oldest for" in text(
        done, "sequencer"
    )
    assert "1 pending (10m)" in gapless("status").out
    assert gapless("status", "--json").json["totals"]["pending_s"] >= 600
    conn.execute("select pg_advisory_lock(7427001, 3)")
    done = gapless("doctor", "--json")
    assert levels(done)["sequencer"] == "FAIL"
    assert "is the sequencer, and gets nowhere" in text(done, "sequencer")
    sequence(conn)
    assert levels(gapless("doctor", "--json"))["sequencer"] == "ok"


@pytest.mark.long
def test_what_holds_the_horizon(gapless, dsn: str) -> None:
    with psycopg.connect(dsn, application_name="old \x1b friend") as old:
        row = old.execute("select pg_current_xact_id(), pg_backend_pid()").fetchone()
        done = gapless("doctor", "--json")
    assert f"held by pid {row[1]} (old " in text(done, "horizon")


@pytest.mark.long
def test_prepared_transactions(gapless, conn) -> None:
    if conn.execute("show max_prepared_transactions").fetchone() == ("0",):
        pytest.skip("the server has max_prepared_transactions = 0")
    conn.execute("begin")
    conn.execute("select pg_current_xact_id()")
    conn.execute("prepare transaction 'forgotten'")
    done = gapless("doctor", "--json")
    conn.execute("rollback prepared 'forgotten'")
    assert "1 prepared transaction, the oldest 'forgotten'" in text(done, "prepared")


@pytest.mark.long
def test_chunks_that_run_out(gapless, conn) -> None:
    ensure_topic(conn, "orders", partitions=1)
    conn.execute("select setval('gapless.outbox_message_id_seq', 500000000)")
    publish(conn, "orders", 1)
    found = levels(gapless("doctor", "--json"))
    assert (found["chunks"], found["default-chunk"]) == ("warning", "warning")
    assert gapless("retention", "--apply").code == 0, "the remedy"
    found = levels(gapless("doctor", "--json"))
    assert (found["chunks"], found["default-chunk"]) == ("ok", "ok")


def test_an_event_trigger_that_keeps_chunks_from_being_made(gapless, conn) -> None:
    """The remedy that is in its line works."""
    ensure_topic(conn, "orders", partitions=1)
    conn.execute("select setval('gapless.outbox_message_id_seq', 500000000)")
    publish(conn, "orders", 1)
    conn.execute(
        "create function refuse() returns event_trigger language plpgsql as"
        " $$ begin raise 'no DDL today'; end $$;"
        "create event trigger frozen on ddl_command_start execute function refuse()"
    )
    with pytest.raises(RaiseException):
        create_chunks(conn)
    told, _, remedy = text(gapless("doctor", "--json"), "chunks").rpartition(": ")
    assert told.endswith("; event trigger frozen, function refuse, runs when a chunk is made")
    conn.execute(remedy)
    assert create_chunks(conn) > 0


def test_who_keeps_chunks_from_being_made(gapless, conn, dsn) -> None:
    """A worker's handler that takes hours, or anybody who has read the log and holds a transaction."""
    ensure_topic(conn, "orders", partitions=1)
    conn.execute("select setval('gapless.outbox_message_id_seq', 500000000)")
    publish(conn, "orders", 1)
    with connect(dsn, role="reader") as reader, reader.transaction():
        pid = reader.info.backend_pid
        reader.execute("select from gapless.outbox_message_t")
        open_for = "select now() - xact_start > interval '1 s' from pg_stat_activity where pid = %s"
        assert until(lambda: conn.execute(open_for, [pid]).fetchone() == (True,))
        done = gapless("doctor", "--json")
    (found,) = (each for each in done.json["checks"] if each["name"] == "chunks")
    assert (
        f"; pid {pid} has read the default chunk, or published into it, in a transaction, "
        "which is open for " in found["text"]
    )
    assert found["remedy"] == f"have it commit, or select pg_terminate_backend({pid})"


LOCKED = {
    "scheduled": ["status", "later"], "outbox_message_t": ["status"], "consumer_offsets": ["status"],
    "lease": ["status"], "topic": ["topics", "dlq list"], "dead_letter": ["dlq"], "schedule": ["schedule"],
    "webhook": ["webhooks list"],
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("table", LOCKED)
def test_who_has_locked_a_table_is_named(gapless, conn, dsn, table: str) -> None:
    """By doctor, and by whatever looks at that table; nobody waits."""
    with connect(dsn, role="person") as person, person.transaction():
        pid = person.info.backend_pid
        person.execute(f"lock table gapless.{table}".encode())
        open_for = "select now() - xact_start > interval '2 s' from pg_stat_activity where pid = %s"
        assert until(lambda: conn.execute(open_for, [pid]).fetchone() == (True,))
        done = gapless("doctor", "--json")
        looks = {words: gapless(*words.split()).err for words in LOCKED[table]}
    found = [each for each in done.json["checks"] if each["name"] == "locks"]
    assert all(f"pid {pid} of role " in each["text"] for each in found)
    assert any(f"has locked {table} (AccessExclusiveLock)" in each["text"] for each in found)
    assert found[0]["remedy"] == f"have it commit, or select pg_terminate_backend({pid})"
    for words, said in looks.items():
        assert f"has locked {table} (AccessExclusiveLock)" in said, words
        assert found[0]["remedy"] in said, words


@pytest.mark.long
def test_a_restored_log(gapless, conn) -> None:
    conn.execute("update gapless.sequencer set system_identifier = 1")
    assert levels(gapless("doctor", "--json"))["re-base"] == "warning"


@pytest.mark.long
def test_too_many_partitions(gapless, conn) -> None:
    ensure_topic(conn, "wide", partitions=4096)
    gapless("groups", "create", "g", "wide")
    done = gapless("doctor", "--json")
    assert levels(done)["connections"] == "FAIL"
    assert "take 4098 sessions at most" in text(done, "connections")


@pytest.mark.parametrize(
    ("partitions", "workers", "is_told"), [(17, 17, 1), (16, 16, 0), (17, 4, 0)]
)
def test_a_worker_for_each_of_many_partitions_is_told_of_auto(
    gapless, conn, dsn, partitions: int, workers: int, is_told: int
) -> None:
    ensure_topic(conn, "wide", partitions=partitions)
    gapless("groups", "create", "g", "wide")
    with ExitStack() as sessions:
        for number in range(workers):
            sessions.enter_context(connect(dsn, role=f"worker g/wide/{number}"))
        done = gapless("doctor", "--json")
    assert text(done, "connections").count("partitionsPerWorker: auto lets") == is_told


def test_defaults_that_are_overridden_are_named(gapless, conn: psycopg.Connection) -> None:
    assert text(gapless("doctor", "--json"), "primary") == "the server takes writes"
    for name, value in (
        ("default_transaction_read_only", "on"),
        ("default_transaction_isolation", "serializable"),
    ):
        conn.execute(f"alter database {conn.info.dbname} set {name} = '{value}'")  # type: ignore[arg-type]
        done = gapless("doctor", "--json")
        assert levels(done)["primary"] == "warning"
        assert f"{name} is {value} for this role or database" in text(done, "primary")
