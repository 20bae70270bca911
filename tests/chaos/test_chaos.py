"""The fault harness with a fixed seed, as part of the tests; `bin/chaos` runs it for longer."""

from pathlib import Path

import pytest

from chaos.report import verdict_text
from chaos.run import RARE, run

SEED = 3
SECONDS = 30.0
MORE_S = 330.0  # at most; on a busy machine fewer faults fit into a minute
INCONCLUSIVE = 3  # something never happened
SLOW = 4  # for want of CPU
SOAK_S = 24.0


@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_faults_of_every_kind(tmp_path: Path) -> None:
    """Nothing lost, nothing twice, nothing out of order; and every fault met what it was for."""
    verdict = run(tmp_path / "history", seed=SEED, seconds=SECONDS, more_s=MORE_S)
    text = verdict_text(verdict)
    print(text)  # noqa: T201 - pytest shows it when the test failed
    assert verdict.exit_code in (0, INCONCLUSIVE), text
    assert set(verdict.never) <= RARE, text


@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_everything_at_once_grows_no_more(tmp_path: Path) -> None:
    """The short form of `bin/chaos --soak`."""
    verdict = run(tmp_path / "history", seed=SEED, seconds=SOAK_S, with_queues=True, soak=True)
    text = verdict_text(verdict)
    assert verdict.exit_code in (0, SLOW), text
