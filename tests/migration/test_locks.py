"""sql/locks.json says what was measured. To mend: python tests/migration/locks.py."""

import json

import pytest

from gapless.db.connect import connect
from gapless.db.queries import sql_root
from migration.locks import facts


@pytest.mark.long
def test_it_says_what_was_measured(empty_dsn: str) -> None:
    with connect(empty_dsn, role="test") as conn:
        assert json.loads((sql_root() / "locks.json").read_text()) == facts(conn, sql_root())
