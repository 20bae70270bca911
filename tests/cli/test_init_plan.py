"""gapless init --plan: what is printed, to whom, and that nothing is done."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo


@pytest.fixture
def behind(gapless, conn: psycopg.Connection) -> psycopg.Connection:
    """A database in which the function of a trigger is another one: a publisher waits for its mend."""
    conn.execute("update gapless.migration set digest = 'x' where name = 'wake_sequencer'")
    return conn


@pytest.fixture
def reader_dsn(conn: psycopg.Connection, dsn: str) -> Iterator[str]:
    """The DSN of a role that may look, and nothing else."""
    name, password = f"gapless_test_{uuid4().hex[:12]}", uuid4().hex
    conn.execute(f"create role {name} login password '{password}'")
    yield make_conninfo(dsn, user=name, password=password)
    conn.execute(f"drop role {name}")


def test_whoever_may_look_may_ask(
    bare, behind: psycopg.Connection, reader_dsn: str, dsn: str
) -> None:
    said = bare("init", "--plan", GAPLESS_DSN=reader_dsn).complaint()
    assert "may not read gapless.migration: grant it gapless_consumer" in said
    role = psycopg.conninfo.conninfo_to_dict(reader_dsn)["user"]
    behind.execute(f"grant gapless_consumer to {role}")
    done = bare("init", "--plan", GAPLESS_DSN=reader_dsn)
    assert (done.code, done.err) == (0, "")
    assert " locks " in done.out
    assert "would apply 1 function, roles, in one transaction" in done.out
    assert done.lines[-1].startswith("programs that run continue")
    plan = bare("init", "--plan", "--json", GAPLESS_DSN=reader_dsn).json
    assert (plan["installed"], plan["migrations"], plan["functions"]) == ("baseline", [], 1)
    assert plan["locks"][0].keys() >= {"file", "table", "mode", "blocks", "work", "rows", "bytes"}
    digest = behind.execute("select digest from gapless.migration where name = 'wake_sequencer'")
    assert digest.fetchone() == ("x",), "nothing was done"


def test_without_a_schema_and_up_to_date(bare, gapless, empty_dsn: str) -> None:
    done = bare("init", "--plan", GAPLESS_DSN=empty_dsn)
    assert done.lines[0].endswith("schema gapless: is not there yet")
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute("select to_regnamespace('gapless')").fetchone() == (None,)
    assert gapless("init", "--plan").out.startswith("nothing to do: ")
