"""Signatures as in https://www.standardwebhooks.com; secrets, by their places."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable, Sequence

from gapless.errors import ConfigError
from gapless.settings.reference import dereference

SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
_PREFIX = "whsec_"


class SecretError(Exception):
    """A secret cannot be read; the text names its place, and nothing of it."""


def read_secrets(references: Iterable[str]) -> list[bytes]:
    """Return the keys at env:NAME and file:PATH. Raises SecretError."""
    return [_key(reference, _text(reference)) for reference in references]


def headers_for(
    message_id: str, body: bytes, secrets: Sequence[bytes], *, now_s: float
) -> dict[str, str]:
    """Return the headers of a request: its message's id, its time, a signature for each secret."""
    made_at_s = str(int(now_s))
    signed = f"{message_id}.{made_at_s}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": made_at_s,
        "webhook-signature": " ".join(_signature(secret, signed) for secret in secrets),
    }


def message_id(idempotency_key: str) -> str:
    """Return the id of a unit in its requests: its idempotency key.

    Dots separate the parts of the signed text, so they become %2E, and % becomes %25.
    """
    return idempotency_key.replace("%", "%25").replace(".", "%2E")


def _signature(secret: bytes, signed: bytes) -> str:
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"


def _text(reference: str) -> str:
    try:
        return dereference(reference)
    except ConfigError as error:
        raise SecretError(f"secret {error}") from None


def _key(reference: str, text: str) -> bytes:
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise SecretError(
            f"secret {reference}: it has to be whsec_ and base64 of {SECRET_BYTES_MIN} to "
            f"{SECRET_BYTES_MAX} random bytes"
        )
    return key
