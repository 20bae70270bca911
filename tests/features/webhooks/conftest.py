"""An endpoint for the tests of webhooks."""

from collections.abc import Iterator

import pytest
from psycopg import Connection

from gapless.errors import ReceiverError
from gapless.features.webhooks.fleet import Webhooks
from gapless.features.webhooks.ops import list_webhooks
from gapless.log.topics import Topic
from gapless.settings import Settings
from gapless.testing import drain
from support.endpoint import SECRET, Server, serving
from support.gateways import open_gateway
from support.shared_webhooks import LOCAL, Deliver

__all__ = ["open_gateway"]  # a fixture


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of this process, and its secret where it is looked for: in $HOOK."""
    monkeypatch.setenv("HOOK", SECRET)
    with serving() as made:
        yield made


@pytest.fixture
def deliver(dsn: str, conn: Connection, topic: Topic) -> Deliver:
    """Deliver what is due, as a supervisor's workers would, until they have to wait."""
    sources: list[Webhooks] = []

    def run(settings: Settings = LOCAL) -> None:
        sources[:] = sources or [Webhooks(settings, dsn)]
        errors = []
        resting = {each.group for each in list_webhooks(conn) if each.paused and not each.shared}
        for handler in sources[0].handlers(conn):
            if handler.group not in resting:  # a supervisor has no worker for it
                try:
                    drain(dsn, handler, settings=settings)
                except ReceiverError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    return run
