"""Days as columns, so that files of a day lie together: `partitionBy: day(timestamp)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.errors import UsageError
from gapless.features.spark.pipeline.spec import TargetSpec, day_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MICROS = 86_400_000_000


def with_days(df: DataFrame, target: TargetSpec) -> DataFrame:
    """Return the rows with a column of days for each day(...) of the target; days are UTC's.

    Raises UsageError for a column that is missing or no time, or a name that is taken.
    """
    kinds = dict(df.dtypes)
    for name in target.days:
        made, kind = day_column(name), kinds.get(name)
        if kind is None:
            raise UsageError(f"partitionBy: there is no column {name!r}, but {', '.join(kinds)}")
        if kind not in ("date", "timestamp", "timestamp_ntz"):
            raise UsageError(f"partitionBy: day({name}) needs a time, and {name} is {kind}")
        if made in kinds:
            raise UsageError(f"partitionBy: day({name}) makes the column {made}, which is there")
        df = df.selectExpr("*", f"{_day(f'`{name}`', kind)} as `{made}`")
    return df


def _day(column: str, kind: str) -> str:
    """Return the day as an expression of Spark; that of a moment in UTC, in any time zone."""
    if kind == "timestamp":
        return f"date_from_unix_date(cast(floor(unix_micros({column}) / {_MICROS}) as int))"
    return f"cast({column} as date)"
