"""A picture of the console, for documents."""

from __future__ import annotations

import io
import re
from datetime import UTC, tzinfo
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from gapless.status.history import History
from gapless.status.render import Screen
from gapless.status.snapshot import Snapshot

_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_FONTS = "'Fira Code', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def export_svg(
    snapshot: Snapshot,
    path: Path,
    history: History | None = None,
    *,
    width: int = 100,
    height: int | None = None,
    time_zone: tzinfo = UTC,
) -> None:
    """Write the screen that `status --watch` shows as an SVG that needs nothing from elsewhere.

    height: in lines, to fold it to; None shows all.
    """
    screen = Console(
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        width=width,
        legacy_windows=False,
        _environ={},
    )
    screen.print(Screen(snapshot=snapshot, history=history, height=height, time_zone=time_zone))
    svg = screen.export_svg(title="gapless status --watch", theme=MONOKAI, unique_id="gapless")
    # rich's template loads fonts from a server: a picture in a README must not.
    svg = _FONT_FACES.sub("", svg).replace("Fira Code, monospace", _FONTS)
    # Some viewers drop the blanks that align figures to the right, even no-break ones.
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    path.write_text(svg, encoding="utf-8")
