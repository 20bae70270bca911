"""After everybody has left: nothing may be left behind."""

import time
from typing import Any

from psycopg import Connection

from chaos.process import LOOK_AGAIN_S, title
from chaos.progress import Meter
from chaos.scene import Scene

REAP_S = 5.0  # of CPU
_LEFT = {
    "session": (
        "select application_name || ', ' || coalesce(state, '?') from pg_stat_activity"
        " where application_name ~ '^(gapless|chaos)/' and pid <> pg_backend_pid()"
    ),
    "advisory lock": (
        "select classid || ',' || objid || ' of ' || pid from pg_locks where locktype = 'advisory'"
    ),
    "prepared transaction": "select gid from pg_prepared_xacts",
    "member": "select name from gapless.member",
    "owner of a lease": (
        "select group_id || '/' || partition_id from gapless.lease where owner is not null"
    ),
    "attempt that counts": (
        "select group_id || '/' || partition_id || ': ' || attempts from gapless.consumer_offsets"
        " where attempt_offset >= next_offset"
    ),
}


def leftovers(scene: Scene, conn: Connection[Any], meter: Meter) -> list[str]:
    """Say what is left of supervisors and producers that have all ended; give it REAP_S."""
    began_s = time.monotonic()
    while (left := _look(scene, conn)) and meter.had_s(began_s, time.monotonic()) < REAP_S:
        time.sleep(LOOK_AGAIN_S * 10)
    return left


def _look(scene: Scene, conn: Connection[Any]) -> list[str]:
    left = [f"process {pid} outlived its parent: {title(pid)[:200]}" for pid in scene.orphans()]
    for what, statement in _LEFT.items():
        left += [f"{what}: {row[0]}" for row in conn.execute(statement)]
    return left
