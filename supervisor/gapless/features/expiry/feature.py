"""The record of groups that expire: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Duty, Feature

if TYPE_CHECKING:
    from gapless.status.section import StatusSection


def _checks() -> Sequence[Check]:
    from gapless.features.expiry.checks import expiry

    return (expiry,)


def _duties() -> Sequence[Duty]:
    from gapless.features.expiry.duty import ExpiryDuty

    return (ExpiryDuty,)


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.expiry import section

    return (section.SECTION,)


EXPIRY = Feature(
    verbs={"groups": "gapless.features.expiry.group_commands"},
    checks=_checks,
    duties=_duties,
    sections=_sections,
    ops=("gapless.features.expiry.ops",),
)
