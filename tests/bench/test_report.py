"""What is printed, written as JSON, SVG and into a page, for figures that are made up."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from benchmarks import chart, markdown, record, report
from benchmarks.__main__ import COLUMNS, NAMES
from benchmarks.chart import Chart, Panel, bars
from benchmarks.figure import ITSELF, NO_NOISE, Figure, Target, alternate, marked, quantile
from benchmarks.record import Record
from rich.console import Console

FAST = Figure(
    what="batch 1: sequenced, nobody consumes",
    unit="events/s",
    ours=(9000.0, 12000.0, 10000.0),
    baseline=(10000.0, 10000.0, 20000.0),
    against="plain INSERT, no trigger",
    target=Target("ratio", at_least=0.8),
)
SLOW = Figure(
    what="p99 | commit to handler",
    unit="ms",
    ours=(31.0,),
    target=Target("value", at_most=15),
)
ALONE = Figure(what="drain", unit="events/s", ours=(5.0,), against="absent, not installed")
GROUPS = {"publish": [FAST], "latency": [SLOW], "peers": [ALONE]}


def test_a_ratio_is_of_neighbours_in_time() -> None:
    assert FAST.ratios == (0.9, 1.2, 0.5)
    assert FAST.verdict == "met"
    assert SLOW.verdict == "missed"


def test_nothing_to_compare_with_is_no_ratio_and_no_verdict() -> None:
    zero = Figure(what="", unit="", ours=(1.0,), baseline=(0.0,), against="nobody")
    assert zero.ratios == ()
    missing = Figure(
        what="", unit="", ours=(1.0,), against="absent", target=Target("ratio", at_most=1)
    )
    assert missing.verdict == ""


@pytest.mark.parametrize("ours", [1.4, 1 / 1.4, 1.0])
def test_what_noise_leaves_without_a_meaning_says_so(ours: float) -> None:
    """Rows of the same neighbours and of the same kind: CPU may be told where time cannot."""
    noise = Figure(what="a: noise", unit="events/s", ours=(ours,) * 3, baseline=(1.0,) * 3)
    noise = replace(noise, against=ITSELF, target=NO_NOISE)
    rows = [
        Figure(what=what, unit=unit, ours=(1.0,), bound="at best 2")
        for what in ("a: x", "b: x")
        for unit in ("events/s", "µs CPU/event")
    ]
    said = [each.bound for each in marked([noise, *rows])]
    doubt = "" if ours == 1 else f"not believable: ours was {ours:.2g} of itself in this run; "
    assert said == ["", f"{doubt}at best 2", "at best 2", "at best 2", "at best 2"]
    assert str(NO_NOISE) == "≥ 0.91x ≤ 1.1x"


def test_alternate_takes_turns_in_both_orders() -> None:
    turns: list[str] = []
    results = alternate(3, {"a": lambda: turns.append("a"), "b": lambda: turns.append("b")})
    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert results == {"a": (None,) * 3, "b": (None,) * 3}


def test_quantiles() -> None:
    values = [float(n) for n in range(100)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([7.0], 0.99)) == (50, 99, 7)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.7123, "0.712"),
        (431.0, "431"),
        (999.7, "1000"),
        (4310.4, "4 310"),
        (14310.0, "14.3k"),
        (2_340_000.0, "2.34M"),
    ],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert report.number(value) == shown


def test_the_table_fits_its_columns() -> None:
    console = Console(width=COLUMNS, file=StringIO())
    report.show(console, GROUPS)
    assert isinstance(console.file, StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert max(map(len, lines)) <= COLUMNS
    (row,) = [at for at, line in enumerate(lines) if line.startswith("batch 1")]
    assert lines[row].split()[-5:] == ["10k", "10k", "0.9", "≥", "0.8x"]
    assert lines[row + 1].startswith("events/s, vs plain INSERT, no trigger")
    assert lines[row + 1].rstrip().endswith("met")
    assert any(report.NOTHING in line for line in lines if line.startswith("drain"))


def test_json_has_every_round(tmp_path: Path) -> None:
    path = tmp_path / "made" / "bench.json"
    curve = Chart(name="c", x_label="s", panels=[Panel(title="t", series={"ours": [(0, 1)]})])
    written = Record(circumstances={"cores": 2}, figures=(FAST, SLOW, ALONE), charts=(curve,))
    record.write(path, {"publish": written})
    found = json.loads(path.read_text())["benchmarks"]["publish"]
    assert found["circumstances"]["cores"] == 2
    assert found["figures"][0]["ours"] == [9000, 12000, 10000]
    assert [each["verdict"] for each in found["figures"]] == ["met", "missed", ""]
    assert found["figures"][2]["ratio"] is None
    again = record.read(path)["publish"]
    assert again.figures == written.figures
    assert again.charts[0].svg() == curve.svg()


def test_pictures_are_svg(tmp_path: Path) -> None:
    curve = Chart(
        name="held-curves",
        x_label="s <held>",
        panels=[Panel(title="a & b", series={"ours": [(0, 0), (1, 3)], "none": []})],
    )
    assert report.write_pictures(tmp_path, GROUPS, [curve]) == ["held-curves.svg", "publish.svg"]
    for name in ("held-curves", "publish"):
        ET.parse(tmp_path / f"{name}.svg")
    ET.fromstring(bars("one", {"the same": 1.0, "ten times": 10.0, "half": 0.5}))


def _luminance(colour: str) -> float:
    shares = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    lit = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
    return 0.2126 * lit[0] + 0.7152 * lit[1] + 0.0722 * lit[2]


@pytest.mark.parametrize("colours", [chart.LIGHT, chart.DARK], ids=["light", "dark"])
def test_text_of_pictures_can_be_read_in_both_modes(colours: dict[str, str]) -> None:
    """The contrast that WCAG asks for; each text is of a class, and each class of both modes."""
    for name in ("ink", *map(str, range(chart.CURVES))):
        light, dark = sorted(map(_luminance, (colours[name], colours["paper"])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, name
    drawn = bars("one", {"a": 2.0, "b": 0.5})
    body = drawn.split("</style>")[1]
    assert "#" not in body  # no colour but those of the two modes
    assert colours["ink"] in drawn.split("</style>")[0]


def test_of_many_values_the_quartiles_are_shown() -> None:
    assert report.spread([1, 5, 9]) == "1 … 9"
    assert report.spread([*range(1, 100)]) == "25 … 75"
    assert report.spread([3.0] * 9) == ""


def test_a_table_stands_between_its_markers() -> None:
    text = markdown.section("publish", [FAST], ["pictures/publish.svg"], "quiet")
    assert text.startswith("<!-- bench publish -->\n*quiet*\n")
    assert text.endswith("\n<!-- /bench publish -->")
    assert (
        "| batch 1: sequenced, nobody consumes | events/s | 10k (9 000 … 12k) "
        "| plain INSERT, no trigger | 10k (10k … 20k) | 0.9 (0.5 … 1.2) | ≥ 0.8x | met |"
    ) in text
    assert "![publish](pictures/publish.svg)" in text


def test_the_documentation_has_a_place_for_every_benchmark() -> None:
    text = (Path(__file__).parents[2] / "docs" / "why" / "benchmarks-all.md").read_text()
    for name in NAMES:
        assert f"<!-- bench {name} -->" in text
        assert f"<!-- /bench {name} -->" in text
