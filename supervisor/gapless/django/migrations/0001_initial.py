"""Install the schema, and tell Django of the model that reads it.

Any later `migrate` brings the schema changes of a newer gapless (apps.py); another migration is
needed only when the model changes.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from gapless.django.database import install, table


def _install(_apps: Any, schema_editor: Any) -> None:
    install(schema_editor.connection.alias)


class Migration(migrations.Migration):
    """The schema of gapless; going back leaves it: `gapless uninstall` drops everything."""

    atomic = False  # the schema is made through a session of its own
    initial = True
    dependencies = ()
    operations = (
        migrations.RunPython(_install, migrations.RunPython.noop),
        migrations.CreateModel(
            name="SetAsideUnit",
            fields=[
                ("place", models.TextField(primary_key=True, serialize=False)),
                ("group_id", models.TextField(verbose_name="group")),
                ("topic", models.TextField()),
                ("partition_id", models.IntegerField(verbose_name="partition")),
                ("first_offset", models.BigIntegerField(verbose_name="offset")),
                ("events", models.IntegerField()),
                ("state", models.TextField()),
                ("reason", models.TextField()),
                ("exception", models.TextField()),
                ("attempts", models.IntegerField()),
                ("first_failed_ts", models.DateTimeField(verbose_name="first failed")),
                ("last_failed_ts", models.DateTimeField(verbose_name="last failed")),
                ("next_attempt_ts", models.DateTimeField(null=True, verbose_name="next attempt")),
                ("redriven_by", models.TextField(null=True)),
                ("discarded_by", models.TextField(null=True)),
                ("discard_reason", models.TextField(null=True)),
                ("content", models.TextField()),
            ],
            options={
                "managed": False,
                "db_table": table("set_aside_units"),
                "ordering": ("-last_failed_ts", "place"),
                "verbose_name": "unit set aside",
                "verbose_name_plural": "units set aside (dead letters)",
                "default_permissions": ("view",),
                "permissions": (
                    ("redrive_setasideunit", "Can have units handled again"),
                    ("discard_setasideunit", "Can give units up"),
                ),
            },
        ),
    )
