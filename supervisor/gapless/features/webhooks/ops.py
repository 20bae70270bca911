"""Webhooks, for an operator: add, list, test, pause, resume, remove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.util import find_spec
from json import dumps
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import RefusedError, UsageError
from gapless.features.webhooks.record import group_of, shared_group_of
from gapless.log.filter import filter_of
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.settings import Settings

__all__ = [
    "WebhookAttempt", "WebhookInfo", "WebhookTrial", "add_webhook", "list_attempts",
    "list_webhooks", "pause_webhook", "remove_webhook", "replay_webhook", "resume_webhook",
    "show_webhook", "try_webhook",
]  # fmt: skip

CONCURRENCY = 16  # of a webhook with a group of its own
ROWS_MAX = 1000  # of one list
REMOVE_S_MAX = 10.0
_LOOK_S = 0.2
_NEEDED = ("certifi", "httptools")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookInfo:
    """The state of a webhook. Its group is webhook-NAME, or webhooks-TOPIC if it shares one.

    secrets: the places of its secrets. event_types, where, params: the wanted events; None: any.
    rate: requests a second; None: no limit. concurrency: requests at a time. lag: events that it
    has not passed. waiting: units to be tried again; dead: units for a person. is_run: whether a
    supervisor delivers. delivered: requests that succeeded, failed: requests that did not, some
    seconds late. last_error: why the last request failed; None: it did not. circuit_open_since: the
    time since which only one request in 30 seconds is made, because those before failed; None: all
    are made. shared: whether it shares the group webhooks-TOPIC; lag then includes the events that
    wait in the log for it alone. trouble: the error with which a partition of its group, own or
    shared, stands; None: there is none.
    """

    name: str
    topic: str
    url: str
    secrets: Sequence[str] = field(metadata={"only_json": True})
    event_types: Sequence[str] | None
    where: str | None
    params: Mapping[str, Any] | None = field(metadata={"only_json": True})
    rate: float | None
    concurrency: int = field(metadata={"only_json": True})
    keeps_order: bool = field(metadata={"only_json": True})
    retry_delays_s: Sequence[int] | None = field(metadata={"only_json": True})
    paused: bool
    pause_reason: str | None = field(metadata={"only_json": True})
    lag: int
    waiting: int
    dead: int
    is_run: bool
    delivered: int
    failed: int
    last_error: str | None
    last_at: datetime | None = field(metadata={"only_json": True})
    circuit_open_since: datetime | None
    shared: bool = field(metadata={"only_json": True})
    trouble: str | None = field(metadata={"only_json": True})

    @property
    def group(self) -> str:
        """Its consumer group, own or shared."""
        return shared_group_of(self.topic) if self.shared else group_of(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAttempt:
    """A request to a webhook: id: later requests have higher ones. at: the time when it began.

    partition, offset, event_type: of its first event; None: it had none, and only tried an endpoint
    whose circuit is open. attempt: which one of the unit's, from 1. status: None: there
    was no answer. answer: the first 200 characters of an answer that was not 2xx, or the error that
    came in place of an answer. took_ms: milliseconds until the answer.
    """

    id: int
    at: datetime
    topic: str
    partition: int | None
    offset: int | None
    event_type: str | None
    attempt: int | None
    status: int | None
    took_ms: float
    answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTrial:
    """An endpoint's answer to a test event. taken: whether that was a 2xx; otherwise the reason."""

    name: str
    status: int | None
    taken: bool
    error: str | None


def require_extra() -> None:
    """Raise UsageError where the package for deliveries is not installed."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise UsageError(f'webhooks need {", ".join(_NEEDED)}: pip install "gapless[webhooks]"')


def list_webhooks(
    conn: Connection[Any],
    *,
    name: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[WebhookInfo]:
    """Return webhooks by name, all by default.

    name: only this one. after: only names behind this one. limit: rows, None: all.
    """
    wanted = {"name": name, "after": after, "limit": limit}
    return rows(conn, WebhookInfo, query("webhooks", "webhooks"), **wanted)


def show_webhook(conn: Connection[Any], name: str) -> WebhookInfo:
    """Return the webhook of that name. Raises RefusedError (GL404) when there is none."""
    found = list_webhooks(conn, name=name)
    if not found:
        raise RefusedError(
            f'there is no webhook "{name}": gapless webhooks lists them', sqlstate="GL404"
        )
    return found[0]


def list_attempts(
    conn: Connection[Any],
    name: str,
    *,
    failed: bool = False,
    before: int | None = None,
    limit: int = 100,
) -> list[WebhookAttempt]:
    """Return the newest requests to a webhook, the newest first, some seconds late.

    Those of the last 24 hours are kept, as many as the setting webhook_attempts says. failed: only
    those without a 2xx. before: an id, for the next page. limit: rows, 1 to 1000.
    Raises UsageError for another limit, RefusedError (GL404) when there is no such webhook.
    """
    if not 1 <= limit <= ROWS_MAX:
        raise UsageError(f"limit: {limit} must be from 1 to {ROWS_MAX}")
    wanted = {"name": name, "failed": failed, "before": before, "limit": limit}
    found = rows(conn, WebhookAttempt, query("webhooks", "attempts"), **wanted)
    if not found:
        show_webhook(conn, name)
    return found


def add_webhook(  # noqa: PLR0913 - the parts of a webhook
    conn: Connection[Any],
    name: str,
    topic: str,
    url: str,
    *,
    secrets: Sequence[str],
    event_types: Sequence[str] | None = None,
    where: str | None = None,
    params: Mapping[str, Any] | None = None,
    rate: float | None = None,
    concurrency: int | None = None,
    keeps_order: bool = False,
    retry_delays_s: Sequence[int] | None = None,
    allow_http: bool = False,
    start: str = "latest",
    shared: bool = False,
    match: Mapping[str, str] | None = None,
    sql_condition: str | None = None,
) -> bool:
    """Have an endpoint called with a topic's events, or change the webhook of that name; True: new.

    secrets: the places where the supervisors find them, env:NAME or file:/PATH; two while one
    replaces the other. event_types, where, params: the wanted events, as in set_filter().
    rate: requests a second, 0.01 to 100 000. concurrency: requests at a time, 1 to 1000 (None: 16).
    keeps_order: later events of a key wait behind one that failed. retry_delays_s: seconds until
    the second, third, … attempt. start: "latest", "earliest" or "latest-per-key", where a new
    webhook begins. shared: it is a subscription of the group that the topic's webhooks share, with
    match and sql_condition as in subscribe(), and has no concurrency, order, retries or start.
    Raises UsageError for an invalid URL or filter, RefusedError for an invalid combination (GL400),
    an unknown topic (GL404), another topic than before (GL409).
    """
    from gapless.features.webhooks.address import parse_target  # noqa: PLC0415 - only here

    try:
        parse_target(url, allow_http=allow_http)
    except UsageError as error:
        raise UsageError(f'webhook "{name}": {error}') from error
    # With the params of a subscription, the database checks whether they fit.
    wanted = filter_of(event_types, None if shared else where, None if shared else params)
    said = {
        "name": name,
        "topic": topic,
        "url": url,
        "secrets": list(secrets),
        "event_types": None if wanted is None else wanted.query_params["event_types"],
        "where": where,
        "params": dumps(dict(params)) if shared and params else wanted and wanted.params,
        "rate": rate,
        "concurrency": concurrency,
        "keeps_order": keeps_order,
        "retry_delays_s": None if retry_delays_s is None else list(retry_delays_s),
        "allow_http": allow_http,
        "start": start,
        "shared": shared,
        "matches": None if match is None else dumps(dict(match)),
        "sql_condition": sql_condition,
    }
    return bool(row(conn, query("webhooks", "add"), **said)[0])


def pause_webhook(conn: Connection[Any], name: str, *, reason: str | None = None) -> bool:
    """Pause an endpoint; its place is kept. False: already paused. RefusedError: there is none."""
    return bool(row(conn, query("webhooks", "pause"), name=name, reason=reason)[0])


def resume_webhook(conn: Connection[Any], name: str) -> bool:
    """Let a webhook continue where it was; a failed one is tried at once.

    False: it was not paused. RefusedError: there is none.
    """
    return bool(row(conn, query("webhooks", "resume"), name=name)[0])


def replay_webhook(
    conn: Connection[Any], name: str, since: datetime | timedelta, *, dry_run: bool = False
) -> int:
    """Send a webhook of a shared group its events again; return how many units are set aside.

    since: a time, or an age (a timedelta, of seconds or more): events published then or later.
    dry_run: only return the number; the work is done and rolled back, so it takes as long. Messages
    keep their ids. RefusedError: there is no such webhook, it has a group of its own (seek() moves
    that), more than 100 000 events are since then, or some are gone.
    """
    is_age = isinstance(since, timedelta)
    said = {"since": None if is_age else since, "age": since if is_age else None}
    with conn.transaction(force_rollback=True) if dry_run else nullcontext():
        return int(row(conn, query("webhooks", "replay"), name=name, **said)[0])


def remove_webhook(conn: Connection[Any], name: str, *, wait_s: float = REMOVE_S_MAX) -> bool:
    """Stop calling an endpoint; forget it, its place and its dead letters. False: there is none.

    Waits up to wait_s seconds until its supervisors have let go; if that takes longer, they end it.
    """
    if not row(conn, query("webhooks", "remove"), name=name)[0]:
        return False
    until_s = monotonic() + wait_s
    while row(conn, query("webhooks", "purge"))[0] and monotonic() < until_s:
        sleep(_LOOK_S)
    return True


def try_webhook(conn: Connection[Any], name: str, settings: Settings) -> WebhookTrial:
    """Send one event of type gapless.test to an endpoint from here, signed; nothing is counted.

    Takes at most 10 seconds. settings: webhook_allow and webhook_ca_file apply. Raises RefusedError
    for an unknown webhook, UsageError without the extra.
    """
    require_extra()
    from gapless.features.webhooks.trial import send_test  # noqa: PLC0415 - needs an extra

    show_webhook(conn, name)
    status, error = send_test(conn, name, settings)
    taken = status is not None and status in range(200, 300)
    return WebhookTrial(name=name, status=status, taken=taken, error=error)
