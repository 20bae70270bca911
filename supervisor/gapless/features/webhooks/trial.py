"""Send one test event to an endpoint, from an operator's machine."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.webhooks.address import RefusedAddressError, networks_of, parse_target
from gapless.features.webhooks.kept import EndpointAnswer
from gapless.features.webhooks.meaning import WELL
from gapless.features.webhooks.post import Poster, UnansweredError, trust
from gapless.features.webhooks.record import Endpoint
from gapless.features.webhooks.settings import WebhookSettings
from gapless.features.webhooks.sign import SecretError, headers_for, read_secrets
from gapless.settings import Settings

TEST_TYPE = "gapless.test"


def send_test(
    conn: Connection[Any], name: str, settings: Settings
) -> tuple[int | None, str | None]:
    """Return the status of the answer, or the reason for none. Raises UsageError for a setting."""
    with conn.cursor(row_factory=class_row(Endpoint)) as cursor:
        endpoint = cursor.execute(query("webhooks", "endpoint"), {"name": name}).fetchone()
    if endpoint is None:
        return None, f'webhook "{name}" was removed'
    own = settings.of(WebhookSettings)
    allowed, tls = networks_of(own.webhook_allow), trust(own.webhook_ca_file)
    message_id, body = trial_request(endpoint.now_s)
    try:
        target = parse_target(endpoint.url, allow_http=endpoint.allow_http)
        secrets = read_secrets(endpoint.secrets)
        headers = headers_for(message_id, body, secrets, now_s=endpoint.now_s)
        answer = asyncio.run(_send(Poster(target, allowed, tls, 1), body, headers))
    except (RefusedAddressError, SecretError, UnansweredError, UsageError) as error:
        return None, str(error)
    ok = answer.status in WELL
    return answer.status, None if ok else f"{target} answered {answer.status}"


def trial_request(now_s: float) -> tuple[str, bytes]:
    """Return the id and the body of a request without events; now_s: in seconds since 1970."""
    made_at = datetime.fromtimestamp(now_s, UTC).isoformat()
    body = json.dumps({"type": TEST_TYPE, "timestamp": made_at, "events": []}).encode()
    return f"test-{uuid4()}", body


async def _send(poster: Poster, body: bytes, headers: dict[str, str]) -> EndpointAnswer:
    try:
        return await poster.post(body, headers)
    finally:
        await poster.close()
