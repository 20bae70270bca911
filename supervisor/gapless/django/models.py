"""Units that were set aside, as a model: for the admin, and for queries."""

from __future__ import annotations

from django.db import models

from gapless.django.database import table


class SetAsideUnit(models.Model):
    """A unit that a group passed without success; `state` as in `gapless dlq`."""

    place = models.TextField(primary_key=True)
    group_id = models.TextField("group")
    topic = models.TextField()
    partition_id = models.IntegerField("partition")
    first_offset = models.BigIntegerField("offset")
    events = models.IntegerField()
    state = models.TextField()
    reason = models.TextField()
    exception = models.TextField()
    attempts = models.IntegerField()
    first_failed_ts = models.DateTimeField("first failed")
    last_failed_ts = models.DateTimeField("last failed")
    next_attempt_ts = models.DateTimeField("next attempt", null=True)
    redriven_by = models.TextField(null=True)
    discarded_by = models.TextField(null=True)
    discard_reason = models.TextField(null=True)
    content = models.TextField()

    class Meta:
        managed = False
        db_table = table("set_aside_units")
        ordering = ("-last_failed_ts", "place")
        verbose_name = "unit set aside"
        verbose_name_plural = "units set aside (dead letters)"
        default_permissions = ("view",)
        permissions = (
            ("redrive_setasideunit", "Can have units handled again"),
            ("discard_setasideunit", "Can give units up"),
        )

    def __str__(self) -> str:
        return str(self.place)
