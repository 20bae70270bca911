"""Curves and bars as SVG, without a plotting library (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]

WIDTH = 720
PANEL_HEIGHT = 190
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 34, 34
BAR_HEIGHT = 30
LABEL_WIDTH = 330
FONT = "font-family='system-ui, sans-serif' font-size='12'"
# The paper comes with the ink, so that text can be read on any page.
LIGHT = {"paper": "#ffffff", "ink": "#57606a", "rule": "#d0d7de"}
LIGHT |= {"0": "#1f6feb", "1": "#d1242f", "2": "#1a7f37", "3": "#9a6700", "4": "#8250df"}
DARK = {"paper": "#0d1117", "ink": "#adbac7", "rule": "#444c56"}
DARK |= {"0": "#58a6ff", "1": "#ff7b72", "2": "#3fb950", "3": "#d29922", "4": "#bc8cff"}
CURVES = 5
PAIR_HEIGHT = 62
LEFT_OF_PAIRS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves over the same x, drawn from y = 0 up."""

    title: str
    series: Mapping[str, Points]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Panels below each other. `name` becomes the name of the file."""

    name: str
    x_label: str
    panels: Sequence[Panel]

    def svg(self) -> str:
        body = []
        for number, panel in enumerate(self.panels):
            body.append(f"<g transform='translate(0,{number * PANEL_HEIGHT})'>")
            body += _panel(panel, self.x_label)
            body.append("</g>")
        return _document(PANEL_HEIGHT * len(self.panels), body)


def bars(title: str, ratios: Mapping[str, float]) -> str:
    """Return a bar for each ratio on a logarithmic axis, right of 1 when it is above 1."""
    room = WIDTH - LABEL_WIDTH - RIGHT - 60
    widest = max(2.0, *(max(value, 1 / value) for value in ratios.values()))
    middle = LABEL_WIDTH + room / 2
    body = [_text(8, 20, title, "font-weight='bold'")]
    for number, (label, value) in enumerate(ratios.items()):
        y = TOP + number * BAR_HEIGHT
        length = math.log(value) / math.log(widest) * room / 2
        left = min(middle, middle + length)
        colour = 0 if value >= 1 else 1
        end = max(middle, middle + length) + 6
        body += [
            _text(LABEL_WIDTH - 8, y + 16, label[:52], "text-anchor='end'"),
            _bar(left, y + 3, abs(length), colour),
            _text(end, y + 16, f"{value:.2f}"),
        ]
    height = TOP + len(ratios) * BAR_HEIGHT + 10
    body.append(
        f"<line x1='{middle}' y1='{TOP - 4}' x2='{middle}' y2='{height - 8}' class='rule'/>"
    )
    return _document(height, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two bars below a label, each with its value and the text beside it."""

    label: str
    ours: tuple[float, str]
    theirs: tuple[float, str]


def pairs(title: str, shown: Sequence[Pair]) -> str:
    """Return each pair on a scale of its own, so that the longer bars of all have one length."""
    room = (WIDTH - LEFT_OF_PAIRS) * 0.45  # the texts get the rest
    body = [_text(LEFT_OF_PAIRS, 20, title, "font-weight='bold'")]
    for number, pair in enumerate(shown):
        y = TOP + number * PAIR_HEIGHT
        longest = max(pair.ours[0], pair.theirs[0]) or 1.0
        body.append(_text(LEFT_OF_PAIRS, y + 14, pair.label))
        for colour, (value, text), top in ((0, pair.ours, y + 20), (None, pair.theirs, y + 36)):
            width = max(1.0, value / longest * room)
            body.append(_bar(LEFT_OF_PAIRS, top, width, colour, 13))
            body.append(_text(LEFT_OF_PAIRS + width + 6, top + 11, text))
    return _document(TOP + len(shown) * PAIR_HEIGHT + 6, body)


def _document(height: float, body: Sequence[str]) -> str:
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}'>",
            f"<style>{_style(LIGHT)}",
            f"@media (prefers-color-scheme: dark) {{ {_style(DARK)} }}</style>",
            "<rect width='100%' height='100%' class='paper'/>",
            *body,
            "</svg>\n",
        ]
    )


def _style(colours: Mapping[str, str]) -> str:
    numbers = [name for name in colours if name.isdigit()]
    rules = [f".paper {{ fill: {colours['paper']} }}", f".rule {{ stroke: {colours['rule']} }}"]
    rules.append(f"text, .ink {{ fill: {colours['ink']} }}")
    rules += [f".fill{each} {{ fill: {colours[each]} }}" for each in numbers]
    rules += [f".line{each} {{ stroke: {colours[each]}; fill: none }}" for each in numbers]
    return " ".join(rules)


def _bar(x: float, y: float, width: float, colour: int | None, height: int = 18) -> str:
    name = "ink" if colour is None else f"fill{colour}"
    return f"<rect x='{x:.1f}' y='{y}' width='{width:.1f}' height='{height}' class='{name}'/>"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {FONT} {style}>{escape(text)}</text>"


def _panel(panel: Panel, x_label: str) -> Iterator[str]:
    points = [point for series in panel.series.values() for point in series]
    x_max = max((x for x, _ in points), default=1.0) or 1.0
    y_max = _round_up(max((y for _, y in points), default=1.0))
    width, height = WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / x_max * width, TOP + height - y / y_max * height

    yield _text(LEFT, 18, panel.title, "font-weight='bold'")
    for share in (0.0, 0.5, 1.0):
        x, y = at(0, y_max * share)
        yield f"<line x1='{x}' y1='{y}' x2='{WIDTH - RIGHT}' y2='{y}' class='rule'/>"
        yield _text(x - 6, y + 4, f"{y_max * share:g}", "text-anchor='end'")
        x, y = at(x_max * share, 0)
        yield _text(x, y + 16, f"{x_max * share:.3g}", "text-anchor='middle'")
    yield _text(WIDTH - RIGHT, PANEL_HEIGHT - 4, x_label, "text-anchor='end'")
    for number, (label, series) in enumerate(panel.series.items()):
        colour = number % CURVES
        drawn = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in series)
        yield f"<polyline points='{drawn}' class='line{colour}' stroke-width='2'/>"
        style = f"text-anchor='end' class='fill{colour}'"
        yield _text(WIDTH - RIGHT, 18 + 14 * number, label, style)


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, … that is at least the value."""
    if value <= 0:
        return 1.0
    power: float = 10 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)
