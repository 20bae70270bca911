"""Turns and terms for tests: the arguments of a driver, with values that the test chooses."""

from typing import Any

from psycopg import Connection

from gapless.consume.job import Job
from gapless.consume.read.backlog import Backlog
from gapless.consume.step import Step, step, step_alone
from gapless.consume.terms import Terms, agree
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.policy import Policy
from gapless.keys import Assignment
from gapless.settings import Settings

_TURN = ("parked", "former_end", "patience")


def terms(handler: Handler, **said: Any) -> Terms:
    """Return the default terms with a handler; said: fields of Terms, the policy whole."""
    policy: Policy = said.pop("policy", Policy())
    configured = Settings(
        on_failure=policy.on_failure,
        retry_delays_s=policy.retry_delays_s,
        max_crashes=policy.crashes_max,
        instance_name=said.pop("worker", "") or None,
        max_units_per_savepoint_batch=said.pop("units_per_commit", 64),
        **said,
    )
    return agree(handler, configured)


def turn(
    conn: Connection[Any],
    assignment: Assignment,
    handler: Handler,
    ahead: Backlog | None = None,
    **said: Any,
) -> Job:
    """Return the arguments of a step."""
    own = {name: said.pop(name) for name in _TURN if name in said}
    return Job(
        conn=conn,
        assignment=assignment,
        handler=handler,
        terms=terms(handler, **said),
        backlog=ahead or Backlog(),
        **own,
    )


def one_step(
    conn: Connection[Any],
    assignment: Assignment,
    handler: Handler,
    ahead: Backlog | None = None,
    **said: Any,
) -> Step:
    """Take one step, without a further claim."""
    return step(turn(conn, assignment, handler, ahead, **said))


def one_step_alone(
    conn: Connection[Any], assignment: Assignment, handler: Handler, **said: Any
) -> Step:
    """Take one step of one unit, its attempt written down."""
    return step_alone(turn(conn, assignment, handler, **said))
