"""What bin/bench is told: wrong input is one line and exit code 2, and one failure is not all."""

from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
from benchmarks import __main__ as bench
from benchmarks import options, record, server
from benchmarks.options import parse
from benchmarks.server import Setup

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


def test_published_figures_have_no_priority(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["--write-docs", "--json", str(tmp_path / "bench.json")]
    assert parse(words).write_docs
    monkeypatch.setattr(options, "is_real_time", lambda: True)
    with pytest.raises(UsageError, match="normal priority"):
        parse(words)


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


@pytest.mark.long
def test_a_benchmark_that_fails_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server_dsn: str
) -> None:
    def fail(_: Setup) -> NoReturn:
        raise TimeoutError("too slow")

    real = bench.benchmark
    monkeypatch.setattr(bench, "benchmark", lambda name: fail if name == "large" else real(name))
    written = tmp_path / "bench.json"
    words = ["--tiny", "--dsn", server_dsn, "--json", str(written), "large", "planning"]
    assert bench.main(words) == 1
    found = record.read(written)
    assert [*found] == ["planning"]
    assert "large" not in found
