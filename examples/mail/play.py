"""Send mails through an unreliable server, and count: python examples/mail/play.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gapless

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from playing import prepare, supervisor  # noqa: E402 - needs the path above
from unreliable import mail_server  # noqa: E402

MAILS = 30
SEED = 7
WAIT_S = 60


def main() -> int:
    """Play; return 0 when every mail has arrived."""
    with mail_server(SEED) as server, gapless.connect(autocommit=True) as conn:
        os.environ["MAIL_PORT"] = str(server.port)
        prepare({"notices": "mail"})
        with supervisor(HERE / "mail.py"):
            asked = [
                gapless.publish(
                    conn, "notices", {"subject": f"Notice {n}"}, key=f"user{n % 5}@example.com"
                )
                for n in range(MAILS)
            ]
            ends = [gapless.wait_for(conn, "mail", each, WAIT_S) for each in asked]
        different = len(set(server.mailbox))
        print(f"{MAILS} mails asked for, {ends.count('dead')} given up")
        print(f"{server.refused} times refused, {server.unanswered} answers lost")
        print(f"{len(server.mailbox)} mails arrived, {different} different ones")
    return 0 if ends == ["handled"] * MAILS and different >= MAILS else 1


if __name__ == "__main__":
    sys.exit(main())
