"""Every SQL file against a real server and against the Python that uses it.

A named query must prepare; what it returns must fit the record that its comment names; a name that
Python uses must exist, and one that exists must be used.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from psycopg.pq import ExecStatus

import gapless
from gapless.db.queries import queries, query, sql_files, sql_root
from support.every import every

STAGES = [path.stem for path in sql_files("queries")]
NAMED = [(stage, name) for stage in STAGES for name in queries(stage)]
SOURCES = sorted(Path(gapless.__file__).parent.rglob("*.py"))
FUNCTIONS = sql_files("functions")
FEATURES = [path for path in SOURCES if "features" in path.parts]  # they ask through the core's
_MAKES = re.compile(r"^create (?:or replace )?(?:function|procedure) gapless\.(\w+)", re.MULTILINE)
_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)[sbt]|(%))")
_RETURNS = re.compile(r"^-- returns: ([\w.]+):(\w+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def server(server_dsn: str, template: str) -> Iterator[Connection]:
    """A session in a database with the schema; nothing is written to it."""
    with psycopg.connect(make_conninfo(server_dsn, dbname=template), autocommit=True) as conn:
        yield conn


def _numbered(text: str) -> tuple[str, list[str]]:
    """Return the query as the server wants it, $1 for %(name)s, and the names in that order."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name, percent = match.groups()
        if percent:
            return "%"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _PLACEHOLDER.sub(number, text), names


def _columns(server: Connection, stage: str, name: str) -> list[str]:
    """Prepare a query and return the columns of its result."""
    text, _ = _numbered(query(stage, name))
    pgconn = server.pgconn
    prepared = pgconn.prepare(b"", text.encode())
    assert prepared.status == ExecStatus.COMMAND_OK, prepared.get_error_message()
    described = pgconn.describe_prepared(b"")
    return [(described.fname(n) or b"").decode() for n in range(described.nfields)]


@pytest.mark.timeout(600)
def test_a_query_prepares_and_fits_its_record(server: Connection) -> None:
    def check(asked: tuple[str, str]) -> None:
        columns = _columns(server, *asked)
        named = _RETURNS.search(query(*asked))
        if named is not None:
            record = getattr(import_module(named[1]), named[2])
            wanted = [each.name for each in fields(record) if not each.metadata.get("added")]
            assert sorted(columns) == sorted(wanted)
        else:
            assert "-- returns" not in query(*asked), "a returns line nobody can read"

    every(check, NAMED, "/".join)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


_STAGE_IN = {"query": 0, "later": 1, "fetch_all": 1}  # which argument it is


@cache
def _stages_of(path: Path) -> set[str]:
    """The stages whose queries a module asks for: query(stage, …), or fetch_all(conn, stage, …)."""
    return {stage for stage, _ in _sections_of(path)} | {
        str(stage.value)
        for call in ast.walk(_tree(path))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        for stage in call.args[_STAGE_IN.get(call.func.id, len(call.args)) :][:1]
        if isinstance(stage, ast.Constant)
    }


def _sections_of(path: Path) -> set[tuple[str, str]]:
    """The queries of sections of status that a module declares: query=(stage, name)."""
    return {
        ast.literal_eval(said.value)
        for said in ast.walk(_tree(path))
        if isinstance(said, ast.keyword)
        and said.arg == "query"
        and isinstance(said.value, ast.Tuple)
    }


@cache
def _words_of(path: Path) -> set[str]:
    """All strings of a module: a name may reach query() through a variable."""
    return {
        node.value
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_a_query_that_is_asked_for_exists() -> None:
    def check(path: Path) -> None:
        assert _sections_of(path) <= set(NAMED)
        for call in ast.walk(_tree(path)):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "query":
                continue
            if isinstance(call.args[0], ast.Starred):  # of a section
                continue
            stage, name = (getattr(argument, "value", None) for argument in call.args)
            assert stage in STAGES, f"line {call.lineno}"
            assert not isinstance(name, str) or (stage, name) in NAMED, f"line {call.lineno}"

    asking = [path for path in SOURCES if "query" in path.read_text() and _stages_of(path)]
    every(check, asking, Path.as_posix)


_OF_A_STEP = {
    "run",
    "run_before",
    "run_untimed",
    "run_at_commit",
    "run_and_commit",
}  # (conn, name, …) of consume.session


def test_a_query_that_a_step_runs_exists() -> None:
    def check(path: Path) -> None:
        for call in ast.walk(_tree(path)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in _OF_A_STEP:
                name = getattr(call.args[1], "value", None) if len(call.args) > 1 else None
                is_there = not isinstance(name, str) or ("consume", name) in NAMED
                assert is_there, f"line {call.lineno}"

    steps = [path for path in SOURCES if "gapless.consume.session import" in path.read_text()]
    every(check, steps, Path.as_posix)


@pytest.mark.long
def test_a_query_that_exists_is_asked_for() -> None:
    def check(stage: str) -> None:
        users = [path for path in SOURCES if stage in _stages_of(path)]
        assert users, "no module asks for this stage"
        beside = {path for user in users for path in (*user.parent.rglob("*.py"), *FEATURES)}
        assert set(queries(stage)) - set().union(*map(_words_of, beside)) == set()

    every(check, STAGES, str)


def test_a_file_says_what_it_is_for() -> None:
    """A header of a function tells the people who call it from other languages all they have."""

    def check(path: Path) -> None:
        header = []
        for line in path.read_text().splitlines():
            if not line.startswith("--"):
                break
            header.append(line)
        if path.parent.name == "queries":
            assert header[0].startswith("-- name: ")
        else:
            assert len(" ".join(header)) > 40

    every(check, sorted(sql_root().rglob("*.sql")), Path.as_posix)


# Two signatures of one name stay together: whoever reads one must know of the other.
OVERLOADED = {
    "create_topic": "both are public, and the one with two arguments does the work of the other",
    "release": "of a lease and of what take() gave out: the word for both, with other types",
}


def test_a_function_has_a_file_of_its_own_and_its_name() -> None:
    def check(path: Path) -> None:
        made = _MAKES.findall(path.read_text())
        assert set(made) == {path.stem}
        assert len(made) == 1 or path.stem in OVERLOADED

    every(check, FUNCTIONS, Path.as_posix)


# People call these, with `name => value`: their arguments are called what they are.
CALLED_BY_PEOPLE = {
    *"publish publish_once publish_each publish_from publish_some_from publish_request".split(),
    *"transaction_uuid topic_id partition_of order_key canonical_host cause_uuid tell_cause parse_cause".split(),
    *"create_topic adopt_topic discard_unrouted set_partitions set_retention".split(),
    *"set_dedupe_window create_group drop_group restore_offsets pause resume seek seek_plan".split(),
    *"skip_hole redrive_letter discard_letter mend_letter forget_letters remove_pipeline".split(),
    *"set_filter clear_filter subscribe unsubscribe renew_subscription resume_subscription set_direct set_expiry request reply wait_reply".split(),
    *"publish_later cancel promote scheduled_until cron_next add_schedule pause_schedule".split(),
    *"resume_schedule remove_schedule run_schedule".split(),
    *"read ends locate trace chain_state transaction_state wait_for wait_through may_lease".split(),
    *"capture release_capture mend_capture attach detach".split(),
    *"set_compaction compact latest".split(),
    *"show_classic hide_classic notify_classic silence_classic".split(),
    *"add_webhook remove_webhook pause_webhook resume_webhook replay_webhook".split(),
    *"create_api_key revoke_api_key set_schema remove_schema".split(),
    *"take acknowledge release reject extend queue_state".split(),
    *"record_history history".split(),
    *"join poll commit commit_redriven reject_unit heartbeat leave end_client".split(),
}


def test_an_argument_says_that_it_is_one(server: Connection) -> None:
    """_like_this, where only programs call the function: by position."""
    rows = server.execute(
        "select p.proname::text, array(select n"
        " from unnest(p.proargnames, p.proargmodes) as a (n, m)"
        " where coalesce(m, 'i') = 'i')"
        " from pg_proc p where p.pronamespace = 'gapless'::regnamespace"
    ).fetchall()
    said: dict[str, list[list[bool]]] = {}
    for name, arguments in rows:
        said.setdefault(name, []).append([each[0] == "_" for each in arguments])
    plain = CALLED_BY_PEOPLE | {name for name, each in said.items() if each == [[]]}
    assert {n for n, each in said.items() if n not in plain and not all(map(all, each))} == set()
    assert {n for n in CALLED_BY_PEOPLE if all(map(any, said[n]))} == set()


_TIMED = re.compile(r"\b(?:deliver_at|next_due)\s*[<>]=?\s*(?:gapless\.)?(?:now|\w*clock\w*)\(")


def test_what_is_due_is_looked_for_with_a_variable() -> None:
    """A comparison with a volatile function is no condition of an index: 600 ms a look, not 0.2."""
    wrong = {
        path.name
        for path in sql_root().rglob("*.sql")
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith("--") and _TIMED.search(line)
    }
    assert wrong == set()


def test_what_plans_by_its_own_rules_compiles_nothing(server: Connection) -> None:
    """A scan that is forbidden costs 10^10 where there is no other: JIT then takes seconds for nothing."""
    wrong = server.execute(
        "select p.proname from pg_proc p where p.pronamespace = 'gapless'::regnamespace"
        " and p.proconfig::text ~ 'enable_|plan_cache_mode' and not 'jit=off' = any (p.proconfig)"
    ).fetchall()
    assert wrong == []


def test_a_query_names_no_argument() -> None:
    """By position: so programs of before go on when an argument gets another name."""
    ours = re.compile(r"gapless\.\w+\([^()]*=>")
    assert {name for stage, name in NAMED if ours.search(query(stage, name))} == set()


def test_no_name_is_used_twice() -> None:
    """What was applied is remembered by the name of its file, whatever folder that is in."""
    names = [path.stem for path in FUNCTIONS]
    assert sorted(set(names)) == sorted(names)


def test_every_noun_is_in_the_readme() -> None:
    text = (sql_root() / "README.md").read_text()
    nouns = {
        max(set(path.parts[-4:-1]) - {"functions"}, key=path.parts.index) for path in FUNCTIONS
    }
    assert {noun for noun in nouns if f"`{noun}/`" not in text} == set()


@pytest.mark.timeout(600)
def test_a_function_file_can_be_applied_again(server: Connection) -> None:
    def check(path: Path) -> None:
        with server.transaction(force_rollback=True):
            server.execute("set local check_function_bodies = on")
            server.execute(path.read_bytes())

    every(check, FUNCTIONS, Path.as_posix)


_LITERAL = re.compile(
    r"--[^\n]*|(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|(?P<plain>'(?:[^']|'')*')|\"[^\"]*\""
)


def test_a_backslash_means_the_same_in_every_session() -> None:
    """Where standard_conforming_strings is off, it is an escape in '...', in our functions, too."""

    def check(path: Path) -> None:
        text = path.read_text()
        odd = [m["plain"] for m in _LITERAL.finditer(text) if "\\" in (m["plain"] or "")]
        assert not odd, f"write {odd} as E'...', each backslash twice"

    kinds = ("functions", "views", "queries")
    every(check, [path for kind in kinds for path in sql_files(kind)], Path.as_posix)


_NAMES = re.compile(r"\bgapless\.(\w+)")
_DEFINES = re.compile(
    r"^create (?:or replace )?(?:table|view|function|procedure) gapless\.(\w+)", re.MULTILINE
)
# Names of features in rooms of the core: the lists may only become shorter. None of capture, webhooks, compaction,
# history: tests/across/test_features_removed.py.
KNOWN_TO_THE_CORE = {
    "consume": "filters queue",
    "lease": "clients queue scheduled",
    "log": "dedupe messages queue scheduled schemas",
    "partitions": "queue",
    "status": "queue retention",
    "cli": "chains filters messages",
    "ops": "dedupe queue",
}


def _room(path: Path) -> tuple[str, bool]:
    """The room of a file, and whether it is a feature's."""
    first, *others = path.relative_to(sql_root()).parts
    return (others[0], True) if first == "features" else (first, False)


def test_the_core_names_a_feature_only_where_it_is_listed() -> None:
    texts = {path: re.sub("--.*", "", path.read_text()) for path in sql_root().rglob("*.sql")}
    home = {
        name: room
        for is_feature in (True, False)  # a name that both have is the core's
        for path, text in texts.items()
        for room in [_room(path)]
        for name in _DEFINES.findall(text)
        if room[1] == is_feature
    }
    found: dict[str, set[str]] = {}
    for path, text in texts.items():
        room, is_feature = _room(path)
        named = {home[name] for name in _NAMES.findall(text) if name in home}
        if not is_feature and (features := {name for name, is_one in named if is_one}):
            found.setdefault(room, set()).update(features)
    assert found == {room: set(known.split()) for room, known in KNOWN_TO_THE_CORE.items()}
