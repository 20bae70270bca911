"""What bin/bench is told: wrong input is one line and exit code 2, and one failure is not all."""

from pathlib import Path

import psycopg
import pytest
from benchmarks import server
from benchmarks.options import parse

from gapless.errors import ConnectError, GaplessError, UsageError


@pytest.mark.parametrize(
    "words",
    [
        ["nosuch"],
        ["--minutes", "0"],
        ["--minutes", "nan"],
        ["--minutes", "x"],
        ["--commit-delay-ms", "-1"],
        ["--commit-delay-ms", "101"],
        ["--quick", "--tiny"],
        ["--write-docs", "--rewrite-docs"],
        ["--json", "/dev/null/bench.json"],
        ["--dns", "x"],
    ],
)
def test_wrong_input_is_one_line(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        parse(["--json", str(tmp_path / "bench.json"), *words])
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("dsn", ["nonsense", "host=/no/such/place"])
def test_a_server_that_is_not_there_is_one_line(dsn: str) -> None:
    with pytest.raises(ConnectError) as refused, server.server(dsn):
        pass
    assert refused.value.exit_code == (2 if dsn == "nonsense" else 3)
    assert "\n" not in str(refused.value)


@pytest.mark.long
def test_a_server_that_lets_us_do_too_little(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute("create role bench_nobody login")
    try:
        with pytest.raises(GaplessError, match="superuser"):
            with server.server(psycopg.conninfo.make_conninfo(dsn, user="bench_nobody")):
                pass
    finally:
        conn.execute("drop role bench_nobody")
