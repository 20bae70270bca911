"""What the dashboard and the alert rules ask for is there: in a real scrape, with the labels they name."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from psycopg import Connection

from features.metrics.scraped import scrape_of_groups, until_passed
from gapless.features.compaction.latest import set_compaction
from gapless.telemetry.names import METRICS
from support.watched import Scrape, Watch, order

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "config" / "grafana" / "gapless.json"
ALERTS = ROOT / "config" / "prometheus" / "alerts.yml"
_NAME = re.compile(r"\b(?:gapless|messaging)_\w+\b")
_LABELS = re.compile(r"\b(?:by|without) \(([^)]*)\)|\{([^}]*)\}")
OF_PROMETHEUS = {"instance", "pod", "job", "le"}  # labels that it, or the histogram, adds
WANTED = {
    "GaplessLag",
    "GaplessStandstill",
    "GaplessDeadLetters",
    "GaplessHeldSnapshot",
    "GaplessNoSequencer",
    "GaplessRetentionHeld",
    "GaplessCompactionStands",
}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    board = json.loads(DASHBOARD.read_text())
    yield from (target["expr"] for panel in board["panels"] for target in panel["targets"])
    yield from (
        variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"
    )


def names(expression: str) -> set[str]:
    """The metrics of an expression; what else looks like one is a label of OpenTelemetry's."""
    labels = {label for metric in METRICS.values() for label in metric.labels}
    return set(_NAME.findall(expression)) - labels


def labels(expression: str) -> set[str]:
    found = set()
    for by, matchers in _LABELS.findall(expression):
        found |= {word.strip() for word in by.split(",") if word.strip()}
        found |= {re.split(r"[=!~]", each)[0].strip() for each in matchers.split(",") if each}
    return found


@pytest.fixture
def scrape(watch: Watch, conn: Connection) -> Scrape:
    set_compaction(conn, "orders", compact=True)
    watched = watch()
    watched.until_ready()
    order(conn, 3)
    order(conn, 1, bad=True)
    until_passed(conn, 4, watched)
    return scrape_of_groups(watched)


@pytest.mark.long
def test_every_metric_and_label_is_there(scrape: Scrape) -> None:
    asked = set()
    for expression in expressions():
        found = names(expression)
        assert found, expression
        asked |= found
        if all(METRICS[name].source in ("gateway", "spark") for name in found & METRICS.keys()):
            continue  # tests/features/gateway/test_service.py, tests/features/spark/test_lag.py
        assert not found - set(scrape.samples), expression
        known = {label for name in found for each in scrape.samples[name] for label, _ in each}
        assert not labels(expression) - known - OF_PROMETHEUS, expression
    shown = {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in asked}
    assert shown == set(METRICS), "the dashboard and the rules leave nothing out"


def test_the_rules_that_are_promised() -> None:
    assert {rule["alert"] for rule in rules()} >= WANTED
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]


def test_prometheus_takes_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        [promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
