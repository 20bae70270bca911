"""An endpoint for the tests of webhooks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.endpoint import SECRET, Server, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of this process, and its secret where it is looked for: in $HOOK."""
    monkeypatch.setenv("HOOK", SECRET)
    with serving() as made:
        yield made
