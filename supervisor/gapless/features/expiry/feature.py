"""What groups that expire add to the rooms of all."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Check, Feature


def _checks() -> Sequence[Check]:
    from gapless.features.expiry.checks import expiry

    return (expiry,)


EXPIRY = Feature(
    checks=_checks,
)
