"""A session as a step has it, and somebody who looks at what it has committed."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection
from psycopg.pq import TransactionStatus

from gapless.db.connect import connect
from support.step_session import StepSession


@pytest.fixture(scope="module")
def looker(module_dsn: str) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="looker") as looker:
        looker.execute("create table public.effect (n int unique deferrable initially deferred)")
        yield looker


@pytest.fixture
def session(module_dsn: str, looker: Connection[Any]) -> Iterator[StepSession]:
    looker.execute("truncate public.effect")
    with connect(module_dsn, role="step") as conn:
        yield StepSession(conn, looker)
        if not conn.closed and conn.info.transaction_status != TransactionStatus.IDLE:
            conn.rollback()
