"""Place orders in the shop, and let Spark count what was sold: python examples/spark/play.py.

Needs Java and the extra spark: pip install 'gapless[spark]'. A second run of the pipeline adds
nothing: the position moves with the table, in one transaction.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import gapless

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "shop"), str(HERE.parent)]

import shop  # noqa: E402 - needs the path above
from playing import gapless as command  # noqa: E402
from playing import prepare  # noqa: E402

ORDERS = 200
SEED = 7


def main() -> int:
    """Play; return 0 when Spark's table agrees with the orders."""
    random = Random(SEED)  # noqa: S311 - not for secrets
    with gapless.connect() as conn:  # from here on the embedded server stays
        prepare({"shop.orders": None})
        conn.execute((HERE.parent / "shop" / "schema.sql").read_bytes())
        conn.execute((HERE / "schema.sql").read_bytes())
        for n in range(ORDERS):
            shop.place(
                conn, f"customer{n % 20}", random.choice([*shop.CENTS]), random.randint(1, 3)
            )
    pipelines = HERE / "pipelines.yml"
    for _ in range(2):
        command("pipeline", "run", "sold", "--once", "--file", pipelines, "--master", "local[2]")
    with gapless.connect() as conn:
        sold = conn.execute("select article, orders, pieces from sold order by 1").fetchall()
        placed = conn.execute(
            "select article, count(*), sum(pieces) from customer_order group by 1 order by 1"
        ).fetchall()
    for article, orders, pieces in sold:
        print(f"{article}: {orders} orders, {pieces} pieces")
    return 0 if sold == placed else 1


if __name__ == "__main__":
    sys.exit(main())
