"""The settings of webhooks."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.settings.declare import NAME_CHARACTERS_MAX, REFERENCE_CHARACTERS_MAX, setting, whole
from gapless.settings.kinds import Items, Text

ATTEMPTS_MAX = 100_000


@dataclass(frozen=True, kw_only=True)
class WebhookSettings:
    """Webhooks."""

    webhook_allow: tuple[str, ...] = setting(
        Items(item=Text(longest=NAME_CHARACTERS_MAX), null="none"), ()
    )
    """Private networks whose addresses webhooks may call, in addition to those on the internet:
    such as 10.1.2.0/24 (gapless run --webhooks, gapless webhooks test)."""

    webhook_ca_file: str | None = setting(
        Text(longest=REFERENCE_CHARACTERS_MAX, null="the usual authorities")
    )
    """A file with certificates (PEM) that webhooks trust, in addition to those of the usual
    authorities."""

    webhook_attempts: int = whole(1000, 0, ATTEMPTS_MAX)
    """The newest attempts that are kept of each webhook, for 24 hours (gapless webhooks attempts).
    0: none is recorded."""
