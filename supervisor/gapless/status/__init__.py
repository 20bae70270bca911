"""What is happening, as data, then as a picture: `gapless status` and the live console.

It reads the database alone, through the views in sql, so it works from any machine. One
direction: `snapshot` reads it; `History` turns successive snapshots into rates and news;
`to_document` (JSON) and `draw.draw` (lines) tell it, both pure. A key changes what is drawn
(`keys.press`, pure); `console.LiveConsole` puts that on a terminal when told to, and `loop` tells
it. No thread anywhere: the supervisor forks. What is imported here needs no rich.
"""

from gapless.status.document import to_document
from gapless.status.history import History
from gapless.status.look import snapshot
from gapless.status.snapshot import Snapshot

__all__ = ["History", "Snapshot", "snapshot", "to_document"]
