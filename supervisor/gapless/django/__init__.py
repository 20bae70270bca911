"""gapless within Django: add "gapless.django" to INSTALLED_APPS; extra `gapless[django]`.

`migrate` installs the schema, `manage.py gapless …` is the command, with the database of Django;
`manage.py gapless run` runs the handlers in the module `handlers` of each app. In a handler the
ORM works within its transaction:

    with gapless.django.on(conn):
        Bill.objects.create(…)

Dead letters are in the admin. The setting GAPLESS_DATABASE names another database than "default",
GAPLESS_SCHEMA another schema than "gapless".
"""

from gapless.lazily import attributes

__all__ = ["handlers", "on"]

__getattr__, __dir__ = attributes(
    __name__, {"gapless.django.orm": "on", "gapless.django.discover": "handlers"}
)
