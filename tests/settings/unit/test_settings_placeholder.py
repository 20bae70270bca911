"""`${name:default}` in all its forms, alone and through a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gapless.errors import ConfigError
from gapless.settings import load
from gapless.settings.placeholder import PlaceholderError, Resolved, expand, names_in
from gapless.settings.source import environment_name

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = st.text(st.sampled_from("${}:?#'\"\\ \n-[]&*!ak1"), max_size=20)


def with_values(**values: object):
    """Make a Lookup; a name's dots are written as two underscores."""
    by_name = {name.replace("__", "."): value for name, value in values.items()}

    def lookup(name: str) -> Resolved | None:
        return Resolved(value=by_name[name], source=f"the {name}") if name in by_name else None

    return lookup


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("", ""),
        ("$k {k} $$ }{", "$k {k} $$ }{"),
        ("${k}", "v"),
        ("${k:}", "v"),
        ("${k:d}", "v"),
        ("${k:?must be set}", "v"),
        ("${ k : d }", "v"),
        ("${no:d}", "d"),
        ("${no:}", None),
        ("${no: spaced out }", "spaced out"),
        ("${no:postgresql://u@h:5432/db?a=b}", "postgresql://u@h:5432/db?a=b"),
        ("${no:abc$def}", "abc$def"),
        ("${no:$abc}", "$abc"),
        ("${no:100}", "100"),
        ("${db-event-consumer.groupId:g}", "g"),
        ("${null:d}", None),
        ("${list:d}", ("a", "b")),
        # The escape stays an escape where there is a value.
        ("${no:$}", "${no}"),
        ("${k:$}", "${k}"),
        # Embedded: the text around is kept, null is nothing.
        ("host=${no:localhost} port=${port:5432}", "host=localhost port=7"),
        ("${k}${k}", "vv"),
        ("<${no:}>", "<>"),
        ("<${null:d}>", "<>"),
        ("<${k:$}>", "<${k}>"),
        (" ${k} ", " v "),
    ],
)
def test_forms(text: str, value: object) -> None:
    lookup = with_values(k="v", port="7", null=None, list=("a", "b"))
    assert expand(text, lookup).value == value


def test_names_and_their_variables() -> None:
    assert names_in("a ${b.c:d} ${ e } ${f:?g}") == ("b.c", "e", "f")
    assert environment_name("db-event-consumer.batchSize") == "DB_EVENT_CONSUMER_BATCHSIZE"
    assert environment_name("gapless.waitPeriodMs") == "GAPLESS_WAITPERIODMS"
    assert environment_name("a b/c") == "A_B_C"


@given(HOSTILE, HOSTILE.filter(lambda text: "$" not in text))
@example("${k}", "")
def test_a_value_is_never_expanded_again(value: str, around: str) -> None:
    lookup = with_values(k=value)
    assert expand("${k}", lookup).value == value
    assert expand(f"{around}${{k:d}}{around}", lookup).value == around + value + around


@given(HOSTILE.map(lambda text: text.replace("}", "").replace("\n", "")))
def test_a_default_is_everything_to_the_brace_without_space_around(default: str) -> None:
    plain = default.strip()
    if plain.startswith("?") or plain == "$" or "${" in plain:
        return
    assert expand(f"${{no:{default}}}", with_values()).value == (plain or None)


@given(HOSTILE)
def test_any_text_expands_or_is_refused(text: str) -> None:
    try:
        value = expand(text, with_values(k="v", a=None)).value
    except PlaceholderError:
        return
    assert value is None or isinstance(value, str)


# ---- through a file ----


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOSTILE.filter(lambda text: text.strip()))
def test_a_value_from_the_environment_is_no_yaml(tmp_path: Path, value: str) -> None:
    path = tmp_path / "gapless.yml"
    path.write_text("dsn: ${gapless.dsn:x}\n")
    assert load(path, environ={"GAPLESS_DSN": value}).settings.dsn == value
    path.write_text("dsn: 'a ${any.name} b'\n")
    assert load(path, environ={"ANY_NAME": value}).settings.dsn == f"a {value} b"


def test_text_around_the_own_name_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "gapless.yml"
    path.write_text("groupId: ${db-event-consumer.groupId:users}-eu\n")
    assert load(path, environ={}).settings.group_id == "users-eu"
    for variable in ("DB_EVENT_CONSUMER_GROUPID", "GAPLESS_GROUPID"):
        loaded = load(path, environ={variable: "orders"})
        assert loaded.settings.group_id == "orders-eu"
        assert loaded.sources["groupId"] == f"{path} line 1 with environment {variable}"


def test_quoted_several_and_listed_placeholders(tmp_path: Path) -> None:
    path = tmp_path / "gapless.yml"
    path.write_text(
        'batchSize: "${my.batch: 5}"\n'
        "dsn: host=${my.host:localhost} port=${gapless.port:5432},${gapless.port:5432}\n"
        "handlers:\n  - ${my.app:shop}:orders\n  - 'shop:returns'\n"
        "app: '${app:$}'\n"
    )
    loaded = load(path, environ={"GAPLESS_PORT": "6543", "MY_APP": "mall"})
    assert loaded.settings.batch_size == 5
    assert loaded.settings.dsn == "host=localhost port=6543,6543"
    assert loaded.sources["dsn"] == f"{path} line 2 with environment GAPLESS_PORT"
    assert loaded.settings.handlers == ("mall:orders", "shop:returns")
    assert loaded.settings.app == "${app}"
    assert loaded.warnings == ()  # GAPLESS_PORT is no setting, but this file asks for it


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("\ntopic: ${no:?name the topic}", "line 2: topic: ${no} has no value: name the topic"),
        ("topic: ${no}", "line 1: topic: ${no} has no value and no default"),
        ('topic: "${a\\Lb:?c\\rd}"', "line 1: topic: ${a b} has no value: c d"),
        ("topic: ${no:}", "line 1: topic is empty: must be 1 to 200 printable characters"),
        ("handlers: [a, '${b']", "line 1: handlers: '${' is never closed by '}' on its line"),
        ("batchSize: ${my.batch:5}", "line 1: batchSize is 'x' (from environment MY_BATCH): must"),
        ("batchSize: 1${my.batch:5}", "line 1 with environment MY_BATCH): must"),
    ],
)
def test_errors_say_where(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "gapless.yml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(path, environ={"MY_BATCH": "x"})
    assert complaint in str(refused.value)
    assert str(refused.value).startswith(f"{path} line ")
