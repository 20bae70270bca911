"""The present state, as data, then as a picture: `gapless status` and the live console.

It reads only the database, through the views in sql, so it works from any machine. Data flows one
way: `snapshot` reads it; `History` turns successive snapshots into rates and news; `to_document`
(JSON) and `draw.draw` (lines) show it, both pure. A key changes the picture (`keys.press`, pure);
`console.LiveConsole` puts it on a terminal when called, and `loop` calls it. There are no threads:
the supervisor forks. The imports here need no rich.
"""

from gapless.status.document import to_document
from gapless.status.history import History
from gapless.status.look import snapshot
from gapless.status.snapshot import Snapshot

__all__ = ["History", "Snapshot", "snapshot", "to_document"]
