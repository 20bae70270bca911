"""The help, `gapless status`, the console and the gateway's page: one list of words, in one order.

The list is the table in docs/run/console.md. Each of the four is read as it is shown, or as its
script says. The problems of a log are told by its snapshot, and each shows these.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import timedelta
from itertools import takewhile
from pathlib import Path

import pytest
from psycopg import Connection

import gapless
from gapless import Unit, handler, ops
from gapless.cli.commands import help_parser
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from gapless.ops.text import json_text
from gapless.status import snapshot, to_document
from gapless.status.groups import GroupLine
from gapless.status.history import History
from gapless.status.lines import SEPARATOR
from gapless.status.snapshot import Pending
from gapless.status.tables import _catch_up
from gapless.status.view import ConsolePage, ConsoleState, LetterLine, Look
from gapless.status.words import SEQUENCER, UNICODE, age
from gapless.testing import drain
from support.look import NOON, letter, look, once, pages, presence, standing

ROOT = Path(__file__).parents[2]
PAGE = Path(gapless.__file__).parent / "features" / "gateway" / "page"
_ROW = re.compile(r"^\| ([a-z ]+) \| ([a-z/, ]+) \|$", re.MULTILINE)


def _list() -> dict[str, list[str]]:
    text = (ROOT / "docs" / "run" / "console.md").read_text(encoding="utf-8")
    section = text.partition("## The same words everywhere")[2].partition("\n## ")[0]
    return {of: words.split(", ") for of, words in _ROW.findall(section) if of != "of"}


LIST = _list()


def _shot(at_s: float = 0.0) -> Look:
    """Return something to see in each section: an error, a dead unit, a client, pending events."""
    rows = [standing(0, lag=20, dead_letters=1, waiting=1), standing(1, error="ValueError: 1")]
    members = [presence("host-a"), presence("host-b", kind="client")]
    letters = [letter(0, "KeyError: 'total'")]
    shot = look(rows, at_s=at_s, members=members, letters=letters)
    shot = replace(shot, pending=(Pending(topic="orders", events=3, oldest_s=0.1),), chunks=3)
    history = History()
    history.add(look(rows))
    history.add(shot)
    history.note(shot, "something happened")
    unit = LetterLine(
        offset=17, events=1, state="dead", attempts=3, failed_ts=NOON, key="k", error="KeyError"
    )
    at = ("billing", "orders", 0)
    return Look(snapshot=shot, history=history, letters_at=at, letters=[unit])


def _console(of: str) -> list[str]:
    """Return what the console shows of something: heads of tables, or the lines about the log."""
    at = ("billing", "orders", 0)
    opened = ConsolePage(at=at)
    state = ConsoleState(pages=(ConsolePage(), ConsolePage(at=at[:2]), opened))
    return _printed(of, pages(_shot(5.0), state if of == "units" else None, width=220))


def _status(of: str) -> list[str]:
    """Return what `gapless status` prints of something."""
    return _printed(of, once(_shot(5.0).snapshot))


def _printed(of: str, shown: list[str]) -> list[str]:
    if of == "the log":
        figures = shown[1].replace(", ", SEPARATOR).split(SEPARATOR)
        return [
            " ".join(re.sub(r"\(.*\)|[\d,.?]+[kM]?(?:/s)?", "", each).split()) for each in figures
        ]
    if of == "sections":
        return [name for line in shown if (name := _section(line))]
    begins = {
        "units": "offset",
        "groups": "group ",
        "partitions": "partition ",
        "members": "member ",
    }
    return [next(line for line in shown if line.lstrip().startswith(begins[of]))]


def _page(of: str) -> list[str]:
    """Return the titles in the page's script."""
    if of == "sections":
        text = (PAGE / "pages" / "overview.js").read_text(encoding="utf-8")
        return [
            title.lower() for title in re.findall(r'(?:section\(|"h2", \{\}, )"([\w ]+)"', text)
        ]
    file, begins = {
        "the log": ("server.js", "function machinery("),
        "topics": ("topics.js", "const COLUMNS = ["),
        "groups": ("overview.js", "function groupColumns("),
        "partitions": ("group.js", "function partitions("),
        "members": ("members.js", "const COLUMNS = ["),
        "units": ("dead.js", "const COLUMNS = ["),
    }[of]
    text = (PAGE / "pages" / file).read_text(encoding="utf-8").partition(begins)[2]
    title = r"\btile\(\"(\w+)\"" if of == "the log" else r"\{ title: \"([^\"]+)\""
    return re.findall(title, text.partition("\n];\n" if begins.startswith("const") else "\n}\n")[0])


def _help(of: str) -> list[str]:
    """Return the words of the summary of `gapless status` in the help."""
    summary = re.search(
        r"^ +status +(.*?): now", help_parser().format_help(), re.MULTILINE | re.DOTALL
    )
    assert summary is not None
    words = [
        " ".join(word.split()) for word in summary[1].replace("dead letters", "dead").split(",")
    ]
    return [word for word in words if word in LIST[of]]


def _section(line: str) -> str | None:
    """Return the section that a line begins, by the head of its table or its own words."""
    line = f"{' '.join(line.split())} "
    begins = {"group lag ": "groups", "partition ": "partitions", "member state ": "members"}
    begins |= {"last errors ": "last errors", "lately ": "lately"}
    return next((name for head, name in begins.items() if line.startswith(head)), None)


@pytest.mark.parametrize(
    ("of", "show"),
    [
        *(
            (of, _console)
            for of in ("the log", "sections", "groups", "partitions", "members", "units")
        ),
        *((of, _status) for of in ("the log", "sections", "groups", "partitions", "members")),
        *((of, _page) for of in LIST),
        *((of, _help) for of in ("the log", "sections")),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__[1:],
)
def test_each_shows_words_of_the_list_in_its_order(of: str, show: object) -> None:
    shown = " ".join(show(of))  # type: ignore[operator]
    for state in SEQUENCER.values():
        shown = shown.replace(f"sequencer {state}", "sequencer")
    shown = shown.replace("retention idle", "retention")
    words = "".join(rf"(?:{re.escape(word)} +)?" for word in LIST[of])
    assert re.fullmatch(words, f"{' '.join(shown.split())} "), (LIST[of], shown)
    assert sum(word in shown for word in LIST[of]) >= 2


def test_the_pages_words_are_the_consoles() -> None:
    """The sequencer's states, ages, and when a group has caught up: by node, as by a browser."""
    server = (PAGE / "pages" / "server.js").read_text(encoding="utf-8")
    states = re.search(r"const words = \{ (.*) \};", server)
    assert states is not None
    assert dict(re.findall(r'(\w+): "(\w+)"', states[1])) == SEQUENCER
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    seconds = [0, 0.0004, 0.35, 0.9994, 0.9996, 2.14, 9.96, 45, 99.4, 99.6, 720, 5970, 172801]
    lines = [
        GroupLine(
            group_id="billing", topic="orders", partitions=2, members=1, dead_letters=0, dead_events=0,
            waiting=0, parked=0, unserved=unserved, stopped=stopped, paused=paused, lag=lag, lag_s=lag_s,
            lag_per_s=per_s,
        )
        for unserved in (0, 2) for stopped in (0, 1) for paused in (0, 2) for lag in (0, 7)
        for lag_s in ((0.5, 5.0) if lag else (0.0,)) for per_s in (None, -2.0, 0.0, 3.0)
    ]  # fmt: skip
    documents = [
        {
            "partitions": line.partitions, "unserved": line.unserved, "stopped": line.stopped,
            "paused": line.paused, "lag": line.lag, "lag_s": line.lag_s, "lag_per_s": line.lag_per_s,
            "catch_up_s": line.catch_up_s,
        }
        for line in lines
    ]  # fmt: skip
    script = (
        f"import {{ age, catchUp }} from {json.dumps((PAGE / 'words.js').as_uri())};"
        f"console.log(JSON.stringify([{json.dumps(seconds)}.map(age), {json.dumps(documents)}.map(catchUp)]))"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    ages, outlooks = json.loads(done.stdout)
    assert ages == [age(each) for each in seconds]
    assert outlooks == [_catch_up(line, UNICODE).replace(UNICODE.dash, "–") for line in lines]


# The problems of the log below, in their order: the words, and the address on the page.
PROBLEMS = (
    (r"1 event waits without an offset, for \d+ s, and no supervisor gives any: start gapless run, or gapless gateway", ""),
    (r"dying/orders: 1 partition stopped: retrying: x: it is tried again by itself until the cause is gone", "#/groups/dying/orders"),
    (r"idle/orders: nobody works on it, 1 behind: start gapless run with a handler of the group", "#/groups/idle/orders"),
    (r"schedule nightly: its zone is gone: gapless schedule add it anew, or gapless schedule remove it", "#/later"),
    (r"1 event of topic id 77, which nobody made: gapless topics adopt 77 NAME", ""),
    (r"capture of public\.bill: .*: gapless capture mend public\.bill", ""),
    (r"retention waits: it has events of topic id 77 .*: gapless retention shows the chunks", "#/retention"),
    (r"resting/orders: 1 behind, 1 partition paused by \w+: lunch & \"more\": gapless resume resting ends it", "#/groups/resting/orders"),
    (r"dying/orders: 1 dead letter: gapless dlq list --group dying", "#/dead?group=dying&states=dead"),
)  # fmt: skip


def _troubled(dsn: str, conn: Connection) -> None:
    """Make a log with problems of the core and of features."""
    ensure_topic(conn, "orders", partitions=1)
    publish(conn, "orders", 1)

    @handler(topic="orders", group="dying")
    def refuse(unit: Unit, conn: Connection) -> None:
        raise ValueError("refused")

    drain(dsn, refuse)
    for group in ("idle", "resting"):
        ops.create_group(conn, group, "orders")
    conn.execute("update gapless.lease set error = 'retrying: x' where group_id = 'dying'")
    ops.pause(conn, ops.GroupPlace(group="resting"), reason='lunch & "more"')
    ops.add_schedule(conn, ops.Schedule(name="nightly", topic="orders", every=timedelta(days=1)))
    conn.execute("update gapless.schedule set next_due = null, trouble = 'its zone is gone'")
    conn.execute("create table bill (n int primary key)")
    ops.capture_table(conn, "bill", "orders")
    conn.execute("drop trigger gapless_capture_delete on bill")
    conn.execute("insert into gapless.outbox_message_t (topic_id) values (77)")
    sequence(conn)
    publish(conn, "orders", 2)


def test_page_and_console_name_the_same_problems(dsn: str, conn: Connection) -> None:
    """One log: the page's script prints its document as the console prints its look."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    _troubled(dsn, conn)
    found = snapshot(conn)
    shown = list(takewhile(lambda line: not line.startswith("group "), once(found)[2:]))
    script = (
        f"import {{ addressOf }} from {json.dumps((PAGE / 'address.js').as_uri())};"
        f"const found = {json_text(to_document(found)['problems'])};"
        "console.log(JSON.stringify(found.map((each) => [`${each.problem}: ${each.remedy}`, each.page.length ? addressOf(each.page) : ''])))"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    of_page = json.loads(done.stdout)
    age = re.compile(r", for (\d+ms|[\d.]+[smhd]): ")  # the page has it in a column of its own
    assert [text for text, _ in of_page] == [age.sub(": ", line, count=1) for line in shown]
    assert sum(bool(age.search(line)) for line in shown) > len(shown) / 2
    for (words, address), (text, link) in zip(PROBLEMS, of_page, strict=True):
        assert re.fullmatch(words, text)
        assert link == address
