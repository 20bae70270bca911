"""What Spark's tasks are told of the schema, and what pipelines of two installations leave elsewhere."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gapless.db.queries import query
from gapless.db.schema import schema, use_schema
from gapless.errors import ConfigError
from gapless.features.spark.options import read_options, write_options
from gapless.features.spark.pipeline.table import stage_of
from gapless.features.spark.reach import Identity
from gapless.settings import environment_schema

_ARRIVES = """
import pickle, sys
from gapless.db.schema import schema
from gapless.db.queries import query
before = query("spark", "segments")
found = pickle.loads(bytes.fromhex(sys.argv[1]))
print(found["identity"], schema(), "audit." in query("spark", "segments"), "audit." in before)
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The process works in the schema of before, whatever a test did."""
    own = schema()
    yield
    use_schema(own)


@pytest.mark.long
def test_a_task_works_in_the_schema_of_the_driver() -> None:
    use_schema("audit")
    sent = pickle.dumps({"identity": Identity("7.5")})
    done = subprocess.run(
        [sys.executable, "-c", _ARRIVES, sent.hex()],
        env={name: value for name, value in os.environ.items() if name != "GAPLESS_SCHEMA"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "7.5 audit True False\n"


@pytest.mark.parametrize("options", [read_options, write_options])
def test_the_option_schema_is_that_of_the_process(options: object) -> None:
    assert callable(options)
    options({"url": "dbname=x", "topic": "orders", "schema": "ledger"})
    assert schema() == "ledger"
    assert "ledger." in query("spark", "segments")
    with pytest.raises(ConfigError, match="schema is 'public'"):
        options({"url": "dbname=x", "topic": "orders", "schema": "public"})


def test_a_source_that_names_no_schema_is_in_that_of_the_environment() -> None:
    """A worker of Spark's plans one source after the other."""
    pytest.importorskip("pyspark")
    from pyspark_gapless import GaplessSource

    default = environment_schema(os.environ)
    given = {"url": "dbname=x", "topic": "orders"}
    for options, works_in in (({**given, "schema": "ledger"}, "ledger"), (given, default)):
        GaplessSource(options).streamReader(None)  # type: ignore[arg-type]
        assert schema() == works_in


def test_pipelines_of_two_installations_have_two_stages() -> None:
    use_schema("gapless")
    first = stage_of("daily", "shop.orders")
    use_schema("audit")
    assert stage_of("daily", "shop.orders") != first
    use_schema("x" * 40)
    assert all(len(part) <= 63 for part in stage_of("daily", "shop.orders")._obj)  # type: ignore[attr-defined]
