"""The brake of a queue's workers: what status and doctor say of it, and what does not bring it on."""

import pytest

from gapless import ops
from gapless.status import snapshot
from support.fleet import until
from support.long import long_but
from support.supervisors import Runs

UNITS = 20  # of the brake


@pytest.mark.parametrize("group", long_but(["once", "outside"], "once"))
def test_status_and_doctor_say_why_its_workers_rest(runs: Runs, group: str) -> None:
    def errors() -> list[str]:
        return [each.error for each in snapshot(runs.conn).partitions if each.error is not None]

    bad = runs.publish(*[{"do": "fail"}] * (UNITS + 1))
    runs.start(group, workers=1, environ={"CONCURRENCY": "1"})
    (said,) = until(errors, "it is said", within=runs.state)
    assert said.startswith("retrying: a worker of this queue slowed down until ")
    (found,) = [each for each in ops.diagnose(runs.dsn) if "slowed down" in each.text]
    assert (found.name, found.level) == ("partitions", "warning")
    assert "When everything fails" in found.remedy
    runs.until_done(runs.publish({}))
    until(lambda: not errors(), "it is over", within=runs.state)
    assert len(runs.dead(group)) == len(bad)
    assert runs.logs().count("continues as before") == 1
