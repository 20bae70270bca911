"""Everything that lists or changes something prints JSON; numbers are numbers."""

import argparse
from collections.abc import Iterator

import pytest

from gapless.cli.commands import COMMANDS, parser_of

# What has none, and why; docs/reference/exit-codes.md says so too.
WITHOUT = {
    "run": "stays",
    "gateway": "stays",
    "demo": "talks to a person",
    "pipeline run": "stays",
    "server url": "prints one thing",
    "completion": "prints one thing",
    "server psql": "is psql",
    "dlq export": "is JSON lines",
}


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command, or every verb of one that has verbs, with its parser."""
    for name, parser in _verbs(parser_of(*COMMANDS)).items():
        verbs = _verbs(parser)
        if not verbs:
            yield name, parser
        for verb, own in verbs.items():
            yield f"{name} {verb}", own


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name: own for each in actions for name, own in each.choices.items()}


@pytest.mark.parametrize(("name", "parser"), list(_parsers()), ids=lambda x: str(x)[:30])
def test_what_lists_or_changes_has_json(name: str, parser: argparse.ArgumentParser) -> None:
    options = {option for action in parser._actions for option in action.option_strings}
    assert ("--json" in options) == (name not in WITHOUT), name


@pytest.mark.long
def test_changes_as_json(bare, gapless, empty_dsn: str) -> None:
    def on_empty(*words: str):
        return bare(*words, GAPLESS_DSN=empty_dsn)

    first = on_empty("init", "--partitions", "8", "--json").json
    assert (first["changed"], first["created_topic"]) == (True, "outbox")
    assert first["migrations"] == []
    assert on_empty("init", "--json").json["changed"] is False
    assert on_empty("uninstall", "--yes", "--json").json["removed"] is True
    assert on_empty("uninstall", "--yes", "--json").json["removed"] is False

    made = gapless("topics", "create", "orders", "--partitions", "4", "--json").json
    assert made == {"topic": "orders", "partitions": 4, "created": True}
    assert not gapless("topics", "create", "orders", "--json").json["created"]
    words = ("--partitions", "8", "--retention", "7d")
    assert gapless("topics", "alter", "orders", *words, "--json").json == {
        "topic": "orders",
        "retention_s": 604800,
        "archive": None,
        "overrun": [],
        "partitions_before": 4,
        "partitions": 8,
    }
    assert gapless("topics", "--json").json[0]["retention_s"] == 604800
    assert gapless("publish", "orders", "1", "--wait", "--json").json["events"] == 1
    lines = gapless("publish", "orders", "-", "--json", stdin='{"payload": 1}\n{"payload": 2}\n')
    assert lines.json == {"events": 2, "transactions": 1}

    group = {"group": "g", "topic": "orders"}
    assert gapless("groups", "create", "g", "orders", "--json").json == {
        **group,
        "created": True,
        "start": "earliest",
    }
    assert not gapless("groups", "create", "g", "orders", "--json").json["created"]
    only = gapless("groups", "remove", "g", "--json")
    assert only.json == {"group": "g", "topics": ["orders"], "dead_letters": 0, "removed": False}
    assert gapless("groups", "remove", "g", "--yes", "--json").json["removed"] is True
    (chunk, *_) = gapless("retention", "--json").json
    assert isinstance(chunk["bytes"], int)
    assert gapless("retention", "--apply", "--json").json == {"dropped": []}
    assert gapless("dlq", "import", "--dry-run", "--json").json == {"dry_run": True, "units": []}
