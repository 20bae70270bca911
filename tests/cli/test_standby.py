"""A hot standby takes commands that only read; the others say where to go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import Gapless
from support.fleet import Fleet, until
from support.pairs import Pair, following

NOBODYS = "00000000-0000-8000-8000-0000000002fc"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with following() as made:
        yield made


@pytest.mark.long
def test_what_only_reads_works_on_a_standby(pair: Pair, bare: Gapless, tmp_path: Path) -> None:
    with pair.on_primary() as conn:
        fleet = Fleet(pair.primary.dsn(), conn, tmp_path)
        try:
            fleet.start("a", total_partitions=2)
            pair.publish(3)
            until(lambda: fleet.owners() == {"a": 2}, "it owns both partitions")
            conn.execute("select gapless.create_group('q', 't', mode => 'queue')")
            pair.replay()
            _reads(pair, bare)
        finally:
            fleet.close()


def _reads(pair: Pair, bare: Gapless) -> None:
    there = pair.standby.dsn()

    def told(*words: str) -> list[dict[str, object]]:
        done = bare(*words, "--json", "--dsn", there)
        assert done.code == 0, (words, done.err)
        lines = done.out.splitlines() if words[0] == "tail" else [done.out]
        found = [json.loads(line) for line in lines]
        return found if words[0] == "tail" else list(found[0])

    groups = told("groups")
    assert [(row["group"], row["workers"]) for row in groups] == [("g", None), ("q", None)]
    assert {row["member"] for row in told("groups", "show", "g")} == {"a"}
    assert {row["doing"] for row in told("groups", "work", "g")} == {"not visible"}
    assert len(told("tail", "t", "-n", "3")) == 3
    for words in ("topics", "audit", "status --since 1h", "dlq list", "later", "keys"):
        told(*words.split())
    missing = bare("trace", NOBODYS, "--dsn", there)
    assert "no event of it is there" in missing.err
    for words in ("status", "doctor --json", "pause g", "topics create x", "tail -f t", "gateway"):
        done = bare(*words.split(), "--dsn", there)
        assert "connect to the primary" in done.err + done.out, words
        assert done.code == (1 if words.startswith("doctor") else 3), words
        assert len(done.err.splitlines()) <= 1, (words, done.err)
