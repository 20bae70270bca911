"""Short runs in which mutants of the failure policies must show."""

import threading
from typing import Any

import psycopg
from psycopg import Connection

from chaos.checker import Violation
from chaos.mutants.plays import Hands, hands, to_the_end
from chaos.points.theatre import Theatre
from chaos.policy_play import Play
from chaos.producer import Draft
from gapless.consume.drive import Driver
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.keys import Assignment
from gapless.log.sequence import sequence
from support.turn import turn

TROUBLE = 5  # times, more than maxCrashes
_REDRIVE = "select gapless.redrive_letter('g', 't', 0, 1)"


def policies(theatre: Theatre) -> list[Violation]:
    """All policies, each with units that fail in every way but those that end their process."""
    play = Play(theatre.dsn, theatre.conn, theatre.folder, partitions=4)
    try:
        play.play()
    finally:
        play.close()
    return []


def killer(theatre: Theatre) -> list[Violation]:
    """A unit kills whoever handles it; others are behind it."""

    def provoke() -> None:
        theatre.publish(*theatre.orders(3, poison=[2], kill=True))
        theatre.publish(*theatre.orders(6))

    return to_the_end(theatre, provoke)


def redriven_in_hand(theatre: Theatre) -> list[Violation]:
    """A person redrives a dead letter while the worker handles it, for another person asked first."""
    with hands(theatre) as by, connect(theatre.dsn, role="cli") as person:
        dies = True
        asks = threading.Thread(target=lambda: person.execute(_REDRIVE))

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            if dies:
                raise ValueError("mended later")
            write(unit, conn)
            if asks.ident is None:
                asks.start()
                waits = "select cardinality(pg_blocking_pids(%s)) > 0"
                theatre.until(
                    lambda: not asks.is_alive() or theatre.value(waits, person.info.backend_pid),
                    "the second person is told, or waits",
                )

        write = by.handler
        driver = _driver(by, Handler(function=handle, topic="t", group="g"))
        _publish(by)
        driver.turn()
        dies = False
        theatre.conn.execute(_REDRIVE)
        _to_its_end(driver)
        asks.join()
        _to_its_end(driver)
    return []


def troubled_retry(theatre: Theatre) -> list[Violation]:
    """A unit that waits for another attempt meets trouble again and again, and is handled then."""
    with hands(theatre) as by:
        calls = 0

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            nonlocal calls
            if unit.attempt == 1:
                raise ValueError("the first attempt")
            calls += 1
            if calls <= TROUBLE:
                raise psycopg.errors.SerializationFailure("passes")
            write(unit, conn)

        write = by.handler
        handler = Handler(
            function=handle, topic="t", group="g", on_failure="retry", retry_delays_s=(0,)
        )
        driver = _driver(by, handler)
        _publish(by)
        _to_its_end(driver)
    state = theatre.value("select state from gapless.dead_letter")
    if state is None:
        return []
    text = f"it is {state} after {calls} calls that met trouble"
    return [Violation(invariant="I9", name="trouble counted", text=text)]


def _publish(by: Hands) -> None:
    """Publish a unit that is refused for a while."""
    assert by.producer.order("order", [Draft(key=by.theatre.keys[0], does="mend")]) == "ok"
    sequence(by.theatre.conn)


def _driver(by: Hands, handler: Handler) -> Driver:
    conn = by.session()
    assignment: Assignment = by.own(conn, by.member("first"))
    return Driver(turn(conn, assignment, handler, batch_size=10))


def _to_its_end(driver: Driver) -> None:
    """Take turns until there is nothing to do, nor anything due."""
    while True:
        try:
            if driver.turn().outcome == "idle" and not driver.has_due():
                return
        except psycopg.errors.SerializationFailure:
            continue
