"""Mail for events: at least once, through a server that is not to be relied on.

A mail cannot commit with the offset. So the handler is called outside of any transaction, is called
again until it succeeds, and gives each mail the unit's idempotency_key as its Message-ID, by which
the receiver can tell a repetition. `gapless run examples/mail/mail.py` runs it.
"""

from __future__ import annotations

import os
import smtplib
from email.message import EmailMessage

import gapless

PORT = int(os.environ.get("MAIL_PORT", "2525"))
TIMEOUT_S = 5


@gapless.handler(
    topic="notices",
    group="mail",
    delivery="at-least-once",
    concurrency=4,  # for each partition; mails of one key are sent in order
    on_failure="retry",
    retry_delays_s=[0.1] * 20,
)
def send(unit: gapless.Unit) -> None:
    """Send one mail for each event of the unit. Raises what smtplib raises: it is tried again."""
    for event in unit:
        mail = EmailMessage()
        mail["From"] = "shop@example.com"
        mail["To"] = event.key or "nobody@example.com"
        mail["Subject"] = event.payload["subject"]
        mail["Message-ID"] = f"<{unit.idempotency_key}.{event.offset}@example.com>"
        mail.set_content(f"This is attempt {unit.attempt}.")
        with smtplib.SMTP("127.0.0.1", PORT, timeout=TIMEOUT_S) as server:
            server.send_message(mail)
