"""A project of Django, whose database is the test's."""

from __future__ import annotations

from collections.abc import Iterator

import django
import pytest
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

POSTGRESQL = "django.db.backends.postgresql"
# By whoever comes first in this process: the example of Django is run in another one.
settings.configure(
    SECRET_KEY="x",
    DEBUG=False,
    USE_TZ=True,
    TIME_ZONE="UTC",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="frameworks.urls",
    STATIC_URL="/static/",
    DATABASES={
        "default": {"ENGINE": POSTGRESQL, "NAME": "nowhere"},
        "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    },
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "gapless.django",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
)
django.setup()


def _point_to(dsn: str) -> None:
    parts = conninfo_to_dict(dsn)
    connections["default"].settings_dict.update(
        NAME=parts["dbname"],
        USER=parts.get("user", ""),
        PASSWORD=parts.get("password", ""),
        HOST=parts.get("host", ""),
        PORT=str(parts.get("port", "")),
    )


@pytest.fixture
def project(dsn: str) -> Iterator[str]:
    """Django's database is one with the schema; returns its DSN."""
    _point_to(dsn)
    yield dsn
    connections.close_all()


@pytest.fixture
def empty_project(empty_dsn: str) -> Iterator[str]:
    """Django's database is empty; returns its DSN."""
    _point_to(empty_dsn)
    yield empty_dsn
    connections.close_all()
