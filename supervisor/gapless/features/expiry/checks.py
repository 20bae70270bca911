"""Doctor's check for groups that are about to expire."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.expiry.ops import list_expiries
from gapless.ops.doctor.finding import Finding, Patient, ok, warning
from gapless.ops.text import age_text, plain, quantity

_NEAR = 0.9  # of its time; as in sql/features/expiry/views/expiries.sql


def expiry(patient: Patient) -> Iterator[Finding]:
    """Check whether an unused group is in the last tenth of its time."""
    found = list_expiries(patient.conn)
    near = [each for each in found if each.idle_s >= _NEAR * each.expires_after_s]
    for each in near:
        units = quantity(each.set_aside, "unit")
        yield warning(
            "expiry",
            plain(
                f"group {each.group} is dropped, with {units} set aside, when it is not used for "
                f"another {age_text(round(each.left_s))}"
            ),
            plain(f"run it, or gapless groups expire {each.group} --never"),
        )
    if not near:
        yield ok("expiry", f"{quantity(len(found), 'group')} may expire, none soon")
