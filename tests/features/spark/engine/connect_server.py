"""A server of Spark Connect at a port, until its input ends: port, folder of the warehouse."""

from __future__ import annotations

import sys

from gapless.features.spark.ending import end_session
from gapless.features.spark.session import spark_session


def main() -> None:
    port, warehouse = sys.argv[1:]
    conf = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.warehouse.dir": warehouse,
        "spark.driver.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.pollingDelay": "50ms",
    }
    session = spark_session("local[2]", name="gapless connect", conf=conf, by_hand=False)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    end_session(session)


if __name__ == "__main__":
    main()
