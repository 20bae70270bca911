"""The pages that show figures: the text between their markers is made from figures.json alone.

`<!-- bench NAME -->` … `<!-- /bench NAME -->` holds the whole table of a benchmark, and its
pictures. `<!-- figures NAME -->` … `<!-- /figures NAME -->` holds pages/NAME.md, in which

    {{benchmark; what; unit; rival; field}}

is one figure, or a dash where it is not among them: field is `ours`, `rival` (its value) or
`ratio`; what and rival may have a `*`. Three names have no template: the tables `worse` and
`headline`, and `readme`, a chart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median

from benchmarks import headline, markdown, report
from benchmarks.figure import NO_RIVALS, Figure
from benchmarks.record import Records, conditions
from benchmarks.report import NOTHING, number

ROOT = Path(__file__).parents[1]
FIGURES = Path("docs/why/benchmarks/figures.json")
PICTURES = Path("docs/why/benchmarks")
TEMPLATES = Path(__file__).parent / "pages"

CLEARLY = 1.05
CHART = "![gapless and the fastest alternatives](docs/why/benchmarks/readme.svg)"

_SECTION = re.compile(
    r"<!-- (?P<kind>bench|figures) (?P<name>[a-z-]+) -->.*?<!-- /(?P=kind) (?P=name) -->", re.DOTALL
)
_PLACE = re.compile(r"\{\{(?P<words>[^{}]+)\}\}")


def rewrite(root: Path, records: Records) -> list[Path]:
    """Write every page and picture again; return those that changed."""
    changed = []
    for path, text in _contents(root, records):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def stale(root: Path, records: Records) -> list[Path]:
    """Return the pages and pictures that rewrite() would change."""
    return [
        path
        for path, text in _contents(root, records)
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def unmarked(text: str) -> str:
    """Return a page's text without the parts between markers."""
    return _SECTION.sub("", text)


def homeless(root: Path, records: Records) -> list[str]:
    """Return the benchmarks for which no page has markers."""
    texts = [page.read_text(encoding="utf-8") for page in _pages(root)]
    return [name for name in records if not any(f"<!-- bench {name} -->" in t for t in texts)]


def filled(template: str, records: Records) -> str:
    """Return a template with its figures. Raises LookupError if several figures fit the words."""
    return _PLACE.sub(lambda place: _shown(place["words"], records), template)


def absent(records: Records) -> list[str]:
    """Return the figures that pages show as a dash: their benchmark did not run, or lacks them."""
    places = [place for text in _templates().values() for place in _PLACE.findall(text)]
    found = [words.strip() for words in places if _shown(words, records) == NOTHING]
    return [*headline.absent(records), *found]


def worse(records: Records) -> Iterator[tuple[str, Figure]]:
    """Yield, for each thing that was measured, the rival furthest ahead; missed targets too."""
    for name, record in records.items():
        found: dict[tuple[str, str], Figure] = {}
        for figure in record.figures:
            if figure.against in NO_RIVALS and figure.verdict != "missed":
                continue
            behind = _behind(figure)
            if behind < CLEARLY and figure.verdict != "missed":
                continue
            key = figure.what, figure.unit
            if key not in found or behind > _behind(found[key]):
                found[key] = figure
        yield from ((name, figure) for figure in found.values())


def _behind(figure: Figure) -> float:
    """Return by which factor the rival is better."""
    if not figure.ratios:
        return 0.0
    ratio = median(figure.ratios)
    return (1 / ratio if ratio else 0.0) if figure.more_is_better else ratio


def _contents(root: Path, records: Records) -> Iterator[tuple[Path, str]]:
    pictures = {
        name: report.pictures({name: record.figures}, record.charts)
        for name, record in records.items()
    }
    for drawn in pictures.values():
        for file, svg in drawn.items():
            yield root / PICTURES / file, svg
    yield root / PICTURES / "readme.svg", headline.picture(records)
    sections = {("bench", name): "" for name in records}
    for name, record in records.items():
        shown = [f"benchmarks/{file}" for file in pictures[name]]
        sections["bench", name] = markdown.section(
            name, record.figures, shown, conditions(record.circumstances)
        )
    bodies = {name: filled(text, records) for name, text in _templates().items()}
    bodies |= {"worse": _worse_table(records), "readme": CHART, "headline": headline.table(records)}

    def section(found: re.Match[str]) -> str:
        kind, name = found["kind"], found["name"]
        if kind == "bench":
            return sections.get((kind, name), found[0])
        return f"<!-- figures {name} -->\n{bodies[name].strip()}\n<!-- /figures {name} -->"

    for page in _pages(root):
        yield page, _SECTION.sub(section, page.read_text(encoding="utf-8"))


def _templates() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.md")}


def _pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def _worse_table(records: Records) -> str:
    lines = [
        "| benchmark | what | unit | ours | the best rival | its value | ratio | missed; bound |",
        "|---|---|---|--:|---|--:|--:|---|",
    ]
    for name, figure in worse(records):
        cells = (
            name,
            figure.what,
            figure.unit,
            _median(figure.ours),
            figure.against,
            _median(figure.baseline),
            _median(figure.ratios),
            "; ".join(filter(None, (_missed(figure), figure.bound))),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _missed(figure: Figure) -> str:
    return f"**{figure.target}, missed**" if figure.verdict == "missed" else ""


def _shown(words: str, records: Records) -> str:
    benchmark, what, unit, rival, field = (word.strip() for word in words.split(";"))
    found = [
        figure
        for figure in (records[benchmark].figures if benchmark in records else ())
        if fnmatchcase(figure.what, what)
        and fnmatchcase(figure.unit, unit)
        and fnmatchcase(figure.against, rival)
    ]
    if not found:  # it was not available: no Java, say
        return NOTHING
    if len({(figure.what, figure.against) for figure in found}) > 1 and field != "ours":
        raise LookupError(f"{words}: {len(found)} figures")
    values = {"ours": found[0].ours, "rival": found[0].baseline, "ratio": found[0].ratios}
    return _median(values[field])


def _median(values: Sequence[float]) -> str:
    return number(median(values)) if values else NOTHING
