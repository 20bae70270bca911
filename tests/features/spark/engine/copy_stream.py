"""A program: copies topic outbox into topic copy by a streaming query, all there is, and ends.

Arguments: the DSN, the folder of the checkpoint, the master, settings of Spark as name=value.
"""

import sys

from gapless.features.spark.conf import parse_conf
from gapless.features.spark.session import spark_session

MICRO_BATCH = 500


def main(dsn: str, checkpoint: str, master: str = "local[2]", *settings: str) -> None:
    conf = {"spark.driver.memory": "600m", **dict(map(parse_conf, settings))}
    spark = spark_session(master, by_hand=master != "local[2]", conf=conf)
    df = (
        spark.readStream.format("gapless")
        .options(url=dsn, subscribe="outbox", startingOffsets="earliest")
        .options(columns="key,value,event_type,transaction_id", maxOffsetsPerTrigger=MICRO_BATCH)
        .load()
    )
    df.writeStream.format("gapless").options(
        url=dsn, topic="copy", checkpointLocation=checkpoint
    ).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
