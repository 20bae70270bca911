"""A streaming query that reads a standby: its events once each, its position on the primary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.pairs import following

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.long
def test_a_stream_from_a_standby(spark: SparkSession, tmp_path: Path) -> None:
    found: list[tuple[int, int]] = []

    def collect(df: DataFrame, _: int) -> None:
        found.extend((row.partition, row.offset) for row in df.collect())

    with following() as pair:
        options = {"url": pair.standby.dsn(), "primaryUrl": pair.primary.dsn(), "subscribe": "t"}
        for _ in range(2):
            pair.publish(100, given=False)  # no supervisor gives them offsets
            query = (
                spark.readStream.format("gapless")
                .options(**options, startingOffsets="earliest", groupId="lab")
                .load()
                .writeStream.foreachBatch(collect)
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        assert sorted(found) == pair.whole()
        assert len(found) == 200
        position = (
            "select sum(next_offset - 1) from gapless.consumer_offsets where group_id = 'lab'"
        )
        with pair.on_primary() as conn:
            assert conn.execute(position).fetchone() == (200,)
