"""The command itself: help, version, options everywhere, exit codes, pipes, Ctrl-C."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

COMMANDS = "init run publish tail topics groups status dlq doctor demo uninstall".split()


def test_help_lists_every_command(bare) -> None:
    done = bare("--help")
    assert done.code == 0
    assert done.err == ""
    for command in COMMANDS:
        assert f"\n  {command} " in done.out
    assert "cannot be loaded" not in done.out


def test_version(bare) -> None:
    done = bare("--version")
    assert done.code == 0
    assert done.out.startswith("gapless ")
    assert bare("topics", "list", "--version").out == done.out


def test_help_loads_nothing_heavy() -> None:
    """What `gapless --help` must not pay for; the bound in milliseconds is for a quiet machine."""
    program = (
        "import sys; from gapless.cli.main import main; main(['--help']);"
        "print([m for m in ('psycopg', 'rich', 'yaml', 'tenacity', 'multiprocess') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[-1] == "[]"


@pytest.mark.long
def test_options_stand_before_or_after_the_command(bare, dsn: str) -> None:
    before = bare("--dsn", dsn, "topics", "list", "--json")
    between = bare("topics", "--dsn", dsn, "list", "--json")
    after = bare("topics", "list", "--json", "--dsn", dsn)
    assert before.code == between.code == after.code == 0
    assert before.out == between.out == after.out


@pytest.mark.long
def test_options_stand_before_and_between_the_other_words(gapless, tmp_path) -> None:
    letters = tmp_path / "letters.jsonl"
    assert gapless("dlq", "export", "--state", "dead", str(letters), "--debug").code == 0
    assert letters.exists()
    assert gapless("dlq", "import", "--json", "--dry-run", str(letters)).code == 0
    complaint = gapless("dlq", "redrive", "a/b/0/1", "--dry-run", "a/b/0@2").complaint()
    assert "a/b/0@1" in complaint
    assert "no module 'no'" in gapless("replay", "--from", "earliest", "no:h").complaint()
    assert "replay has no option '--frm'" in gapless("replay", "--frm", "no:h").complaint()


@pytest.mark.long
def test_dsn_flag_wins_over_environment_over_config(bare, dsn: str, tmp_path) -> None:
    config = tmp_path / "gapless.yml"
    config.write_text("dsn: host=/nowhere/config\n")
    nowhere = "host=/nowhere/environment"
    words = ("topics", "--config", str(config))
    assert "/nowhere/config" in bare(*words).complaint(3)
    assert "/nowhere/environment" in bare(*words, GAPLESS_DSN=nowhere).complaint(3)
    assert bare(*words, "--dsn", dsn, GAPLESS_DSN=nowhere).code == 0
    assert "/nowhere/libpq" in bare("topics", PGHOST="/nowhere/libpq").complaint(3)


def test_debug_shows_the_traceback(bare) -> None:
    done = bare("topics", "--debug", GAPLESS_DSN="host=/nowhere")
    assert done.code == 3
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("gapless: cannot connect")
    assert "Traceback" in bare("topics", GAPLESS_DSN="host=/nowhere", GAPLESS_DEBUG="1").err


@pytest.mark.long
def test_a_reader_that_goes_away_is_no_error(gapless, start, dsn: str) -> None:
    lines = "".join(f'{{"payload": "{"x" * 100}", "key": "{n}"}}\n' for n in range(5000))
    assert gapless("publish", "t", "-", "--create", stdin=lines).code == 0
    process = start("tail", "t", "--from", "earliest")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == ""


@pytest.mark.long
def test_ctrl_c_ends_tail_without_a_traceback(gapless, start) -> None:
    assert gapless("publish", "t", "1", "--create").code == 0
    process = start("tail", "t", "-f")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


@pytest.mark.long
def test_output_that_the_terminal_cannot_show_is_escaped(gapless) -> None:
    gapless("publish", "t", '"é"', "--create")
    done = gapless("tail", "t", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.code == 0
    assert r"\xe9" in done.out


@pytest.mark.long
def test_tables_on_a_terminal(conn, dsn: str) -> None:
    """On a terminal there is colour, unless NO_COLOR; and never when it is not one.

    A name that is wider than the terminal stays whole, on the line of its row.
    """
    from gapless.log.topics import ensure_topic

    ensure_topic(conn, "orders", partitions=4)
    ensure_topic(conn, name := "orders-" * 14, partitions=4)
    assert "\x1b[" in _on_terminal(dsn, TERM="xterm")
    plain = _on_terminal(dsn, TERM="xterm", NO_COLOR="1")
    assert "\x1b[3" not in plain
    assert "orders" in plain
    (row,) = (line for line in plain.splitlines() if name in line)
    assert row.split()[1] == "4"


def _on_terminal(dsn: str, **env: str) -> str:
    leader, follower = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "gapless", "topics"],
            stdout=follower,
            env={**os.environ, "GAPLESS_DSN": dsn, **env},
        )
        os.close(follower)
        seen = b""
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # Linux: the other end was closed
                break
            if not piece:
                break
            seen += piece
        assert process.wait(timeout=10) == 0
        return seen.decode()
    finally:
        os.close(leader)


@pytest.mark.long
def test_a_server_whose_styles_of_times_are_others(gapless) -> None:
    """psycopg reads ISO times only; a server may have been set up to write others."""
    styles = {"PGDATESTYLE": "German, DMY", "PGOPTIONS": "-c intervalstyle=sql_standard"}
    assert gapless("topics", "create", "orders").code == 0
    assert gapless("publish", "orders", "1", "--wait").code == 0
    for words in (["status"], ["topics"], ["tail", "orders", "--json"]):
        done = gapless(*words, **styles)
        assert (done.code, done.err) == (0, ""), words
