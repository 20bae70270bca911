"""Fixtures of pytest for tests of handlers; pytest finds them itself.

`gapless_server`: a PostgreSQL for the run; `gapless_db`: a database with the schema for each test;
`gapless_conn`: a connection to it. Nothing of gapless is imported until a test asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from psycopg import Connection

_MARK = (
    "gapless(topics): topics, with their numbers of partitions, that gapless_db has, "
    'as in @pytest.mark.gapless(topics={"orders": 4})'
)


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the mark `gapless`."""
    config.addinivalue_line("markers", _MARK)


@pytest.fixture(scope="session")
def gapless_server() -> Iterator[str]:
    """Yield a superuser's DSN, of a server that the run starts, or of GAPLESS_TEST_DSN."""
    from gapless.testing.servers import server  # noqa: PLC0415 - only if a test asks for it

    with server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def gapless_template(gapless_server: str) -> Iterator[str]:
    """Yield the name of a database with the schema, of which those of the tests are copies."""
    from gapless.testing.servers import template  # noqa: PLC0415

    with template(gapless_server) as name:
        yield name


@pytest.fixture
def gapless_db(
    request: pytest.FixtureRequest, gapless_server: str, gapless_template: str
) -> Iterator[str]:
    """Yield the DSN of a database of this test's own, with the schema and the mark's topics."""
    from gapless.testing.servers import database  # noqa: PLC0415

    mark = request.node.get_closest_marker("gapless")
    topics: Mapping[str, int] = {} if mark is None else mark.kwargs.get("topics", {})
    with database(gapless_server, gapless_template, topics) as dsn:
        yield dsn


@pytest.fixture
def gapless_conn(gapless_db: str) -> Iterator[Connection[Any]]:
    """Yield a connection to the database of this test, in autocommit."""
    import psycopg  # noqa: PLC0415

    with psycopg.connect(gapless_db, autocommit=True) as conn:
        yield conn
