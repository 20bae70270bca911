"""What is happening, as data, then as a picture: `gapless status` and the live console.

It reads the database alone, through the views in sql/views, so it works from any machine.
`snapshot` takes a Snapshot; `to_document` (JSON), `to_text`, `render` (rich) show it without I/O.
`History` turns successive snapshots into rates and news. `LiveConsole` paints when told to,
`Looker` tells it, and `watch` is the loop around both. No thread anywhere: the supervisor forks.
"""

from gapless.status.document import to_document
from gapless.status.history import History
from gapless.status.live import LiveConsole
from gapless.status.look import snapshot
from gapless.status.looker import Looker
from gapless.status.picture import export_svg
from gapless.status.render import render
from gapless.status.snapshot import Snapshot
from gapless.status.stream import stream
from gapless.status.text import to_text
from gapless.status.watching import accompany, watch

__all__ = [
    "History",
    "LiveConsole",
    "Looker",
    "Snapshot",
    "accompany",
    "export_svg",
    "render",
    "snapshot",
    "stream",
    "to_document",
    "to_text",
    "watch",
]
