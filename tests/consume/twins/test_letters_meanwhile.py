"""What others hear of a unit that was set aside, and wait for: with COMMIT, and all put back afterwards."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.letters import Letters
from support.patience import patience
from support.twins import Twins

EMPTY = (
    "delete from gapless.dead_letter_event; delete from gapless.dead_letter_key; delete from gapless.dead_letter;"
    " delete from gapless.guard_keys; update gapless.topic set layout = 0 where layout <> 0;"
    " update gapless.log_segment set layout = 0 where layout <> 0"
)


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    with connect(module_dsn, role="test") as conn:
        yield Twins(conn)


@pytest.fixture
def letters(shared: Twins) -> Iterator[Letters]:
    """Each statement is a transaction of its own."""
    made = Letters(shared)
    made.plant()
    made.keys({1: "a", 4: "a"})
    try:
        yield made
    finally:
        made.run(EMPTY)


@pytest.fixture
def ear(letters: Letters, module_dsn: str) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="ear") as conn:
        conn.execute("listen done")
        for topic in letters.twins.topic_ids.values():
            for partition in range(3):
                conn.execute(f"listen gapless_p_{topic}_{partition}")
        yield conn


def heard(letters: Letters, ear: Connection[Any]) -> list[tuple[int, int, str]]:
    """Of which topics and partitions the workers were told, and what."""
    letters.run("notify done")
    found: list[tuple[int, int, str]] = []
    for notify in ear.notifies(timeout=patience(10.0)):
        if notify.channel == "done":
            return sorted(found)
        *_, topic, partition = notify.channel.split("_")
        found.append((int(topic), int(partition), notify.payload))
    raise AssertionError("the notification of the end did not come")


# What was done; the partitions of orders whose workers are told.
TOLD: dict[str, tuple[str, str, list[int]]] = {
    "redriven": ("", "gapless.redrive_letter('billing', 'orders', 1, 1)", [1]),
    "redriven though it waits": ("", "gapless.redrive_letter('billing', 'orders', 1, 3)", [1]),
    "is parked": ("", "gapless.redrive_letter('billing', 'orders', 1, 4)", []),
    "discarded": ("", "gapless.discard_letter('billing', 'orders', 1, 1, 'no')", [1]),
    "was discarded": ("", "gapless.discard_letter('billing', 'orders', 1, 8, 'no')", []),
    "handled": ("", "gapless.close_letter('billing', {orders}, 1, 1)", []),
    "handled, and moved": (
        "delete from gapless.dead_letter_key where partition_id = 1 and first_offset = 4",
        "gapless.close_letter('billing', {orders}, 1, 1)", [0],
    ),
    "discarded, and moved": (
        "delete from gapless.dead_letter_key where partition_id = 1 and first_offset = 4",
        "gapless.discard_letter('billing', 'orders', 1, 1, 'no')", [0, 1],
    ),
}  # fmt: skip
MOVED = (
    "update gapless.topic set layout = 1 where name = 'orders';"
    "update gapless.log_segment set layout = 1 + partition_id where partition_id <> 1;"
    "delete from gapless.dead_letter_key where partition_id <> 1 and first_offset = 1;"
)


@pytest.mark.parametrize("name", TOLD)
def test_which_workers_are_told(letters: Letters, ear: Connection[Any], name: str) -> None:
    """Those who have something to do, wherever a key is by now; who frees it knows it himself."""
    before, call, partitions = TOLD[name]
    if before:
        letters.run(MOVED + before)
    letters.rows(f"select {call}")
    orders = letters.words["orders"]
    assert heard(letters, ear) == [(orders, partition, "letter") for partition in partitions]


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        ("gapless.discard_letter('billing', 'orders', 1, 3, 'no')", "gone"),
        ("gapless.redrive_letter('billing', 'orders', 1, 3)", "claimed"),
        ("gapless.discard_letter('mail', 'orders', 1, 3, 'no')", "claimed"),
    ],
)
def test_what_a_person_has_in_hand_is_claimed_as_it_is_afterwards(
    letters: Letters, module_dsn: str, call: str, outcome: str
) -> None:
    claim = "select outcome from gapless.claim_letter('billing', {orders}, 1, 5, {token}, 3)"
    with connect(module_dsn, role="worker") as worker, ThreadPoolExecutor(1) as pool:

        def claimed() -> Any:
            with worker.transaction(force_rollback=True):
                return worker.execute(claim.format(**letters.words)).fetchone()

        with letters.conn.transaction():
            letters.rows(f"select {call}")
            found = pool.submit(claimed)
            give_up = monotonic() + patience(10.0)
            while not found.done() and not waits(letters, worker):
                assert monotonic() < give_up
        assert found.result(patience(10.0)) == (outcome,)


def waits(letters: Letters, worker: Connection[Any]) -> bool:
    query = f"select cardinality(pg_blocking_pids({worker.info.backend_pid})) > 0"
    return bool(letters.value(query))
