"""The handlers that a supervisor has for the present webhooks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.consume.user.handler import Handler, handler
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.webhooks.address import networks_of
from gapless.features.webhooks.deliver import TURN_S_MAX, Delivery, DeliverySettings
from gapless.features.webhooks.line import AT_A_TIME, HANGING_MAX
from gapless.features.webhooks.many import SharedDelivery
from gapless.features.webhooks.post import ANSWER_S_MAX, trust
from gapless.features.webhooks.record import DeclaredWebhook, SharedWebhooks
from gapless.features.webhooks.settings import WebhookSettings
from gapless.resources import resource
from gapless.settings import Settings

RETRY_DELAYS_S = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The recommendation of Standard Webhooks: nine more attempts within three days."""

BATCH_EVENTS_MIN = 100
CALLS = AT_A_TIME + 2 * HANGING_MAX  # of a partition: more than there are places, the others wait


class Webhooks:
    """A source of handlers (worker/follow.py): one for each webhook, the same until it changes."""

    def __init__(self, settings: Settings, dsn: str) -> None:
        """Raise UsageError for settings that do not fit webhooks."""
        least_ms = int(TURN_S_MAX + 2 * ANSWER_S_MAX) * 1000
        if settings.max_processing_ms < least_ms:
            raise UsageError(
                f"webhooks need maxProcessingMs of {least_ms} or more: a request may wait for its "
                f"turn and for its answer; it is {settings.max_processing_ms}"
            )
        own = settings.of(WebhookSettings)
        self._means = DeliverySettings(
            dsn=dsn,
            connect_timeout_s=settings.connect_timeout_s,
            allowed=networks_of(own.webhook_allow),
            tls=trust(own.webhook_ca_file),
            attempts_max=own.webhook_attempts,
        )
        self._made: dict[DeclaredWebhook, Handler] = {}
        self._shared: dict[SharedWebhooks, Handler] = {}

    def handlers(self, conn: Connection[Any]) -> list[Handler]:
        """Return the handlers of all webhooks; purge removed ones and old attempts."""
        if conn.execute(query("webhooks", "any_gone")).fetchone() == (True,):
            conn.execute(query("webhooks", "purge"))
        with conn.cursor(row_factory=class_row(DeclaredWebhook)) as cursor:
            found = cursor.execute(query("webhooks", "declared")).fetchall()
        keys = [replace(each, retry_delays_s=_hashable(each.retry_delays_s)) for each in found]
        self._made = {key: self._made.get(key) or self._handler(key) for key in keys}
        with conn.cursor(row_factory=class_row(SharedWebhooks)) as cursor:
            shared = cursor.execute(query("webhooks", "declared_shared")).fetchall()
        self._shared = {key: self._shared.get(key) or self._together(key) for key in shared}
        return [*self._made.values(), *self._shared.values()]

    def _together(self, webhooks: SharedWebhooks) -> Handler:
        delivery = SharedDelivery(self._means, webhooks)
        made = handler(
            topic=webhooks.topic,
            group=webhooks.group,
            start="latest",
            delivery="at-least-once",
            concurrency=CALLS,
            batch_size=2 * CALLS,
            on_failure="retry",
            retry_delays_s=RETRY_DELAYS_S,
            resources=[resource(delivery.open)],
        )(delivery.deliver)
        return replace(made, asides_beside=True)

    def _handler(self, webhook: DeclaredWebhook) -> Handler:
        # Each partition has its own calls; all of them together keep to the webhook's limit.
        calls = -(-webhook.concurrency // webhook.partitions)
        if webhook.rate is not None:  # more than can have a turn soon would only wait
            calls = min(calls, int(webhook.rate * TURN_S_MAX / 2 / webhook.partitions))
        calls = max(1, calls)
        delays_s = webhook.retry_delays_s
        delivery = Delivery(self._means, webhook.name, webhook.concurrency)
        return handler(
            topic=webhook.topic,
            group=webhook.group,
            start="latest",
            delivery="at-least-once",
            concurrency=calls,
            batch_size=max(BATCH_EVENTS_MIN, 2 * calls),
            on_failure="park-key" if webhook.keeps_order else "retry",
            retry_delays_s=RETRY_DELAYS_S if delays_s is None else delays_s,
            resources=[resource(delivery.open)],
        )(delivery.deliver)


def _hashable(delays_s: Any) -> Any:
    return None if delays_s is None else tuple(delays_s)
