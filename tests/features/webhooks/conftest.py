"""An endpoint for the tests of webhooks."""

from collections.abc import Iterator

import pytest
from psycopg import Connection

from gapless.features.webhooks.fleet import Webhooks
from gapless.log.topics import Topic
from gapless.testing import drain
from support.endpoint import SECRET, Server, serving
from support.shared_webhooks import LOCAL, Deliver


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of this process, and its secret where it is looked for: in $HOOK."""
    monkeypatch.setenv("HOOK", SECRET)
    with serving() as made:
        yield made


@pytest.fixture
def deliver(dsn: str, conn: Connection, topic: Topic) -> Deliver:
    """Deliver what is due, as a supervisor's worker would."""
    source = Webhooks(LOCAL, dsn)

    def run() -> None:
        for handler in source.handlers(conn):
            drain(dsn, handler, settings=LOCAL)

    return run
