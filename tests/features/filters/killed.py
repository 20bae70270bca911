"""Another process that works for a group."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from support.world import Group, World

CHILD = Path(__file__).parents[2] / "support" / "programs" / "child.py"


def child_on(world: World, group: Group) -> subprocess.CompletedProcess[bytes]:
    """Let another process work for the group; it is killed, or ends when nothing is left."""
    assignment = {
        "partition": asdict(group.assignment.partition),
        "epoch": group.assignment.epoch,
        "token": str(group.assignment.token),
    }
    words = [sys.executable, str(CHILD), "time", world.dsn, json.dumps(assignment)]
    return subprocess.run(words, check=False, capture_output=True, timeout=60)
