"""Dead letters in the admin: read, redrive, discard; redrive and discard need a permission each."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest

from gapless.db.connect import connect_shared
from gapless.django.database import alias, dsn
from gapless.django.models import SetAsideUnit
from gapless.errors import GaplessError
from gapless.ops.dlq.change import discard_units, redrive_units
from gapless.ops.place import GroupPlace


class ReasonForm(ActionForm):
    """A field beside the choice of the action: the reason for discarding units."""

    reason = forms.CharField(required=False, label="Reason (to discard)")


@admin.register(SetAsideUnit)
class SetAsideUnitAdmin(admin.ModelAdmin):
    """The list of units that were set aside, with the actions on them."""

    list_display = ("place", "state", "events", "attempts", "reason", "last_failed_ts")
    list_filter = ("state", "group_id", "topic")
    search_fields = ("place", "reason", "exception")
    action_form = ReasonForm
    actions = ("redrive", "discard")

    def get_queryset(self, request: HttpRequest) -> QuerySet[SetAsideUnit]:
        """Return units of the database that has the log; load events only where they are shown."""
        return SetAsideUnit.objects.using(alias()).defer("content")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: nobody sets a unit aside by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Refuse: a unit cannot be edited."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Refuse: a unit is never deleted; a discarded unit stays, with the reason."""
        return False

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may have units handled again."""
        return bool(request.user.has_perm("gapless.redrive_setasideunit"))

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may discard units."""
        return bool(request.user.has_perm("gapless.discard_setasideunit"))

    @admin.action(description="Handle again (redrive)", permissions=["redrive"])
    def redrive(self, request: HttpRequest, chosen: QuerySet[SetAsideUnit]) -> None:
        """Have the chosen units handled again by their workers."""
        self._change(request, chosen)

    @admin.action(description="Give up (discard)", permissions=["discard"])
    def discard(self, request: HttpRequest, chosen: QuerySet[SetAsideUnit]) -> None:
        """Discard the chosen units, for the reason in the form."""
        self._change(request, chosen, reason=request.POST.get("reason", ""))

    def _change(self, request: HttpRequest, chosen: QuerySet[SetAsideUnit], **reason: Any) -> None:
        places = [GroupPlace.parse_event(place) for place in chosen.values_list("place", flat=True)]
        change = discard_units if reason else redrive_units
        try:
            # Not Django's session: it may be in a transaction; this commits after each 50 units.
            with connect_shared(dsn(), role="django admin") as conn:
                done = change(conn, places, who=str(request.user), **reason)
        except GaplessError as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        for outcome, units in Counter(each.outcome for each in done).items():
            is_good = outcome in ("asked", "discarded")
            level = messages.SUCCESS if is_good else messages.WARNING
            self.message_user(request, f"{units} units: {outcome}", level)
