"""A password is nowhere in Spark's UI, its REST interface or its event log, however it was said."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless.errors import UsageError
from gapless.features.spark.options import read_options, write_options
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic

PROGRAM = Path(__file__).with_name("show_secrets.py")
PAGES_MIN = 25


def _shown(whose: str, dsn: str, conn: Connection, folder: Path) -> Any:
    ensure_topic(conn, "copy", partitions=2)
    publish(conn, "outbox", [NewEvent(payload={"n": n}, key=str(n)) for n in range(10)])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), whose, dsn, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["pages"] > PAGES_MIN, "the UI was not there to be looked at"
    return shown


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_in_a_session_of_gapless(conn: Connection, dsn: str, topic: Topic, tmp_path: Path) -> None:
    """It hides `dsn`, too, in a statement that is refused."""
    shown = _shown("gapless", dsn, conn, tmp_path)
    assert shown["found"] == {}
    assert sorted(shown["errors"]) == ["read_what_is_not_there", "sql_view_by_dsn"]
    assert "which Spark redacts" in shown["errors"]["sql_view_by_dsn"]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_in_a_session_of_the_user(conn: Connection, dsn: str, topic: Topic, tmp_path: Path) -> None:
    """By Spark's defaults alone, which hide `url`."""
    shown = _shown("own", dsn, conn, tmp_path)
    assert shown["found"] == {}
    assert sorted(shown["errors"]) == ["read_what_is_not_there"]


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:secret@host/shop",
        "jdbc:postgresql://me@host/shop?password=secret",
        "host=h password=secret",
        "host=h secret",
    ],
)
def test_a_password_in_dsn_is_refused_without_showing_it(dsn: str) -> None:
    """Spark hides `url`, and shows `dsn`: CREATE VIEW ... OPTIONS (dsn '...') is in the event log."""
    for parse in (read_options, write_options):
        with pytest.raises(UsageError, match="write it as url, which Spark redacts") as refused:
            parse({"dsn": dsn, "topic": "a"})
        assert "secret" not in str(refused.value)
        assert "secret" not in repr(parse({"url": dsn, "topic": "a"}))


def test_a_dsn_without_a_password_is_as_good_as_url() -> None:
    assert read_options({"dsn": "host=h", "topic": "a"}).dsn == "host=h"
    assert write_options({"dsn": "postgresql://me@h/shop"}).dsn == "postgresql://me@h/shop"


@pytest.mark.parametrize("name", ["url", "dsn"])
def test_a_reference_is_looked_up_where_options_are_read(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On the driver: Spark's plans, and the options that it shows, have the reference alone."""
    monkeypatch.setenv("SHOP_DSN", "postgresql://me:secret@host/shop\n")
    (tmp_path / "dsn").write_text("host=h password=secret\n")
    for parse in (read_options, write_options):
        found = parse({name: "env:SHOP_DSN", "topic": "a"})
        assert found.dsn == "postgresql://me:secret@host/shop"
        assert "secret" not in repr(found)
        for reference in (f"file:{tmp_path}/dsn", f"file://{tmp_path}/dsn"):
            assert parse({name: reference, "topic": "a"}).dsn == "host=h password=secret"


def test_a_reference_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DSN", "host=h")
    monkeypatch.setenv("GAPLESS_DSN", "env:SHOP_DSN")
    assert read_options({"topic": "a"}).dsn == "host=h"
