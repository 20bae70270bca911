"""Names of schemas: those that are refused, in one sentence; our SQL as it reads in another one."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import Connection

from db.installation import Installation
from gapless.db.queries import sql_root
from gapless.db.schema import channel_in, in_schema
from gapless.errors import ConfigError
from gapless.settings import environment_schema

CALLED_BY_NAME = ("gapless", "audit", "a", "_x", "tenant_7", "x" * 40, "t", "events", "c")
REFUSED = (
    *"select user order begin json row Audit AUDIT pg_audit pg_ public information_schema plpgsql".split(),
    *"gapless.x a\"b a'b a-b 7a ä a;b a%b a$b".split(),
    *("", " ", "a b", " a", "a ", "audit\n", "x" * 41, "x" * 64, "audit\0", "\ud800"),
)


@pytest.mark.parametrize("name", CALLED_BY_NAME)
def test_a_name_that_needs_no_quotes_is_taken(name: str) -> None:
    assert environment_schema({"GAPLESS_SCHEMA": name}) == name


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_name_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        environment_schema({"GAPLESS_SCHEMA": name})
    said = str(refused.value)
    assert said.startswith("schema is ")
    assert "environment GAPLESS_SCHEMA" in said
    assert "\n" not in said
    assert "lower-case letters" in said


def test_every_word_that_needs_quotes_is_refused(server_dsn: str) -> None:
    with psycopg.connect(server_dsn) as conn:
        words = conn.execute(
            "select word, quote_ident(word) <> word from pg_get_keywords()"
        ).fetchall()
    for word, needs_quotes in words:
        if needs_quotes:
            with pytest.raises(ConfigError):
                environment_schema({"GAPLESS_SCHEMA": word})


def _sources() -> Iterator[str]:
    for path in sql_root().rglob("*.sql"):
        yield path.read_text()


def test_nothing_of_the_source_stays_in_the_default_schema() -> None:
    for text in _sources():
        moved = in_schema(text, "audit")
        left = re.findall(r"(?<!returns: )\bgapless\.\w+|schema gapless\b|'gapless'", moved)
        assert not left
        assert "742700" not in moved
        assert not re.search(
            r"gapless_(?!(producer|consumer|operator|condition|transaction_id)\b)",
            re.sub(r"log_segment_gapless|taken_by_gapless", "", moved),
        )


def test_roles_commands_and_headers_keep_their_names() -> None:
    for text in (
        "grant usage on table t to gapless_producer, gapless_consumer, gapless_operator",
        "'gapless seek %s/%s@%s'",
        "jsonb_build_object('gapless-schedule', s.name, 'gapless-due', s.due)",
        "-- returns: gapless.log.topics:Topic",
    ):
        assert in_schema(text, "audit") == text


def test_the_default_schema_is_the_source_as_it_is() -> None:
    assert all(in_schema(text, "gapless") == text for text in _sources())


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("create schema if not exists gapless", "create schema if not exists audit"),
        ("drop schema if exists gapless cascade", "drop schema if exists audit cascade"),
        ("grant usage on schema gapless to x", "grant usage on schema audit to x"),
        ("'gapless.topic'::regclass", "'audit.topic'::regclass"),
        ("'gapless'::regnamespace", "'audit'::regnamespace"),
        ("format('drop table gapless.%I', t)", "format('drop table audit.%I', t)"),
        ("set_config('gapless.cause', '', true)", "set_config('audit.cause', '', true)"),
        ("pg_notify('gapless_p_' || t, '')", "pg_notify('audit_p_' || t, '')"),
        ("pg_notify('gapless_sequencer', '')", "pg_notify('audit_sequencer', '')"),
        ("'gapless_capture_' || operation", "'audit_capture_' || operation"),
        ("left('gapless/queue worker ' || g, 63)", "left('audit/queue worker ' || g, 63)"),
    ],
)
def test_what_is_named_by_the_schema(text: str, there: str) -> None:
    assert in_schema(text, "audit") == there


def test_channels_of_schemas_differ() -> None:
    names = ("gapless", "gapless_p", "gapless_p_1", "gapless_g", "p")
    channels = ("gapless_sequencer", "gapless_role", "gapless_p_1_1", "gapless_g_1")
    all_ = [channel_in(each, name) for name in names for each in channels]
    assert len(set(all_)) == len(all_)


def test_classes_of_locks_are_numbers_of_int4_and_apart() -> None:
    names = ["gapless", *(f"tenant_{n}" for n in range(2_000))]
    found = [int(in_schema(f"742700{kind}", name)) for name in names for kind in range(1, 10)]
    assert len(set(found)) == len(found)
    assert all(0 <= each < 1 << 31 for each in found)


def test_a_longest_name_has_room_for_channels_and_triggers() -> None:
    longest = "x" * 40
    assert len(channel_in("gapless_p_2147483647_4095", longest)) <= 63
    assert len(in_schema("gapless_capture_truncate", longest)) <= 63


@pytest.fixture
def stranger(installation: Callable[[str], Installation]) -> Installation:
    """A schema of somebody else, with a table in it."""
    made = installation("sales")
    made.conn.execute("create schema sales")
    made.conn.execute("create table sales.migration (id int)")
    return made


@pytest.mark.long
def test_a_schema_of_somebody_else_is_neither_installed_in_nor_dropped(
    stranger: Installation,
) -> None:
    for words in (["init"], ["init", "--sql"], ["uninstall", "--yes"]):
        said = stranger.tried(*words, code=2)
        assert "schema sales in database" in said.stderr
        assert "holds objects of other programs" in said.stderr
    assert stranger.conn.execute("select count(*) from sales.migration").fetchone() == (0,)
    found = stranger.conn.execute(
        "select relname from pg_class where relnamespace = 'sales'::regnamespace"
    )
    assert found.fetchall() == [("migration",)]


@pytest.mark.long
def test_an_empty_schema_that_an_owner_made_is_taken(
    installation: Callable[[str], Installation],
) -> None:
    made = installation("audit")
    made.conn.execute("create schema audit")
    assert "schema audit:" in made.run("init")


_AGREES = """
import gapless
gapless.connect({dsn!r}, schema="audit").close()
gapless.connect({dsn!r}).close()
with gapless.connect({dsn!r}, schema="audit") as conn:
    print(gapless.publish(conn, "orders", 1, key="k"))
try:
    gapless.connect({dsn!r}, schema="gapless")
except gapless.GaplessError as error:
    print(error)
"""


@pytest.mark.long
def test_a_program_says_its_schema_once(installation: Callable[[str], Installation]) -> None:
    made = installation("audit")
    made.install()
    done = subprocess.run(
        [sys.executable, "-c", _AGREES.format(dsn=made.dsn)],
        capture_output=True,
        text=True,
        check=True,
    )
    published, refused = done.stdout.splitlines()
    assert len(published) == len("00000000-0000-8000-8000-000000000314")
    assert refused.startswith("schema is gapless (from flag), but this process works in audit")


@pytest.mark.long
def test_script_of_init_installs_in_the_schema(
    installation: Callable[[str], Installation], server_dsn: str
) -> None:
    made = installation("audit")
    text = made.run("init", "--sql")
    made.conn.execute(text.encode())
    assert made.run("init").startswith("made ")
    assert made.conn.execute("select to_regnamespace('gapless')").fetchone() == (None,)


@pytest.mark.long
def test_what_is_installed_speaks_of_no_other_schema(
    installation: Callable[[str], Installation],
) -> None:
    made = installation("audit")
    made.run("init")
    _no_word_of_the_default(made.conn)


def _no_word_of_the_default(conn: Connection) -> None:
    bodies = conn.execute(
        "select proname, prosrc from pg_proc where pronamespace = 'audit'::regnamespace"
        " union all select c.relname, pg_get_viewdef(c.oid) from pg_class c"
        " where c.relnamespace = 'audit'::regnamespace and c.relkind = 'v'"
        " union all select conrelid::regclass::text, pg_get_constraintdef(oid) from pg_constraint"
        " where connamespace = 'audit'::regnamespace"
        " union all select adrelid::regclass::text, pg_get_expr(adbin, adrelid) from pg_attrdef"
    ).fetchall()
    assert len(bodies) > 200
    for name, body in bodies:
        assert not re.search(r"\bgapless\.|742700|'gapless'", body), (name, body)
