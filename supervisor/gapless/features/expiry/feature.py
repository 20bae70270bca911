"""The record of groups that expire: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Check, Duty, Feature


def _checks() -> Sequence[Check]:
    from gapless.features.expiry.checks import expiry

    return (expiry,)


def _duties() -> Sequence[Duty]:
    from gapless.features.expiry.duty import ExpiryDuty

    return (ExpiryDuty,)


EXPIRY = Feature(
    checks=_checks,
    duties=_duties,
)
