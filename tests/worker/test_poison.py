"""Units that take their worker with them: found and put aside, nobody else pays (I8, I9)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.fleet import Fleet, until
from support.ledger import assert_all_once, assert_exactly_once
from support.long import long_but

KILLED = "signal SIGKILL (out of memory?)"
PARK = {"on_failure": "park-key", "retry_delays_s": [0]}
# The deed of the event, how its worker ended in the words of the letter, and settings.
POISONS: dict[str, tuple[dict[str, object], str, dict[str, object]]] = {
    "kills its process": ({"kill": True}, KILLED, {}),
    "kills its process, park-key": ({"kill": True}, KILLED, PARK),
    "exits": ({"exit": 3}, "exit code 3", {}),
    "exits as if drained": ({"exit": 0}, "exit code 0", {}),
    "segmentation fault": ({"segv": True}, "signal SIGSEGV", {}),
    "hangs": ({"hang": True}, "signal SIGKILL: it took longer than 400 ms", {}),
    "hangs in C": ({"hang_in_c": True}, "signal SIGKILL: it took longer than 400 ms", {}),
    "ends its own session": ({"sql": "select pg_terminate_backend(pg_backend_pid())"}, "", {}),
}
NOT_ITS_FAULT = """
create or replace function gapless.finish_batch(_claim_xid text) returns boolean language plpgsql as
$$ begin raise exception 'what is of gapless is broken' using errcode = 'XX001'; end $$
"""


@pytest.mark.parametrize("name", long_but(POISONS, "hangs"))
def test_a_deadly_unit_is_dead_lettered_and_its_neighbours_are_handled(
    fleet: Fleet, name: str, record_property: Callable[[str, object], None]
) -> None:
    soon = {"gapless.worker.retries.BACKOFF_S_MAX": 0.1} if "session" in name else {}
    poison, words, settings = POISONS[name]
    fleet.start("a", max_processing_ms=400, patch=soon, **settings)
    fleet.until_owners(a=4)
    since = fleet.now()
    fleet.publish({}, {}, poison, {}, {})
    for partition in range(1, 4):
        fleet.publish({}, partition=partition)
    fleet.until_handled()
    took_s = fleet.now() - since
    record_property("took_s", took_s)
    print(f"{name}: {took_s:.1f} s")  # noqa: T201
    if settings:
        assert_all_once(fleet.conn)
    else:
        assert_exactly_once(fleet.conn, dead_offsets={(0, 3)})
    attempts, why = fleet.conn.execute(
        "select attempts, reason from gapless.dead_letter"
    ).fetchone() or (0, "")
    assert attempts == 3
    assert "died" in why
    assert f"the last one: {words}" in why


@pytest.mark.long
def test_two_deadly_units_and_one_that_only_fails(fleet: Fleet) -> None:
    fleet.start("a")
    fleet.until_owners(a=4)
    fleet.publish({}, {"kill": True}, {"raise": "no"}, {}, {"exit": 1}, {})
    fleet.until_handled(40)
    assert_exactly_once(fleet.conn, dead_offsets={(0, 2), (0, 3), (0, 5)})


@pytest.mark.long
def test_once_killed_is_not_poison(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start("a")
    fleet.until_owners(a=4)
    for number in range(3):
        fleet.publish({"once": str(tmp_path / str(number)), "kill": True})
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_what_is_not_a_units_fault_is_never_dead_lettered(fleet: Fleet) -> None:
    """A worker that ends with code 1 over and over, for a reason of gapless: it tries on."""
    a = fleet.start("a")
    fleet.until_owners(a=4)
    good = fleet.value("select pg_get_functiondef('gapless.finish_batch'::regproc)")
    fleet.conn.execute(NOT_ITS_FAULT)
    fleet.publish({}, {}, {})
    until(lambda: a.deaths("exit code 1") >= 6, "crashes", within=a.log)
    assert fleet.value("select count(*) from gapless.dead_letter_queue") == 0
    fleet.conn.execute(good)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
