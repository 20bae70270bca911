"""Place three orders through Django, and ask for their results: python examples/django/play.py.

Needs django: pip install django
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gapless

HERE = Path(__file__).parent
DRAIN_S = 60
sys.path.insert(0, str(HERE))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_of_shop.settings")


def main() -> int:
    """Play; return 0 when all is as it has to be."""
    with gapless.connect(autocommit=True):  # from here on the embedded server stays
        import django  # noqa: PLC0415 - its settings look for that server

        django.setup()
        from django.core.management import call_command  # noqa: PLC0415 - it is set up now
        from django.test import Client  # noqa: PLC0415

        call_command("migrate", verbosity=0)
        supervisor = subprocess.Popen(  # noqa: S603 - our own interpreter and project
            [sys.executable, str(HERE / "manage.py"), "gapless", "run", "--no-console"],
            stderr=subprocess.DEVNULL,
        )
        try:
            became = {each: order(Client(), each) for each in ("book", "unicorn", "lamp")}
        finally:
            supervisor.terminate()
            supervisor.wait(DRAIN_S)
    return 0 if became == {"book": "packed", "unicorn": "dead", "lamp": "packed"} else 1


def order(client: object, article: str) -> str:
    """Place an order; return, and print, its result."""
    posted = client.post("/orders/", {"article": article}, content_type="application/json")  # type: ignore[attr-defined]
    answer = client.get(f"/orders/{posted.json()['transaction_id']}/")  # type: ignore[attr-defined]
    state = str(answer.json()["state"])
    print(f"{article}: {state}")
    return state


if __name__ == "__main__":
    sys.exit(main())
