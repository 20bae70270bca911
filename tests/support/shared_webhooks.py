"""Webhooks that share a group: functions to add them, publish and look at them."""

from collections.abc import Callable
from typing import Any

from psycopg import Connection

from gapless.features.webhooks.ops import WebhookInfo, add_webhook, list_webhooks
from gapless.features.webhooks.settings import WebhookSettings
from gapless.log.publish import publish
from gapless.settings import Settings
from support.endpoint import Server

LOCAL = Settings(sections=(WebhookSettings(webhook_allow=("127.0.0.0/8",)),))
GROUP = "webhooks-outbox"
SHOP = {"shop": "$.shop"}
Deliver = Callable[..., None]


def add_shared(conn: Connection, server: Server, name: str, **said: Any) -> bool:
    """Add an endpoint of the server that shares a group, or with other options."""
    url = said.pop("url", f"{server.url}/{name}")
    given = {"secrets": ["env:HOOK"], "allow_http": True, "shared": True, **said}
    return add_webhook(conn, name, "outbox", url, **given)


def add_own(conn: Connection, server: Server, name: str = "shop", **said: Any) -> bool:
    """Add an endpoint with a group of its own."""
    return add_shared(conn, server, name, shared=False, **said)


def add_shop(conn: Connection, server: Server, name: str, shop: int, **said: Any) -> bool:
    """Add an endpoint that gets the events of a shop."""
    return add_shared(conn, server, name, match=SHOP, params={"shop": shop}, **said)


def publish_each_alone(conn: Connection, *payloads: Any, **given: Any) -> None:
    """Publish each payload in a transaction of its own."""
    for payload in payloads:
        with conn.transaction():
            publish(conn, "outbox", payload, **given)


def make_due(conn: Connection) -> None:
    """Make all units that were set aside due now."""
    conn.execute("update gapless.dead_letter set next_attempt_ts = now() where state = 'waiting'")


def letter_states(conn: Connection) -> list[str]:
    """Return the states of the units that were set aside."""
    rows = conn.execute("select state from gapless.dead_letter order by partition_id, first_offset")
    return [row[0] for row in rows]


def webhook_info(conn: Connection, name: str) -> WebhookInfo:
    """Return the information about a webhook."""
    (found,) = [each for each in list_webhooks(conn) if each.name == name]
    return found


def numbers_at(server: Server, name: str) -> list[Any]:
    """Return the numbers of the events that an endpoint was called with."""
    return sorted(each["n"] for call in server.of(f"/{name}") for each in call.data)
