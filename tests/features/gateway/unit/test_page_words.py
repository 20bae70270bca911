"""Axes, lines, states and addresses of the page: pure functions, which node runs."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gapless

PAGE = Path(gapless.__file__).parent / "features" / "gateway" / "page"


def by_node(module: str, calls: list[str]) -> list[Any]:
    """Return the values of expressions that use exports of a module of the page."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = (
        f"import * as m from {json.dumps((PAGE / module).as_uri())};"
        f"console.log(JSON.stringify([{', '.join(calls)}]))"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script],
        capture_output=True,
        text=True,
        check=True,
        env={"TZ": "Asia/Kolkata", "PATH": "/usr/bin:/bin"},
    )
    return list(json.loads(done.stdout))


AXES = [
    (0, "events", [0, 1]),
    (1, "events", [0, 1]),
    (7, "events", [0, 5, 10]),
    (1799, "events", [0, 1000, 2000]),
    (0.4, "/s", [0, 0.2, 0.4]),
    (0.4, "letters", [0, 1]),
    (95, "s", [0, 60, 120]),
    (7000, "s", [0, 3600, 7200]),
    (200_000, "s", [0, 86400, 172800, 259200]),
    (0.2, "s", [0, 0.1, 0.2]),
]
SERIES = """[
  {group: null, topic: null, lag: [9, 9], lag_s: [8, 8]},
  {group: "a", topic: "t", lag: [1, null], lag_s: [3, null], handled_per_s: [2, 2]},
  {group: "b", topic: "t", lag: [5, null], lag_s: [2, 1], handled_per_s: [3, null]},
  {group: "a", topic: "u", lag: [70, 70], lag_s: [0, 0]},
  {group: null, topic: "t", published_per_s: [4, 4]}]"""
VALUES = [
    ("{}", "lag", [9, 9]),
    ("{group: 'a', topic: 't'}", "lag", [1, None]),
    ("{topic: 't'}", "published_per_s", [4, 4]),
    ("{topic: 't'}", "lag", [6, None]),
    ("{topic: 't'}", "lag_s", [3, 1]),
    ("{topic: 't'}", "handled_per_s", [5, 2]),
    ("{group: 'a'}", "lag", [71, 70]),
    ("{group: 'c'}", "lag", []),
    ("{}", "handled_per_s", []),
]


def test_axes_are_round_and_lines_have_gaps() -> None:
    axes = [f"m.ticks({most}, {json.dumps(unit)})" for most, unit, _ in AXES]
    assert by_node("scales.js", axes) == [steps for *_, steps in AXES]
    values = [f"m.valuesOf({SERIES}, {query}, '{field}')" for query, field, _ in VALUES]
    assert by_node("scales.js", values) == [found for *_, found in VALUES]
    hour, day = "Date.UTC(2026, 2, 1, 12, 7)", 86_400_000
    times = (
        f"m.times({hour}, {hour} + {{}}, 6).map((at) => new Date(at).toISOString().slice(8, 16))"
    )
    assert by_node(
        "scales.js",
        [
            "m.line([1, null, 2, 3, undefined], (i) => i, (v) => v)",
            "m.line([null], (i) => i, (v) => v)",
            "[m.extremes([null, 4, 2, null]), m.extremes([null])]",
            "[m.nearest([10, 20, 30], 24), m.nearest([10, 20, 30], 99)]",
            times.format(day / 24),
            times.format(3 * day),
        ],
    ) == [
        "M0.0,1.0h.01M2.0,2.0L3.0,3.0",
        "",
        [{"now": 2, "least": 2, "most": 4}, None],
        [1, 2],
        ["01T12:10", "01T12:20", "01T12:30", "01T12:40", "01T12:50", "01T13:00"],
        # Noon and midnight of the reader, half past six in UTC.
        ["01T18:30", "02T06:30", "02T18:30", "03T06:30", "03T18:30", "04T06:30"],
    ]


GROUP = {"partitions": 3, "stopped": 0, "paused": 0, "unserved": 0, "lag": 0, "lag_s": 0}
STATES = [
    ({}, "idle", "", "quiet"),
    ({"lag": 5, "lag_s": 0.5}, "running", "", "good"),
    ({"handled_per_s": 3}, "running", "", "good"),
    ({"in_hand": 3}, "running", "", "good"),
    ({"lag": 5, "lag_s": 1}, "behind", "", "warn"),
    ({"lag": 5, "lag_s": 9, "unserved": 3}, "nobody", "", "bad"),
    ({"unserved": 1}, "nobody", "1 of 3", "warn"),
    ({"unserved": 1, "mode": "queue"}, "nobody", "", "warn"),
    ({"unserved": 1, "paused": 2}, "paused", "2 of 3", "warn"),
    ({"stopped": 1, "paused": 2}, "broken", "1 of 3", "bad"),
]


def test_a_group_has_a_state_and_numbers_are_short() -> None:
    states = [f"m.stateOf({json.dumps(GROUP | given)})" for given, *_ in STATES]
    assert by_node("words.js", states) == [
        {"state": state, "part": part, "level": level} for _, state, part, level in STATES
    ]
    numbers = [0, 0.25, 999, 999.6, 1000, 1234, 12_345, 999_600, 5_600_000, 2_000_000_000]
    assert by_node("words.js", [f"m.short({each})" for each in numbers]) == [
        *("0", "0.25", "999", "1k", "1k", "1.2k", "12k", "1M", "5.6M", "2G")
    ]


def test_an_address_is_made_in_one_way() -> None:
    """A name cannot become another page, nor a value another parameter; an empty value is left out."""
    addresses = {
        "m.address([''])": "#/",
        "m.address(['topics', 'a/b ?#', 0, 7])": "#/topics/a%2Fb%20%3F%23/0/7",
        "m.address(['dead'], {group: 'a&b=c', topic: '', key: null, by: undefined})": (
            "#/dead?group=a%26b%3Dc"
        ),
        "m.addressOf(['dead', 'mail', 'dead'])": "#/dead?group=mail&states=dead",
        "m.addressOf(['groups', 'mail', 'a/b'])": "#/groups/mail/a%2Fb",
    }
    assert by_node("address.js", list(addresses)) == list(addresses.values())
