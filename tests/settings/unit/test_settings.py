"""Every setting: its default, its range, where its value may come from, and which wins."""

import os
import pickle
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from gapless.errors import ConfigError
from gapless.features.gateway.settings import GatewaySettings
from gapless.ops.find import configured_dsn
from gapless.settings import Loaded, Settings, load
from gapless.settings.kinds import Whole
from gapless.settings.record import catalog

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "config" / "gapless.yml"
KNOWN = catalog()
WHOLE = [setting for setting in KNOWN.values() if isinstance(setting.kind, Whole)]
CLASSIC = {"groupId", "batchSize", "totalPartitions", "waitPeriodMs"}


def found(**environ: str) -> Loaded:
    return load(None, environ=environ)


def write(folder: Path, text: str, name: str = "gapless.yml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ---- the shipped file is the code, written for people ----


def test_shipped_file_equals_the_defaults_in_code() -> None:
    loaded = load(SHIPPED, environ={})
    assert loaded.settings == Settings()
    assert loaded.warnings == ()
    assert all(source.startswith(f"{SHIPPED} line ") for source in loaded.sources.values())


def test_shipped_file_is_made_of_the_declarations() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "bin" / "_settings.py"], check=True, capture_output=True
    )
    assert SHIPPED.read_bytes() == made.stdout, "python bin/_settings.py --write"


def test_shipped_file_explains_every_key_with_its_range() -> None:
    comments = {
        key: " ".join(comment.replace("# ", "").split())
        for comment, key in re.findall(r"((?:^# .*\n)+)^(\w+):", SHIPPED.read_text(), re.MULTILINE)
    }
    assert list(comments) == list(KNOWN)
    for key, setting in KNOWN.items():
        assert comments[key].endswith(f" Must be {setting.kind.must}."), key
        assert ("or empty for " in comments[key]) == bool(setting.kind.null), key
        unit = "Milliseconds" if key.endswith("Ms") else "Seconds" if key.endswith("S") else None
        assert unit is None or comments[key].startswith(unit), key


def test_catalog_is_the_record_and_what_features_declare() -> None:
    own = [setting.attribute for setting in KNOWN.values() if setting.owner is Settings]
    assert [*own, "sections"] == [field.name for field in fields(Settings)]
    assert {s.key for s in KNOWN.values() if len(s.names) > 1} == CLASSIC
    assert KNOWN["maxUnitsPerSavepointBatch"].attribute == "max_units_per_savepoint_batch"
    for setting in KNOWN.values():
        assert setting.kind.parse(setting.default) == setting.default == Settings().value(setting)


def test_features_declare_sections_of_their_own() -> None:
    own = found(GAPLESS_MAXBATCHEVENTS="7").settings.of(GatewaySettings)
    assert (own.max_batch_events, own.gateway_sessions) == (7, 16)
    assert Settings().of(GatewaySettings) == GatewaySettings()
    assert "max_batch_events" not in {field.name for field in fields(Settings)}


def test_settings_are_frozen_picklable_and_hide_the_dsn() -> None:
    settings = Settings(dsn="postgresql://u:secret@h/db")
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "secret" not in repr(settings)
    with pytest.raises(FrozenInstanceError):
        settings.topic = "other"  # type: ignore[misc]


def test_importing_the_settings_does_not_import_yaml() -> None:
    code = "import sys, gapless.settings; sys.exit('yaml' in sys.modules)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environ).returncode == 0


# ---- ranges ----


@pytest.mark.few(5)
@pytest.mark.parametrize("setting", WHOLE, ids=lambda setting: setting.key)
def test_both_ends_of_every_range(setting) -> None:
    kind = setting.kind
    variable = f"GAPLESS_{setting.key.upper()}"
    # Wide open, so that only the range of the setting itself can refuse.
    others = {"GAPLESS_MEMBERTTLMS": "600000", "GAPLESS_HEARTBEATMS": "100"}
    allowed = {"heartbeatMs": (kind.low, 299_999)}.get(setting.key, (kind.low, kind.high))
    for value in allowed:
        loaded = found(**{**others, variable: str(value)})
        assert loaded.settings.value(setting) == value
        assert loaded.sources[setting.key] == f"environment {variable}"
    for value in (kind.low - 1, kind.high + 1):
        with pytest.raises(ConfigError) as refused:
            found(**{**others, variable: str(value)})
        assert str(refused.value) == (
            f"{setting.key} is '{value}' (from environment {variable}): must be {kind.must}"
        )


def test_empty_is_null_where_null_means_something_and_refused_elsewhere() -> None:
    environ = {f"GAPLESS_{key}": "" for key in ("DSN", "APP", "HANDLERS", "GROUPID", "CAPACITY")}
    assert found(**environ).settings == Settings()
    with pytest.raises(ConfigError, match=r"^topic is empty .from environment GAPLESS_TOPIC."):
        found(GAPLESS_TOPIC="")
    with pytest.raises(ConfigError, match=r"^batchSize is empty"):
        found(DB_EVENT_CONSUMER_BATCHSIZE="")
    with pytest.raises(ConfigError, match=r"from 0 to 100000, or empty for no limit"):
        found(GAPLESS_CAPACITY="none")


def test_handlers_are_a_list_or_text_with_commas() -> None:
    assert found(GAPLESS_HANDLERS="a:b, c.d:e").settings.handlers == ("a:b", "c.d:e")
    for bad in ("a:b,", ",", "a\nb"):
        with pytest.raises(ConfigError, match=r"^handlers is "):
            found(GAPLESS_HANDLERS=bad)


def test_a_dsn_is_passed_on_and_never_shown() -> None:
    dsn = "host=h password='${x} # \n: pw' "
    assert found(GAPLESS_DSN=dsn).settings.dsn == dsn
    for bad in ("secret\0", "secret\udc80"):
        with pytest.raises(ConfigError, match=r"^dsn is not usable") as refused:
            found(GAPLESS_DSN=bad)
        assert "secret" not in str(refused.value)


def test_heartbeat_must_fit_twice_into_the_time_to_live() -> None:
    assert found(GAPLESS_HEARTBEATMS="2499").settings.heartbeat_ms == 2499
    with pytest.raises(ConfigError) as refused:
        found(GAPLESS_HEARTBEATMS="2500")
    assert str(refused.value) == (
        "heartbeatMs is 2500 (from environment GAPLESS_HEARTBEATMS) and memberTtlMs is 5000"
        " (from default): heartbeatMs must be less than half of memberTtlMs"
    )


# ---- precedence ----


def test_flag_then_environment_then_values_file_then_file_then_default(tmp_path: Path) -> None:
    path = write(tmp_path, "batchSize: ${gapless.batchSize:5}\ntopic: literal\n")
    values = write(tmp_path, "gapless.batchSize: 4\ngapless.topic: valued\n", "values.yml")
    environ = {"GAPLESS_BATCHSIZE": "3", "GAPLESS_TOPIC": "environed"}

    def at(expected: int, topic: str, source: str, loaded: Loaded) -> None:
        assert (loaded.settings.batch_size, loaded.settings.topic) == (expected, topic)
        assert loaded.sources["batchSize"] == source
        assert loaded.warnings == ()

    flags = {"batch_size": 2, "topic": "flagged"}
    at(2, "flagged", "flag", load(path, environ=environ, overrides=flags))
    nothing = {"batch_size": None, "topic": None}
    env = "environment GAPLESS_BATCHSIZE"
    at(3, "environed", env, load(path, environ=environ, overrides=nothing))
    at(4, "valued", f"values file {values} line 1", load(path, environ={}))
    values.unlink()
    at(5, "literal", f"{path} line 1", load(path, environ={}))
    at(100, "outbox", "default", load(None, environ={}))


def test_flags_by_attribute_or_key_as_text_or_value() -> None:
    for flags in ({"batch_size": 7}, {"batchSize": "7"}):
        assert load(None, environ={}, overrides=flags).settings.batch_size == 7
    assert load(None, environ={}, overrides={"handlers": ["a:b"]}).settings.handlers == ("a:b",)
    with pytest.raises(ConfigError, match=r"^batchSize is True .from flag.: must be a whole"):
        load(None, environ={}, overrides={"batch_size": True})
    with pytest.raises(ConfigError, match=r"^there is no setting 'batchsise'; did you mean"):
        load(None, environ={}, overrides={"batchsise": 1})


@pytest.mark.parametrize(
    "file", [None, "batchSize: 5", "batchSize: ${db-event-consumer.batchSize:5}"]
)
def test_classic_settings_answer_to_both_names(tmp_path: Path, file: str | None) -> None:
    path = write(tmp_path, file) if file else None
    both = {"GAPLESS_BATCHSIZE": "3", "DB_EVENT_CONSUMER_BATCHSIZE": "4"}
    for name, value in both.items():
        assert load(path, environ={name: value}).settings.batch_size == int(value)
    loaded = load(path, environ=both)
    assert loaded.settings.batch_size == 3
    assert loaded.warnings == (
        (
            "environment DB_EVENT_CONSUMER_BATCHSIZE is ignored:"
            " environment GAPLESS_BATCHSIZE says otherwise and wins"
        ),
    )
    assert load(path, environ=dict.fromkeys(both, "3")).warnings == ()
    assert load(path, environ=both, overrides={"batch_size": 2}).warnings == ()


def test_misspelt_variables_are_warned_of() -> None:
    loaded = found(
        GAPLESS_BATCH_SIZE="1",
        DB_EVENT_CONSUMER_GROUP="g",
        GAPLESS_QQQ="",
        GAPLESS_HOME="/x",
        GAPLESS_PG_BINDIR="/x",
        GAPLESS_DEBUG="1",
        GAPLESS_TEST_DSN="x",
        GAPLESSNESS="x",
        BATCHSIZE="x",
    )
    assert loaded.settings == Settings()
    assert loaded.warnings == (
        (
            "environment variable 'GAPLESS_BATCH_SIZE' is no setting;"
            " did you mean 'GAPLESS_BATCHSIZE'?"
        ),
        "environment variable 'GAPLESS_QQQ' is no setting",
        (
            "environment variable 'DB_EVENT_CONSUMER_GROUP' is no setting;"
            " did you mean 'DB_EVENT_CONSUMER_GROUPID'?"
        ),
    )


@pytest.mark.parametrize("variable", ["DB_EVENT_CONSUMER_PARTITIONID", "GAPLESS_PARTITIONID"])
def test_a_partition_id_is_warned_of_once(variable: str) -> None:
    (warning,) = found(**{variable: "3"}).warnings
    assert warning.startswith(f"partitionId is ignored (environment {variable}): ")


def test_whether_a_server_was_chosen() -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"):
        assert configured_dsn(Settings(), {name: "x"}) == ""
        assert configured_dsn(Settings(), {name: ""}) is None
    left_over = {"DATABASE_URL": "postgresql://h/db", "PGPASSWORD": "x", "PGSSLMODE": "require"}
    assert configured_dsn(Settings(), left_over) is None
    assert configured_dsn(Settings(dsn="dbname=x"), {}) == "dbname=x"
    assert configured_dsn(Settings(dsn=""), {}) is None
