"""Handlers on a real cluster, beside a supervisor in the same groups, under kills; judged as a whole."""

from pathlib import Path
from random import Random

import pytest

from chaos.on_spark.deeds import DEEDS
from chaos.on_spark.run import run_on_spark
from chaos.report import verdict_text
from gapless.errors import UsageError
from gapless.features.spark.home import prepare

SHORT = ("kill_task", "kill_executor", "pause_driver", "kill_jvm")
# Of the harness without Spark: those that meet what both kinds of members share.
OTHERS = ("kill_worker", "kill_machine", "pause_machine", "kill_sequencers", "kill_producer")
SEED = 5


@pytest.fixture(autouse=True)
def spark_there() -> None:
    try:
        prepare({})
    except UsageError as missing:
        pytest.skip(str(missing))


@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_tasks_executors_and_drivers_may_die(tmp_path: Path) -> None:
    _judge(tmp_path, SHORT, drivers=1)


@pytest.mark.chaos
@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_every_deed_between_drivers_and_supervisors(tmp_path: Path) -> None:
    deeds = [*DEEDS, *OTHERS]
    Random(SEED).shuffle(deeds)
    _judge(tmp_path, deeds, drivers=2)


def _judge(folder: Path, deeds: list[str] | tuple[str, ...], *, drivers: int) -> None:
    told: list[str] = []
    verdict = run_on_spark(folder / "history", deeds, seed=SEED, drivers=drivers, say=told.append)
    text = verdict_text(verdict)
    print("\n".join([*told, text]))  # noqa: T201 - pytest shows it when the test failed
    assert verdict.exit_code == 0, text
