"""What /metrics says is what happened, of a real `gapless run`; and it says all of the table."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg import Connection

from features.metrics.scraped import scrape_of_groups, until_passed
from gapless.features.compaction.latest import set_compaction
from gapless.telemetry.names import METRICS
from support.fleet import until
from support.watched import Watch, order

QUEUES = Path(__file__).with_name("queue_app.py")
CONSUMED = "messaging_client_consumed_messages_total"
SENT = "messaging_client_sent_messages_total"
BILLING = {"messaging_consumer_group_name": "billing", "messaging_destination_name": "orders"}
GROUP = {"group": "billing", "topic": "orders"}


def test_all_of_the_table_and_nothing_else(watch: Watch, conn: Connection) -> None:
    set_compaction(conn, "orders", compact=True)
    watched = watch()
    watched.until_ready()
    order(conn, 10)
    until_passed(conn, 10, watched)
    scrape = scrape_of_groups(watched)
    ours = [metric for metric in METRICS.values() if metric.source in ("here", "log")]
    assert scrape.kinds == {metric.name: metric.kind for metric in ours}
    for metric in ours:
        name = f"{metric.name}_count" if metric.kind == "histogram" else metric.name
        found = scrape.samples[name]
        assert found, name
        for each in found:
            assert {label for label, _ in each} == set(metric.labels), name


@pytest.mark.long
@pytest.mark.parametrize("per_worker", ["1", "auto"])
def test_counts_are_what_happened(
    watch: Watch, conn: Connection, calls: Callable[[], list[str]], per_worker: str
) -> None:
    watched = watch("--partitions-per-worker", per_worker)
    watched.until_ready()
    order(conn, 20)
    order(conn, 3, bad=True)
    order(conn, 20)
    until_passed(conn, 43, watched)
    scrape = watched.scrape()
    done = Counter(calls())
    assert done["bad"] >= 3
    assert scrape.value(CONSUMED, error_type="", **BILLING) == done["good"]
    assert scrape.value(CONSUMED, error_type="ValueError", **BILLING) == done["bad"]
    sent = scrape.value(
        SENT, error_type="", messaging_destination_name="paid", messaging_system="gapless"
    )
    assert sent == done["good"]
    durations = scrape.value("messaging_process_duration_seconds_count", **BILLING)
    assert durations == done["good"] + done["bad"]
    for operation in ("claim", "commit", "publish"):
        name = "messaging_client_operation_duration_seconds_count"
        assert scrape.value(name, messaging_operation_name=operation) > 0, operation
    scrape = until(
        lambda: (now := watched.scrape()).value("gapless_letters", state="dead", **GROUP) and now,
        "a look at the database, which is taken every 5 s",
        within=watched.log,
    )
    assert scrape.value("gapless_letters", state="dead", **GROUP) == 3
    assert scrape.value("gapless_lease_owned", **GROUP) == 2
    assert scrape.value("gapless_takeovers_total", **GROUP) == 2
    assert scrape.value("gapless_log_end_offset", topic="orders") == 43
    assert scrape.value("gapless_sequencer_runs_total") == scrape.value(
        "gapless_sequencing_seconds_count"
    )
    assert scrape.value("gapless_sequencer_active") == 1
    assert scrape.value("gapless_member") == scrape.value("gapless_database_up") == 1
    assert scrape.value("gapless_chunks") >= 1


@pytest.mark.long
def test_workers_of_queues_count(
    watch: Watch, conn: Connection, calls: Callable[[], list[str]]
) -> None:
    """Each call, of every worker of a queue, before and after one of them was killed."""
    watched = watch("--workers", "2", app=str(QUEUES))
    watched.until_ready()
    order(conn, 20)
    order(conn, 2, bad=True)
    of_picking = {
        "messaging_consumer_group_name": "picking",
        "messaging_destination_name": "orders,paid",
    }
    of_mailing = {**BILLING, "messaging_consumer_group_name": "mailing"}

    def has_counted(picked: int, mailed: int) -> bool:
        scrape = watched.scrape()
        return (
            scrape.value(CONSUMED, error_type="", **of_picking) >= picked
            and scrape.value(CONSUMED, error_type="", **of_mailing) >= mailed
        )

    until(lambda: has_counted(20, 22), "all are counted", within=watched.log)
    worker = until(lambda: watched.child("queue worker picking"), "a worker")
    os.kill(worker, signal.SIGKILL)
    until(
        lambda: watched.scrape().value(
            "gapless_worker_restarts_total", group="picking", topic="orders,paid"
        ),
        "the restart is counted",
        within=watched.log,
    )
    order(conn, 20)
    until(lambda: has_counted(40, 42), "all of the next, too", within=watched.log)
    scrape, done = watched.scrape(), Counter(calls())
    assert scrape.value(CONSUMED, error_type="ValueError", **of_picking) >= 2
    assert scrape.value(CONSUMED, **of_picking) == done["picked"]
    assert scrape.value(CONSUMED, **of_mailing) == done["mailed"] == 42


@pytest.mark.long
def test_what_was_counted_outlives_a_worker(
    watch: Watch, conn: Connection, calls: Callable[[], list[str]]
) -> None:
    """What is committed was counted, whoever is killed; and a counter never goes down (kill -9)."""
    watched = watch()
    watched.until_ready()
    before = 0.0
    for kill in range(3):
        order(conn, 20)
        until_passed(conn, 20 * (kill + 1), watched)
        worker = until(lambda: watched.child("worker billing"), "a worker")
        os.kill(worker, signal.SIGKILL)
        until(
            lambda n=kill: (
                watched.scrape().value("gapless_worker_restarts_total", **GROUP) >= n + 1
            ),
            "the restart is counted",
            within=watched.log,
        )
        now = watched.scrape().value(CONSUMED, error_type="", **BILLING)
        assert 20 * (kill + 1) <= now <= Counter(calls())["good"]
        assert now >= before
        before = now
    until(
        lambda: watched.scrape().value("gapless_takeovers_total", **GROUP) >= 5,
        "each took its partition again",
        within=watched.log,
    )


@pytest.mark.long
def test_what_waits_for_a_retry_is_no_lag(watch: Watch, conn: Connection) -> None:
    watched = watch(ON_FAILURE="park-key")
    watched.until_ready()
    order(conn, 1, bad=True)
    order(conn, 1)  # of the same key: parked
    until_passed(conn, 2, watched)
    until(
        lambda: watched.scrape().value("gapless_letters", state="waiting", **GROUP) == 1,
        "a unit waits",
        within=watched.log,
    )
    scrape = watched.scrape()
    assert scrape.value("gapless_letters", state="parked", **GROUP) == 1
    assert scrape.value("gapless_lag_events", **GROUP) == 0
    assert scrape.value("gapless_lag_seconds", **GROUP) == 0


@pytest.mark.long
def test_what_nobody_handles_is_lag(watch: Watch, conn: Connection) -> None:
    watched = watch()
    watched.until_ready()
    conn.execute("select gapless.pause('billing')")
    order(conn, 10)
    until(
        lambda: watched.scrape().value("gapless_lag_events", **GROUP) == 10,
        "ten events of lag",
        within=watched.log,
    )
    scrape = watched.scrape()
    assert scrape.value("gapless_lag_seconds", **GROUP) > 0
    assert scrape.value("gapless_standstill_seconds", **GROUP) == 0, "a person wants that"


@pytest.mark.long
def test_without_the_database_it_says_what_it_has_counted(watch: Watch, conn: Connection) -> None:
    watched = watch()
    watched.until_ready()
    order(conn, 5)
    until_passed(conn, 5, watched)
    with conn.transaction():
        # A look waits for the lock 1 s, and has failed then.
        conn.execute("lock table gapless.topic in access exclusive mode")
        until(
            lambda: watched.scrape().value("gapless_database_up") == 0,
            "it says so",
            within=watched.log,
        )
        scrape = watched.scrape()
        assert "gapless_lag_events" not in scrape.samples
        assert scrape.value(CONSUMED, error_type="", **BILLING) >= 5
    until(lambda: watched.scrape().value("gapless_database_up") == 1, "it is back")


@pytest.mark.long
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_an_exporter_that_ends_or_hangs_is_started_again(
    watch: Watch, conn: Connection, signum: signal.Signals
) -> None:
    watched = watch()
    watched.until_ready()
    order(conn, 5)
    until_passed(conn, 5, watched)
    exporter = until(lambda: watched.child("exporter"), "an exporter")
    os.kill(exporter, signum)
    until(lambda: watched.child("exporter") not in {None, exporter}, "another one", timeout_s=40)
    scrape = watched.scrape()
    assert scrape.value(CONSUMED, error_type="", **BILLING) == 5, (
        "at the same address, nothing lost"
    )


@pytest.mark.long
def test_nothing_is_left_when_it_is_told_to_end(watch: Watch) -> None:
    watched = watch()
    watched.until_ready()
    exporter = until(lambda: watched.child("exporter"), "an exporter")
    watched.process.send_signal(signal.SIGTERM)
    assert watched.process.wait(30) == 0, watched.log()
    assert not os.path.exists(f"/proc/{exporter}")  # noqa: PTH110
