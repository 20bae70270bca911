"""Each input that a door refuses, and the sentence it is refused with: the tables beside this file.

A row is an input, and below it, indented, the kind of the refusal (exit code, status, SQLSTATE, error) and its
sentence; … stands for text that varies, {folder} for the folder of FILES. A file is a door: commands, settings (variables,
and lines of a configuration, which ~ ends), routes (METHOD PATH HEADER:VALUE BODY; below /keys of a gateway that asks for
keys), expressions of Python, statements of SQL (;; between two). A new row's answer is written by
`WRITE_REFUSED=1 bin/test tests/refused`, as are those that differ: read the difference.
"""

import datetime as dt
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

import gapless
from gapless import errors, ops, testing
from gapless.cli.commands import COMMANDS, parser_of
from gapless.consume.user.handler import Options
from gapless.features.gateway.app import WAYS
from gapless.log.sequence import sequence
from gapless.settings import load
from gapless.settings.record import catalog
from support.commands import environment
from support.forked import Forks
from support.gateways import Inside, Limits

HERE = Path(__file__).parent
ONE = "@gapless.handler(topic='orders', group={!r})\ndef {}(unit, conn): ...\n"
FILES = {
    "empty.py": "",
    "broken.py": "import no_such_module\n",
    "one.py": "import gapless\n" + ONE.format("billing", "bill"),
    "app.py": "import gapless\n" + ONE.format("billing", "bill") + ONE.format("kept", "keep"),
    "twice.py": "import gapless\n" + ONE.format("billing", "bill") + ONE.format("billing", "again"),
    "both.py": "import gapless\n" + ONE.format("g", "bill") + "@gapless.handler(topic='other', group='g', mode='queue')\n"
    "def send(unit, conn): ...\n",
    "spaced.py": "import gapless\n" + ONE.format("a b", "bill"),
    "sends.py": "import gapless\n@gapless.handler(topic='orders', group='g', delivery='at-least-once')\n"
    "def send(unit): ...\n",
    "schema.json": "{}",
    "half.json": "{",
    "unknown.json": '{"type": "objekt"}',
    "array.json": "[]",
    "remote.json": '{"$ref": "http://127.0.0.1:9/x"}',
    "bad.jsonl": '{"payload": 1}\n{"payload": 2, "keyy": 3}\n',
    "deep.json": "[" * 100_000,
    "words.jsonl": "just words\n",
}  # fmt: skip
# Of a handler's own transaction, of the sequencer, of one that another program holds: they have tests of their own.
ELSEWHERE = {"GL000", "GL001", "GL002", "GL004", "GL005", "UncheckedError"}
VARIES = re.compile(
    r"(?<=clock says )\S+|(?<=invalid choice: )'\w+' \(choose from .*?\)|(?<=here \()[^)]*|\d{4}-\d\d-\d\dT[\d:.]+Z(?= is in)"
    r'|(?<=database ")\w+|(?<=not JSON compliant).*|\[Errno -?\d+\] .*|(?<=for type json ).*|(?<=member )\S+'
    r"|(?<=JSON: )(Exp|Inv|Ext|Illegal).*?(?=;|$| \(see)"
)
TABLE = """select table_name from information_schema.tables
where table_schema = 'gapless' and table_type = 'BASE TABLE'
  and table_name <> 'member' and table_name not like 'history%'"""
BEGUN = (
    b"select gapless.release('letters', 'orders', receipt) from gapless.take('letters', 'orders')"
)
Answer = Callable[[str], str]


def table(door: str) -> dict[str, str]:
    """Return the answers of a door, by input."""
    found: dict[str, str] = {}
    row = ""
    for line in (HERE / f"{door}.txt").read_text().splitlines():
        if line.startswith("  "):
            found[row] = line[2:]
        elif line and not line.startswith("#"):
            assert line not in found, f"{door}: {line} is told twice"
            found[row := line] = ""
    return found


DOORS = ("commands", "handlers", "python", "routes", "settings", "sql")
TABLES = {door: table(door) for door in DOORS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("refused")
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module")
def world(module_dsn: str) -> str:
    """The DSN of a database in which there is something of each kind, a dead letter too."""

    @gapless.handler(topic="orders", group="billing")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        raise ValueError("no")

    with psycopg.connect(module_dsn, autocommit=True) as conn:
        conn.execute((HERE / "world.sql").read_bytes())
        gapless.publish(conn, "orders", 1, key="k0")
        sequence(conn)
        conn.execute(BEGUN)
    testing.drain(module_dsn, refuse)
    return module_dsn


def _command(forks: Forks, dsn: str, folder: Path, text: str) -> str:
    variables = environment(GAPLESS_DSN=dsn, GAPLESS_HOME=str(folder))
    code, out, err = forks.run(shlex.split(text), b"", variables, 60)
    return f"{code} {(out or err).decode().removeprefix('gapless: ').rstrip()}"


def _setting(folder: Path, text: str) -> str:
    found = re.fullmatch(r"([A-Z_]+)=(.*)", text)
    path = folder / "gapless.yml"
    path.write_text("" if found else text.replace("~", "\n") + "\n")
    try:
        load(path, environ={found[1]: found[2]} if found else {})
    except errors.ConfigError as error:
        return f"ConfigError: {error}"
    return "not refused"


def _route(gateways: list[Inside], text: str) -> str:
    method, path, *rest = shlex.split(text)
    headers = {"content-type": "application/json"}
    body = b"{}" if method == "POST" else b""
    for word in rest:
        if found := re.fullmatch(r"([\w-]+):(\S.*)", word):
            headers[found[1]] = found[2]
        else:
            body = word.encode()
    client = gateways[path.startswith("/keys/")].client.client
    done = client.request(method, path.removeprefix("/keys"), content=body, headers=headers)
    return f"{done.status_code} {done.json()['detail'] if done.is_error else done.text}"


def _python(dsn: str, text: str) -> str:
    names = {name: getattr(gapless, name) for name in gapless.__all__}
    with psycopg.connect(dsn) as conn, psycopg.connect(dsn, autocommit=True) as open_conn:
        names |= {"ops": ops, "testing": testing, "dt": dt, "UUID": UUID, "dsn": dsn}
        try:
            said = eval(text, names | {"conn": conn, "open_conn": open_conn})
            if text.startswith(("handler", "schedule")):
                said(lambda unit, conn: None)
        except gapless.GaplessError as error:
            state = getattr(error, "sqlstate", None) or ""
            return f"{' '.join(filter(None, [type(error).__name__, state]))}: {error}"
        finally:
            conn.rollback()
    return f"not refused: {said}"


def _statement(conn: psycopg.Connection, text: str) -> str:
    try:
        with conn.transaction(force_rollback=True):
            for each in text.split(";;"):
                conn.execute(each.encode())
    except psycopg.Error as error:
        return f"{error.sqlstate}: {error.diag.message_primary}"
    return "not refused"


@pytest.fixture
def answer(request: pytest.FixtureRequest, door: str, folder: Path) -> Iterator[Answer]:
    """Play a row of a door."""
    if door == "settings":
        yield partial(_setting, folder)
        return
    dsn = request.getfixturevalue("world")
    before = _rows(dsn)
    if door == "commands":
        with closing(Forks()) as forks:
            yield partial(_command, forks, dsn, folder)
    elif door == "routes":
        limits = Limits(event_bytes_max=200, batch_bytes_max=1000, batch_events_max=3)
        gateways = [Inside(dsn, limits, 2, operates=True, asks_keys=asks) for asks in (False, True)]
        yield partial(_route, gateways)
        for each in gateways:
            each.end()
    elif door == "sql":
        with psycopg.connect(dsn, autocommit=True) as conn:
            yield partial(_statement, conn)
    else:
        yield partial(_python, dsn)
    assert _rows(dsn) == before, "what was refused has changed something"


def _rows(dsn: str) -> dict[str, int]:
    """Count the rows of each table, but for members and minutes, which an open door brings."""
    count = sql.SQL("select count(*) from gapless.{}")
    with psycopg.connect(dsn) as conn:
        names = [name for (name,) in conn.execute(TABLE.encode())]
        counts = [conn.execute(count.format(sql.Identifier(each))).fetchone() for each in names]
    return {name: row[0] for name, row in zip(names, counts, strict=True) if row}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "door", [pytest.param(each, marks=[pytest.mark.long] * (each == "commands")) for each in DOORS]
)
def test_refused(answer: Answer, folder: Path, door: str) -> None:
    """Each door answers as its table says, in one line."""
    differ: dict[str, tuple[str, str]] = {}
    for given, expected in TABLES[door].items():
        found = answer(given.replace("{folder}", str(folder))).replace(str(folder), "{folder}")
        if not re.fullmatch(".*".join(map(re.escape, expected.split("…"))), found):
            differ[given] = expected, found
    if "WRITE_REFUSED" in os.environ:
        _write(HERE / f"{door}.txt", {given: found for given, (_, found) in differ.items()})
    assert not differ, "\n".join(f"{each}\n  {a}\n  {b}" for each, (a, b) in differ.items())


def _write(path: Path, answers: dict[str, str]) -> None:
    rows: dict[str, str] = {}
    row = ""
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            rows[row] = line
        else:
            rows[row := line] = ""
    rows |= {given: f"  {VARIES.sub('…', found)}" for given, found in answers.items()}
    path.write_text(
        "".join(f"{given}\n{said}\n" if said else f"{given}\n" for given, said in rows.items())
    )


def _verbs() -> Iterator[str]:
    """Yield each command, with its verb where it has verbs."""
    for name in COMMANDS:
        found: Any = _below(parser_of(name))[name]
        yield from [f"{name} {verb}" for verb in _below(found)] or [name]


def _below(parser: Any) -> dict[str, Any]:
    return {
        name: each
        for action in parser._actions
        if hasattr(action, "add_parser")
        for name, each in action.choices.items()
    }


def _patterns() -> Iterator[tuple[str, str]]:
    """Yield a door, and the pattern of a row for each kind of input that it takes."""
    for verb in _verbs():
        yield "commands", rf"{verb}( .*)?"
    for key in catalog():
        yield "settings", rf"GAPLESS_{key.upper()}=.*|{key}:.*"
    for option in {*Options.__annotations__, "topic", "payload", "batch", "delivery"}:
        yield "handlers", rf".*handler\(.*\b{option}=.*"
    for way in WAYS:
        path = re.sub(r"\{[^}]*\}", "[^/ ?]+", way.path)
        yield "routes", rf"\w+ (/keys)?{path}([ ?].*)?"


def test_each_kind_is_there() -> None:
    """Every command, setting, option of a handler, route, SQLSTATE and error has a row; all are refusals."""
    lacks = [
        (door, pattern)
        for door, pattern in _patterns()
        if not any(re.fullmatch(pattern, row) for row in TABLES[door])
    ]
    said = [answer for rows in TABLES.values() for answer in rows.values()]
    kinds = {
        name
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.UsageError)
    }
    for path in (HERE.parents[1] / "sql").rglob("functions/**/*.sql"):
        kinds |= set(re.findall(r"errcode = '(GL\d+)'", path.read_text()))
    assert not lacks, "\n".join(" ".join(each) for each in lacks)
    assert [
        each
        for each in sorted(kinds - ELSEWHERE)
        if not any(re.search(rf"\b{each}\b", one) for one in said)
    ] == []
    assert [each for each in said if re.match(r"0 |2\d\d |not refused|$", each)] == []
