"""README and docs say what figures.json says: every figure stands between markers, and is made."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import headline, pages, record
from benchmarks.figure import Figure, Target
from benchmarks.options import NAMES
from benchmarks.record import Record

ROOT = Path(__file__).parents[2]

CIRCUMSTANCES = {
    "size": "full",
    "date": "2026-11-23 05:00 UTC",
    "commit": "0123456789",
    "python": "3.11.7",
    "machine": "a machine",
    "cores": 2,
    "memory_gb": 25,
    "load_at_start": 0.25,
    "real_time": False,
    "commit_delay_ms": 0,
    "settings": {"server_version": "18.6 (Debian)", "fsync": "on", "shared_buffers": "1GB"},
}
FAST = Figure(
    what="batch 1: sequenced",
    unit="events/s",
    ours=(9000, 11000),
    baseline=(5000,) * 2,
    against="a",
)
SLOWER = replace(FAST, baseline=(20000,) * 2, against="b")
SLIGHTLY = replace(FAST, baseline=(12000,) * 2, against="c")
MISSED = Figure(
    what="p50",
    unit="ms",
    ours=(2.0,),
    baseline=(1.9,),
    against="published",
    target=Target("value", at_most=1),
)
RECORDS = {
    "publish": Record(circumstances=CIRCUMSTANCES, figures=(FAST, SLIGHTLY, SLOWER)),
    "latency": Record(circumstances=CIRCUMSTANCES, figures=(MISSED,)),
}

# What is measured reads so: "6.2k/s", "4.2 µs", "3 ms", "70 times the CPU", "2 % of a core".
_MEASURED = re.compile(
    r"\d[\d.,  ]*[kM]?\s*(?:events)?/s\b|\d\s*(?:µs|×|ms\b|ms of CPU|%\s*of a core)"
    r"|\d\s*times (?:the|as|faster)|\d[\d  ]*[kM]?\s*events a second"
)
PAGE_WORDS_MAX = 2000
# What bin/chaos measures stands in docs/why/reliability.md; the rest is a setting, not a figure.
_NOT_MEASURED = ("bin/chaos", "commits of 2 ms")


@pytest.fixture
def kept() -> dict[str, Record]:
    return record.read(ROOT / pages.FIGURES)


def _site(tmp_path: Path, page: str) -> Path:
    (tmp_path / "docs" / "why" / "benchmarks").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Nothing\n")
    (tmp_path / "docs" / "page.md").write_text(page)
    return tmp_path / "docs" / "page.md"


def test_no_page_is_stale(kept: dict[str, Record]) -> None:
    assert pages.stale(ROOT, kept) == [], "bin/bench --rewrite-docs"


def test_the_page_of_benchmarks_is_short() -> None:
    """The appendix has every row; the page is read in ten minutes, its tables included."""
    text = (ROOT / "docs" / "why" / "benchmarks.md").read_text(encoding="utf-8")
    assert len(text.split()) <= PAGE_WORDS_MAX
    assert "<!-- bench " not in text


def test_every_benchmark_is_kept_and_shown(kept: dict[str, Record]) -> None:
    assert {*NAMES} == {*kept}
    assert pages.homeless(ROOT, kept) == []


def test_kept_figures_have_their_circumstances(kept: dict[str, Record]) -> None:
    for name, each in kept.items():
        said = record.conditions(each.circumstances)
        assert not each.circumstances["real_time"], name
        for word in ("cores", "GB", "load", "commit ", "normal priority", "UTC"):
            assert word in said, name


def _figures_outside(text: str) -> list[str]:
    lines = pages.unmarked(text).split("\n\n")
    return [
        found[0]
        for paragraph in lines
        for found in _MEASURED.finditer(paragraph)
        if not any(word in paragraph for word in _NOT_MEASURED)
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/why/benchmarks.md", "docs/why/comparison.md"])
def test_no_figure_stands_outside_the_markers(page: str) -> None:
    assert _figures_outside((ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "page", ["docs/why/benchmarks-all.md", "docs/run/operations.md", "docs/use/spark.md"]
)
def test_no_rate_stands_outside_the_markers(page: str) -> None:
    """These pages name settings in milliseconds, and the loads that they are measured under."""
    text = pages.unmarked((ROOT / page).read_text(encoding="utf-8"))
    assert re.findall(r"\d\s*(?:µs|×|% of a core)|\d[kM]?(?: events)?/s\b", text) == []


@pytest.mark.parametrize(
    "said",
    [
        "it gives 6 200/s",
        "15.2k events/s",
        "4.2 µs",
        "1.4 ×",
        "1.8 ms",
        "with 70 times the CPU",
        "2 % of a core",
    ],
)
def test_a_figure_outside_the_markers_is_found(said: str) -> None:
    assert _figures_outside(f"# Page\n\nThis is so: {said}.\n")
    assert not _figures_outside(f"<!-- figures x -->\n{said}\n<!-- /figures x -->\n")


def test_a_page_that_says_something_else_is_stale(tmp_path: Path) -> None:
    page = _site(tmp_path, "before\n<!-- bench publish -->old<!-- /bench publish -->\nafter\n")
    assert page in pages.stale(tmp_path, RECORDS)
    pages.rewrite(tmp_path, RECORDS)
    assert pages.stale(tmp_path, RECORDS) == []
    text = page.read_text()
    assert text.startswith("before\n<!-- bench publish -->\n*full run of 2026-11-23 05:00 UTC, ")
    assert "a machine, 2 cores, 25 GB, load 0.25 at start, normal priority" in text
    assert "old" not in text
    assert (tmp_path / "docs" / "why" / "benchmarks" / "publish.svg").is_file()
    page.write_text(text.replace("10k", "11k", 1))
    assert pages.stale(tmp_path, RECORDS) == [page]
    assert pages.homeless(tmp_path, RECORDS) == ["latency"]


def test_a_template_gets_its_figures() -> None:
    def filled(words: str) -> str:
        return pages.filled("{{" + words + "}}", RECORDS)

    assert filled("publish; batch 1*; events/s; *; ours") == "10k"
    assert filled("publish; batch 1*; events/s; a; rival") == "5 000"
    assert filled("publish; batch 1*; events/s; b; ratio") == "0.5"
    assert filled("spark; anything; events/s; *; ours") == "–"  # not to be had
    assert filled("publish; batch 2*; events/s; *; ours") == "–"  # measured before there was one
    with pytest.raises(LookupError, match="3 figures"):
        filled("publish; batch 1*; events/s; *; rival")


def test_a_dash_is_said_when_pages_are_written(kept: dict[str, Record]) -> None:
    """So a name that is wrong, in a template or among the rows of the README, is no silent dash."""
    assert pages.absent({}) == [
        *(row.says for row in headline.ROWS),
        *(words for text in pages._templates().values() for words in pages._PLACE.findall(text)),
    ]
    assert pages.absent(kept) == []


def _with(*figures: Figure) -> dict[str, Record]:
    return {"publish": Record(circumstances=CIRCUMSTANCES, figures=figures)}


def test_the_readme_names_the_fastest_alternative() -> None:
    """It is the fastest, even where it wins; what nobody could use instead is none."""
    bound = replace(SLOWER, baseline=(30000,) * 2, against="plain INSERT, no trigger")
    handled = [replace(figure, what="batch 1: 8 workers") for figure in (FAST, SLOWER, bound)]
    first = "publish, an event a commit, while 8 workers handle them"
    text = headline.table(_with(*handled))
    assert f"| {first} | events/s | 10k | b | 20k | `bin/bench publish` |" in text
    assert "| idle, with 8 partitions | % of a core | – | – | – | `bin/bench idle` |" in text
    assert len(text.splitlines()) - 2 <= 8
    drawn = headline.picture(_with(*handled))
    assert ("20k  b" in drawn, first in drawn, "idle" in drawn) == (True, True, False)
    assert "plain INSERT" not in drawn + text


def test_a_bound_stands_beside_its_figure(tmp_path: Path) -> None:
    bounded = replace(SLOWER, target=Target("ratio", at_least=0.6), bound="at best 0.5: physics")
    page = _site(
        tmp_path, "".join(f"<!-- {x} --><!-- /{x} -->" for x in ("bench publish", "figures worse"))
    )
    pages.rewrite(tmp_path, _with(bounded))
    table, ahead = page.read_text().split("<!-- figures worse -->")
    assert "| 0.5 (0.45 … 0.55) | ≥ 0.6x | **missed**; at best 0.5: physics |" in table
    assert "| 0.5 | **≥ 0.6x, missed**; at best 0.5: physics |" in ahead


def test_whoever_is_ahead_is_shown() -> None:
    assert [(name, figure.against) for name, figure in pages.worse(RECORDS)] == [
        ("publish", "b"),
        ("latency", "published"),
    ]
