"""A program: copies topic outbox into topic copy by a streaming query, all there is, and ends."""

import sys

from gapless.features.spark.session import spark_session


def main(dsn: str, checkpoint: str) -> None:
    spark = spark_session("local[2]", by_hand=False, conf={"spark.driver.memory": "600m"})
    df = (
        spark.readStream.format("gapless")
        .options(url=dsn, subscribe="outbox", startingOffsets="earliest")
        .options(columns="key,value,event_type,transaction_id")
        .load()
    )
    df.writeStream.format("gapless").options(
        url=dsn, topic="copy", checkpointLocation=checkpoint
    ).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
