"""A mail server that keeps what it is given in memory, and fails now and then, by a seed.

It speaks as much SMTP as smtplib needs. It refuses some mails ("try again later"), and of others it
loses the answer: the mail is there, and the sender does not know.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from random import Random

REFUSED = 0.2  # of all mails
UNANSWERED = 0.15


class MailServer(socketserver.ThreadingTCPServer):
    """Listens on a port of its own choice; `mailbox` has a Message-ID for each delivery."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.port: int = self.server_address[1]
        self.mailbox: list[str] = []
        self.refused = 0
        self.unanswered = 0
        self._random = Random(seed)  # noqa: S311 - not for secrets
        self._lock = threading.Lock()

    def take(self, mail: bytes) -> str | None:
        """Keep a mail, or not; return the answer, None when it gets lost."""
        with self._lock:
            drawn = self._random.random()
            if drawn < REFUSED:
                self.refused += 1
                return "451 try again later"
            self.mailbox.append(str(message_from_bytes(mail)["Message-ID"]))
            if drawn < REFUSED + UNANSWERED:
                self.unanswered += 1
                return None
            return "250 kept"


class _Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 example.com")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self._say("354 go ahead")
                answer = self.server.take(self._mail())
                if answer is None:
                    return  # the connection ends without a word
                self._say(answer)
            elif word == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine")

    def _mail(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line)
        return b"".join(lines)

    def _say(self, words: str) -> None:
        self.wfile.write(f"{words}\r\n".encode())


@contextmanager
def mail_server(seed: int) -> Iterator[MailServer]:
    """Serve on a thread until the end of the block."""
    with MailServer(seed) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
