"""The handlers of a run: a group for each failure policy, all of them over the same topic.

They write down what they are given, and do what its events say (chaos.deeds).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

import gapless
from chaos.deeds import Stage, act, deeds
from chaos.effects import Desk, write_effects
from chaos.history import Grouped, Handling, Writer
from gapless import Unit
from gapless.consume.user.handler import Handler

TOPIC = "orders"
GROUPS = (
    Grouped(group="billing"),
    Grouped(group="audit", on_failure="retry", delays_s=(0.3, 0.6)),
    Grouped(group="stock", on_failure="park-key", delays_s=(0.3, 0.6)),
    Grouped(group="ledger", on_failure="block"),
    Grouped(group="mail", on_failure="park-key", delays_s=(0.3, 0.6), delivery="at-least-once"),
)
CONCURRENCY = 3
Publish = Callable[[Unit, Connection[Any]], None]


class Shop:
    """The handlers of some groups. dsn: where at-least-once handlers have their effects."""

    def __init__(self, folder: Path, dsn: str, topic: str = TOPIC) -> None:
        self._folder = folder
        self._topic = topic
        self._writer = Writer(folder, "worker")
        self.desk = Desk(dsn)
        (folder / "deeds").mkdir(exist_ok=True)

    def handler(self, group: Grouped, publish: Publish | None = None, **odd: Any) -> Handler:
        """Make the handler of a group; publish: what else it does for a unit; odd: other options."""

        def once(unit: Unit, conn: Connection[Any]) -> None:
            self._handle(group, unit, conn, publish)

        def outside(unit: Unit) -> None:
            self._handle(group, unit, None)

        is_once = group.delivery == "exactly-once"
        options: dict[str, Any] = {"topic": self._topic} | odd
        return Handler(
            function=once if is_once else outside,
            group=group.group,
            on_failure=group.on_failure,  # type: ignore[arg-type]
            retry_delays_s=group.delays_s,
            delivery=group.delivery,  # type: ignore[arg-type]
            concurrency=None if is_once else CONCURRENCY,
            **options,
        )

    def _handle(
        self,
        group: Grouped,
        unit: Unit,
        conn: Connection[Any] | None,
        publish: Publish | None = None,
    ) -> None:
        self._note(group, unit, "begin")
        how = "trouble"
        try:
            if conn is None:
                self.desk.write(group.group, unit, "begin")
            else:
                write_effects(group.group, unit, conn)
                if publish is not None:
                    publish(unit, conn)  # first, so that a unit that is refused takes it back
            stage = Stage(self._folder / "deeds", group, unit, conn)
            for event in unit:
                act(stage, event)
            if conn is None:
                self.desk.write(group.group, unit, "end")
            how = "ok"
        except Exception as error:
            how = _how(error)
            raise
        finally:
            self._note(group, unit, "end", how)

    def _note(self, group: Grouped, unit: Unit, phase: Any, how: str = "") -> None:
        self._writer.write(
            Handling(
                group=group.group,
                topic=unit.topic,
                partition=unit.partition,
                first_offset=unit.first_offset,
                phase=phase,
                attempt=unit.attempt,
                does=" ".join(deeds(unit)),
                how=how,
            )
        )


def _how(error: Exception) -> str:
    if isinstance(error, psycopg.Error):
        return "trouble"
    return _WISHES.get(type(error), "raised")


_WISHES: dict[type[Exception], str] = {
    gapless.Retry: "retry",
    gapless.DeadLetter: "dead",
    gapless.Skip: "skip",
}

if "CHAOS_FOLDER" in os.environ:  # in a supervisor of a run
    _shop = Shop(Path(os.environ["CHAOS_FOLDER"]), os.environ["GAPLESS_DSN"])
    billing, audit, stock, ledger, mail = map(_shop.handler, GROUPS)
