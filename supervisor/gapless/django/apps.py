"""The app: its schema is brought up to date with every `migrate`."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class GaplessConfig(AppConfig):
    """The app `gapless`."""

    name = "gapless.django"
    label = "gapless"
    verbose_name = "gapless"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Upgrade the schema of an older gapless at the next `migrate`."""
        post_migrate.connect(_upgrade, sender=self)


def _upgrade(*, using: str, **_: Any) -> None:
    from gapless.django.database import install  # noqa: PLC0415 - once the settings are there

    install(using)
