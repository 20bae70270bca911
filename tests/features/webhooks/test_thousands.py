"""Thousands of endpoints by one worker: a dead one and a slow one cost nobody; whatever is killed, nothing is lost."""

import os
import threading
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
from psycopg import Connection

from features.webhooks.started import (
    Start,
    _ids_are_stable,
    _until,
    keys_of_one_partition,
    require_recorded,
    start,
)
from gapless.features.webhooks.ops import list_webhooks
from gapless.log.publish import publish
from support.endpoint import Call, Reply, Server, workers_of
from support.patience import bounded_patience
from support.shared_webhooks import add_shared, add_shop, publish_each_alone

__all__ = ["start"]

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.long]


def _publish(conn: Connection, numbers: range, shops: int) -> None:
    with conn.pipeline():
        for number in numbers:
            with conn.transaction():
                publish(conn, "outbox", {"n": number, "shop": number % shops}, key=str(number))


def _got(server: Server) -> dict[str, set[int]]:
    got: dict[str, set[int]] = {}
    for call in list(server.calls):
        for event in call.json["events"]:
            got.setdefault(call.path[1:], set()).add(event["data"]["n"])
    return got


def _memory_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


@pytest.mark.timeout(900)
def test_a_thousand_by_one_worker_one_dead_and_one_slow(
    conn: Connection, server: Server, start: Start
) -> None:
    shops, events = 500, 300
    with conn.transaction():
        for n in range(998):
            add_shop(conn, server, f"e{n}", n % shops)
        add_shared(conn, server, "dead")
        add_shop(conn, server, "slow", 7)
    is_dead = True

    def answer(call: Call) -> Reply:
        if call.path == "/dead" and is_dead:
            return Reply(500)
        return Reply(wait_s=3.0 if call.path == "/slow" else 0.0)

    server.answer = answer
    start()
    _publish(conn, range(events), shops)
    wanted = {f"e{n}": {n % shops} for n in range(998) if n % shops < events}

    def have_all() -> bool:
        got = _got(server)
        return all(got.get(name, set()) >= each for name, each in wanted.items())

    _until(have_all, "the others get everything", patience_s=400)
    (dead,) = [each for each in list_webhooks(conn) if each.name == "dead"]
    assert dead.circuit_open_since is not None
    (worker,) = workers_of("webhooks-outbox")
    assert _memory_kb(worker) < 300_000
    is_dead = False
    _until(
        lambda: _got(server)["dead"] == set(range(events)), "the dead one resumes", patience_s=300
    )
    _until(lambda: 7 in _got(server).get("slow", set()), "the slow one, too")
    assert not any(each.dead for each in list_webhooks(conn))


@pytest.mark.timeout(300)
def test_many_that_begin_to_hang_hold_up_the_living_for_some_seconds(
    conn: Connection, server: Server, start: Start
) -> None:
    """None of them is known yet. By one second each, a few at a time, it would be half a minute."""
    hanging = 100
    for n in range(hanging):
        add_shop(conn, server, f"hangs{n}", n)
    add_shop(conn, server, "good", hanging)
    ready = threading.Event()
    in_time: list[bool] = []

    def answer(call: Call) -> Reply:
        if call.path != "/good":
            in_time.append(ready.wait(9))
        return Reply()

    server.answer = answer
    start()
    _publish(conn, range(hanging, hanging + 1), hanging + 1)
    _until(lambda: bool(server.of("/good")), "it delivers")
    keys = iter(keys_of_one_partition(conn, 3 * hanging))
    for n in range(hanging):
        for shop in (n, n, hanging):
            publish_each_alone(conn, {"n": n, "shop": shop}, key=next(keys))
    _until(lambda: _got(server)["good"] >= set(range(hanging)), "the living get everything")
    ready.set()
    _until(lambda: bool(in_time), "calls have ended")
    assert all(in_time)


@pytest.mark.timeout(600)
def test_every_endpoint_gets_every_event_whatever_is_killed(
    conn: Connection, server: Server, start: Start
) -> None:
    shops, events, names = 5, 90, [f"e{n}" for n in range(20)]
    for n, name in enumerate(names):
        add_shop(conn, server, name, n % shops)
    failing = iter(range(60))
    server.answer = lambda call: (
        Reply(500)
        if len(server.calls) % 4 == 0 and next(failing, None) is not None
        else Reply(wait_s=0.02)
    )
    one, two = start(), start()
    _publish(conn, range(events // 3), shops)
    _until(lambda: len(server.calls) > 10, "it delivers")
    for pid in workers_of("webhooks-outbox"):
        os.kill(pid, SIGKILL)
    _publish(conn, range(events // 3, 2 * events // 3), shops)
    _until(lambda: len(server.calls) > 60, "workers are replaced")
    one.kill()
    _publish(conn, range(2 * events // 3, events), shops)
    wanted = {name: set(range(n % shops, events, shops)) for n, name in enumerate(names)}

    def have_all() -> bool:
        conn.execute(
            "update gapless.dead_letter set next_attempt_ts = now()"
            " where state = 'waiting' and next_attempt_ts > now() + '5 s' and crashes = 0"
        )
        return _got(server) == wanted

    _until(have_all, "every event arrives", patience_s=200)
    last = range(events, events + shops)  # by the last supervisor, which ends in order
    _publish(conn, last, shops)
    for n, name in enumerate(names):
        wanted[name] |= {each for each in last if each % shops == n % shops}
    _until(have_all, "the last ones arrive", patience_s=200)
    two.send_signal(SIGTERM)
    assert two.wait(bounded_patience(40.0)) == 0
    for name in names:
        assert _ids_are_stable(server, f"/{name}")
        require_recorded(conn, server, name, set(last))
