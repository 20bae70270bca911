"""The executors of a session: Spark waits for them forever, and says so in a log only."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from gapless.errors import GaplessError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTORS_S = 120.0  # a busy cluster takes its time; a batch would wait forever
_PAUSE_S = 0.2


def require_executors(session: SparkSession, wait_s: float = EXECUTORS_S) -> None:
    """Return when Spark has an executor for this session, or starts them only for a job.

    Raises GaplessError in one sentence when none comes, or Spark ends.
    """
    context: Any = getattr(session, "_sc", None)  # a session of Spark Connect has none
    if context is None or context._jsc.sc().isLocal():  # noqa: SLF001 - there is no other way
        return
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return
    give_up_s = monotonic() + wait_s
    while not _has_one(context):
        if context._jsc.sc().isStopped():  # noqa: SLF001 - as above
            raise GaplessError(
                f"Spark at {context.master} ended this application, for its executors do not "
                "start: the logs of the workers say why"
            )
        if monotonic() > give_up_s:
            raise GaplessError(
                f"Spark at {context.master} gave no executor within {wait_s:.0f} s: its workers "
                "have too few cores or too little memory left, or the executors do not start (the "
                "logs of the workers say why) or do not reach the driver at "
                f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')} "
                "(spark.driver.host)"
            )
        sleep(_PAUSE_S)


def _has_one(context: Any) -> bool:
    infos = context._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001 - as above
    return len(infos) > 1  # the driver is one of them
