"""What `gapless init --plan` prints: what an upgrade would do."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg.errors import InsufficientPrivilege

from gapless.cli.screen import answer
from gapless.db.schema import schema
from gapless.errors import UsageError
from gapless.ops.text import quantity, size_text
from gapless.ops.upgrade import PlannedLock, UpgradePlan, plan_upgrade

if TYPE_CHECKING:
    from psycopg import Connection


def show_plan(conn: Connection[Any], args: argparse.Namespace) -> int:
    """Print what `gapless init` would do to the database; return the exit code, 0."""
    try:
        plan = plan_upgrade(conn)
    except InsufficientPrivilege as error:
        raise UsageError(
            f'role "{conn.info.user}" may not read {schema()}.migration: grant it gapless_consumer'
        ) from error
    answer(
        args, "\n".join(_lines(plan, conn.info.dbname)), database=conn.info.dbname, **asdict(plan)
    )
    return 0


def _lines(plan: UpgradePlan, dbname: str) -> Iterator[str]:
    place = f'database "{dbname}", schema {schema()}'
    if not (plan.migrations or plan.functions or plan.views):
        yield f"nothing to do: {place} is up to date"
        return
    yield f"{place}: {f'is at {plan.installed}' if plan.installed else 'is not there yet'}"
    files = [(plan.functions, "function"), (plan.views, "view")]
    parts = [quantity(len(plan.migrations), "migration")]
    parts += [quantity(number, noun) for number, noun in files if number]
    what = ", ".join([*parts, "roles"])
    yield f"would apply {what}, in one transaction, in about {plan.seconds:.1f} s"
    yield from (f"  {name}" for name in plan.migrations)
    if plan.installed is None:
        return
    yield from map(_lock, plan.locks)
    if not plan.locks:
        yield "no table that is there is locked"
    yield (
        f"time: {plan.file_ms:g} ms a file, {plan.rows_per_s_read:,} rows/s read, "
        f"{plan.rows_per_s_written:,} rows/s written; waiting for locks comes on top"
    )
    if plan.gone:
        yield f"gone for programs that call them: {', '.join(plan.gone)}"
    yield "programs of before that run continue; one that starts anew must be of this version"


def _lock(lock: PlannedLock) -> str:
    work = {"none": "no row is touched", "read": "all rows are read", "written": "rows are written"}
    size = f"about {quantity(lock.rows, 'row')}, {size_text(lock.bytes)}"
    return f"  {lock.file} locks {lock.table} ({size}) against {lock.blocks}; {work[lock.work]}"
