"""The brake: a bad deploy does not empty a topic, and one producer's bad events make nobody wait."""

import re
from typing import Any

import pytest

from gapless import ops
from gapless.status import snapshot
from support.fleet import Fleet, until
from support.ledger import assert_all_once
from support.long import long_but

ERROR = "select error from gapless.lease where partition_id = 0"
POLICIES = {
    "dead-letter": {},
    "retry": {"on_failure": "retry", "retry_delays_s": [3600]},
    "park-key": {"on_failure": "park-key", "retry_delays_s": [3600]},
    "at-least-once": {"delivery": "at-least-once", "concurrency": 2},
    "auto": {"partitions_per_worker": "auto"},
}
UNITS = 40
FAILING = """
insert into gapless.outbox_message_t (topic_id, key, transaction_id, payload)
select gapless.topic_id('t'), 'bad' || n % 40, gen_random_uuid(), '{"raise": "no"}'
from generate_series(1, 40) n
"""
FAILING_OF = {"keys": FAILING, "keyless": FAILING.replace("'bad' || n % 40", "null")}
SLOW: dict[str, object] = {
    "gapless.worker.failure_backoff.BRAKE_UNITS": 5,
    "gapless.worker.failure_backoff.BRAKE_S_MIN": 3600.0,
    "gapless.worker.failure_backoff.BRAKE_S_MAX": 3600.0,
}


def settled(fleet: Fleet) -> int:
    return len(fleet.states())


@pytest.mark.parametrize("failing", long_but(FAILING_OF, "keyless"))
@pytest.mark.parametrize("name", long_but(POLICIES, "dead-letter"))
def test_when_all_fail_the_partition_slows_down(fleet: Fleet, name: str, failing: str) -> None:
    """It would take an hour until the next one: what is left is not given up."""
    a = fleet.start("a", patch=SLOW, total_partitions=1, batch_size=5, **POLICIES[name])
    fleet.until_owners(a=1)
    fleet.conn.execute(FAILING_OF[failing])
    error = until(lambda: fleet.value(ERROR), "it is seen", within=a.log)
    assert error.startswith("retrying: slowed down until ")
    assert re.search(r"[5-9] in a row failed, the last 5 of [2-9] keys.* since it started$", error)
    assert a.logged("g/t/0: slowed down until ")
    (row,) = snapshot(fleet.conn).partitions
    assert (row.error or "").startswith("retrying: slowed down until ")
    (found,) = [each for each in ops.diagnose(fleet.dsn) if "slowed down until" in each.text]
    assert (found.name, found.level) == ("partitions", "warning")
    assert "When everything fails" in found.remedy
    assert 5 <= settled(fleet) < 10
    fleet.publish({}, partitions=1)
    until(lambda: not fleet.value("select gapless.pending()"), "it has its offset")
    assert 5 <= settled(fleet) < 10, "a notification does not lift it"


@pytest.mark.parametrize("failing", long_but(FAILING_OF, "keys"))
def test_a_burst_makes_nobody_wait_where_others_were_handled_before(
    fleet: Fleet, failing: str
) -> None:
    a = fleet.start("a", patch=SLOW, total_partitions=1, batch_size=5)
    fleet.until_owners(a=1)
    fleet.publish({}, partitions=1)
    fleet.until_handled()
    fleet.conn.execute(FAILING_OF[failing])
    fleet.publish({}, partitions=1)
    fleet.until_handled()
    assert settled(fleet) == UNITS
    assert not a.logged("slowed down")


@pytest.mark.parametrize("name", long_but(["dead-letter", "auto"], "auto"))
def test_nor_where_another_partition_is_healthy(fleet: Fleet, name: str) -> None:
    """Be it in a worker of its own, or in the same one."""
    a = fleet.start("a", patch=SLOW, total_partitions=8, batch_size=5, **POLICIES[name])
    fleet.until_owners(a=8)
    in_one = "from generate_series(1, 400) n where gapless.partition_of('bad' || n % 200, 8) = 0"
    failing = FAILING.replace("from generate_series(1, 40) n", in_one)
    fleet.conn.execute(failing.replace("n % 40,", "n % 200,"))
    until(lambda: a.logged("g/t/0: slowed down"), "all that is handled fails", within=a.log)
    for partition in reversed(range(8)):
        fleet.publish({}, partition=partition, partitions=8)
    fleet.until_handled()
    assert a.logged("g/t/0: continues as before")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "keys", "keys_min"),
    [("dead-letter", 40, 0), ("dead-letter", 2, 3), ("park-key", 2, 3), ("at-least-once", 2, 3)],
)
def test_bad_events_of_few_keys_make_nobody_wait(
    fleet: Fleet, name: str, keys: int, keys_min: int
) -> None:
    """Nor do any where the brake is taken off."""
    options: dict[str, Any] = {**POLICIES[name], "brake_keys": keys_min}
    a = fleet.start("a", patch=SLOW, total_partitions=1, batch_size=5, **options)
    fleet.until_owners(a=1)
    fleet.conn.execute(FAILING.replace("% 40", f"% {keys}"))
    fleet.publish({}, partitions=1)
    fleet.until_handled()
    assert settled(fleet) == UNITS
    assert not a.logged("slowed down")


@pytest.mark.long
@pytest.mark.parametrize("name", long_but(["dead-letter", "at-least-once"], "dead-letter"))
def test_one_that_is_handled_lifts_it(fleet: Fleet, name: str) -> None:
    quick: dict[str, object] = {
        "gapless.worker.failure_backoff.BRAKE_UNITS": 5,
        "gapless.worker.failure_backoff.BRAKE_S_MIN": 0.01,
        "gapless.worker.failure_backoff.BRAKE_S_MAX": 0.02,
    }
    a = fleet.start("a", patch=quick, total_partitions=1, batch_size=5, **POLICIES[name])
    fleet.until_owners(a=1)
    fleet.conn.execute(FAILING)
    until(lambda: a.logged("slowed down"), "it slows down", within=a.log)
    fleet.publish(*[{}] * 10, partitions=1)
    fleet.until_handled()
    until(lambda: a.logged("g/t/0: continues as before"), "it is said", within=a.log)
    until(lambda: fleet.value(ERROR) is None, "it is no error any more")
    assert settled(fleet) == UNITS
    assert a.log().count("slowed down") == 1
    if name != "at-least-once":
        assert_all_once(fleet.conn)
