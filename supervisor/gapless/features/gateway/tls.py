"""TLS: the certificate of a gateway, and its renewal without a restart."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass

from gapless.errors import UsageError, one_line

log = logging.getLogger("gapless.gateway")


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of PEM: a certificate with its chain, and its key, which has no password."""

    cert: str
    key: str

    def open(self) -> ssl.SSLContext:
        """Return the context for incoming connections, TLS 1.2 or newer. Raises UsageError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without an answer OpenSSL would prompt on the terminal for a password.
            context.load_cert_chain(self.cert, self.key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--tls-cert {self.cert}, --tls-key {self.key}: {one_line(error)}: they must be "
                "a certificate in PEM, with its chain, and its key without a password"
            ) from error
        return context

    def renew(self, context: ssl.SSLContext) -> None:
        """Use the files as they are now for new connections; files that do not fit are not used."""
        try:
            self.open()  # MUST be before: a context that refuses a key has the certificate already
            context.load_cert_chain(self.cert, self.key, password=lambda: "")
        except (UsageError, OSError) as error:
            log.warning("the certificate stays as it is: %s", one_line(error))
        else:
            log.info("the certificate was read again")
