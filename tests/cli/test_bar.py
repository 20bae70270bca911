"""The bar of long work on a terminal: its words; none where nobody looks; a sane terminal after it."""

import re
import signal

import pytest

from support.terminal import SHOW_CURSOR, Terminal, in_terminal

pytestmark = pytest.mark.long

# work: seconds for each of 40 things; of: their total. It ends with the line "end".
PROGRAM = """
import argparse, os, sys, time
from gapless.cli.progress import Steps, is_quiet
def run(pause, of, *words):
    os.environ.update(word.split("=", 1) for word in words if "=" in word)
    args = argparse.Namespace(json="--json" in words)
    total = int(of) or None
    in_bytes, late = "bytes" in words, 20 * ("late" in words)
    try:
        with Steps("copy", total, "row", "; go on", in_bytes=in_bytes, is_quiet=is_quiet(args), from_first=late > 0) as steps:
            for number in range(1 - late, 41 - late):
                time.sleep(float(pause))
                number = max(number, 0)
                steps.show(number * 4096, number) if in_bytes else steps.show(number)
    except KeyboardInterrupt:
        return 130
    sys.stderr.write("end\\n")
    return 0
"""
QUICK, SLOW = "0.001", "0.05"
HIDE_CURSOR = "\x1b[?25l"


def _shown(*words: str, shows: str = "code 0") -> str:
    with in_terminal(PROGRAM, *words, shows=shows) as terminal:
        return terminal.text


def test_it_says_how_far_how_fast_and_how_long_still() -> None:
    with in_terminal(PROGRAM, SLOW, "40", shows="of 40 rows") as terminal:
        _wait_for_all(terminal, "copy", "/s", "0:01 left")
        terminal.wait_for("end")
        last = terminal.text.rpartition("end")[0]
        assert last.endswith("\x1b[2K"), "the bar has vanished"
        assert HIDE_CURSOR not in terminal.text


def test_it_counts_bytes_and_the_things_in_them_and_needs_no_total() -> None:
    with in_terminal(PROGRAM, SLOW, "163840", "bytes", shows="kB of 160 kB, ") as terminal:
        _wait_for_all(terminal, " rows", "/s", " left")
    with in_terminal(PROGRAM, SLOW, "0", shows=" rows") as terminal:
        terminal.wait_for("end")
        assert " of " not in terminal.plain
        assert " left" not in terminal.plain


@pytest.mark.parametrize(
    "words",
    [(QUICK, "40"), (SLOW, "40", "--json"), (SLOW, "40", "TERM=dumb")],
    ids=["quick", "--json", "only prints"],
)
def test_none_is_shown_for(words: tuple[str, ...]) -> None:
    shown = _shown(*words).partition("\n")[2].replace("\r", "")
    assert shown == "end\ncode 0\n"


def test_it_may_wait_for_the_first_thing() -> None:
    with in_terminal(PROGRAM, "0.1", "40", "late", shows="of 40 rows") as terminal:
        terminal.wait_for("end")
        assert " 0 of 40" not in terminal.plain


def test_a_narrow_terminal_has_whole_words() -> None:
    """The rate gives way to the count and the time left; none is a stump."""
    with in_terminal(PROGRAM, "0.2", "163840", "bytes", shows="pid") as terminal:
        terminal.resize(24, 40)
        terminal.wait_for("left")
        assert re.search(r"\d kB of 160 kB, \d+ rows? .*\d:\d\d left", terminal.plain)
        assert "…" not in terminal.plain


def test_it_needs_no_colour() -> None:
    with in_terminal(PROGRAM, SLOW, "40", "NO_COLOR=1", shows="of 40 rows") as terminal:
        terminal.wait_for("end")
        assert "\x1b[3" not in terminal.text


def test_ctrl_c_says_what_was_done_and_leaves_the_terminal_as_it_was() -> None:
    with in_terminal(PROGRAM, SLOW, "400", shows="of 400 rows") as terminal:
        terminal.keys("\x03")
        terminal.wait_for("gapless: copy interrupted: ")
        terminal.wait_for(" of 400 done; go on")
        terminal.wait_for("code 130")
        assert terminal.is_as_before


def test_a_kill_leaves_the_cursor() -> None:
    with in_terminal(PROGRAM, SLOW, "400", shows="of 400 rows") as terminal:
        terminal.kill(signal.SIGKILL)
        terminal.wait_for("code -9")
        assert terminal.text.count(HIDE_CURSOR) <= terminal.text.count(SHOW_CURSOR)
        assert terminal.is_as_before


def _wait_for_all(terminal: Terminal, *texts: str) -> None:
    terminal.wait_for(lambda: all(text in terminal.plain for text in texts))
