"""Place three orders through Flask, and ask what became of them: python examples/flask/play.py.

Needs flask and SQLAlchemy: pip install flask 'gapless[sqlalchemy]'
"""

from __future__ import annotations

import sys
from pathlib import Path

import gapless

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import app as shop  # noqa: E402 - needs the path above
from playing import prepare, supervisor  # noqa: E402


def main() -> int:
    """Play; return 0 when all is as it has to be."""
    with gapless.connect(autocommit=True):  # from here on the embedded server stays
        prepare({shop.TOPIC: shop.GROUP})
        shop.Base.metadata.create_all(shop.engine)
        client = shop.app.test_client()
        became = {}
        with supervisor(HERE / "app.py"):
            for article in ("book", "unicorn", "lamp"):
                placed = client.post("/orders", json={"article": article}).get_json()
                answer = client.get(f"/orders/{placed['transaction_id']}").get_json()
                became[article] = answer["state"]
                print(f"{article}: {became[article]}")
        shop.engine.dispose()
    return 0 if became == {"book": "packed", "unicorn": "dead", "lamp": "packed"} else 1


if __name__ == "__main__":
    sys.exit(main())
