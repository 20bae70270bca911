"""Settings of the project; its database is the one that gapless finds (GAPLESS_DSN)."""

from psycopg.conninfo import conninfo_to_dict

import gapless

with gapless.connect() as conn:  # a project of yours names its database here
    _found = {**conninfo_to_dict(conn.info.dsn), "password": conn.info.password}

SECRET_KEY = "an example"  # noqa: S105 - it keeps nothing secret
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "site_of_shop.urls"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _found["dbname"],
        "USER": _found.get("user", ""),
        "PASSWORD": _found["password"],
        "HOST": _found.get("host", ""),
        "PORT": str(_found.get("port", "")),
    }
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "gapless.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
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
]
