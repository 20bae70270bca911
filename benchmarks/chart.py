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
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df")
FONT = "font-family='system-ui, sans-serif' font-size='12' fill='#57606a'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves over the same x, drawn from y = 0 up."""

    title: str
    series: Mapping[str, Points]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Panels below each other. `name` becomes the file's name."""

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
    """Return one bar a ratio on a logarithmic axis, right of 1 when it is above 1."""
    room = WIDTH - LABEL_WIDTH - RIGHT - 60
    widest = max(2.0, *(max(value, 1 / value) for value in ratios.values()))
    middle = LABEL_WIDTH + room / 2
    body = [_text(8, 20, title, "font-weight='bold'")]
    for number, (label, value) in enumerate(ratios.items()):
        y = TOP + number * BAR_HEIGHT
        length = math.log(value) / math.log(widest) * room / 2
        left = min(middle, middle + length)
        colour = COLOURS[0] if value >= 1 else COLOURS[1]
        end = max(middle, middle + length) + 6
        body += [
            _text(LABEL_WIDTH - 8, y + 16, label[:52], "text-anchor='end'"),
            _bar(left, y + 3, abs(length), colour),
            _text(end, y + 16, f"{value:.2f}"),
        ]
    height = TOP + len(ratios) * BAR_HEIGHT + 10
    body.append(
        f"<line x1='{middle}' y1='{TOP - 4}' x2='{middle}' y2='{height - 8}' stroke='#57606a'/>"
    )
    return _document(height, body)


def _document(height: float, body: Sequence[str]) -> str:
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}'>",
            "<rect width='100%' height='100%' fill='white'/>",
            *body,
            "</svg>\n",
        ]
    )


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f"<rect x='{x:.1f}' y='{y}' width='{width:.1f}' height='18' fill='{colour}'/>"


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
        yield f"<line x1='{x}' y1='{y}' x2='{WIDTH - RIGHT}' y2='{y}' stroke='#d0d7de'/>"
        yield _text(x - 6, y + 4, f"{y_max * share:g}", "text-anchor='end'")
        x, y = at(x_max * share, 0)
        yield _text(x, y + 16, f"{x_max * share:.3g}", "text-anchor='middle'")
    yield _text(WIDTH - RIGHT, PANEL_HEIGHT - 4, x_label, "text-anchor='end'")
    for number, (label, series) in enumerate(panel.series.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in series)
        yield f"<polyline points='{drawn}' fill='none' stroke='{colour}' stroke-width='2'/>"
        style = f"text-anchor='end' style='fill:{colour}'"
        yield _text(WIDTH - RIGHT, 18 + 14 * number, label, style)


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, … that is not below the value."""
    if value <= 0:
        return 1.0
    power: float = 10 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)
