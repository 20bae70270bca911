"""Load from pgbench: many clients without the cost of Python on their side."""

from __future__ import annotations

import re
import subprocess

from benchmarks.queries import script
from benchmarks.server import pgbench_path

_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


def transactions_per_s(
    dsn: str, name: str, *, clients: int, duration_s: int, payload_bytes: int
) -> float:
    """Run scripts/<name>.sql in `clients` sessions; return the commits per second of all."""
    payload = '{"pad":"' + "x" * (payload_bytes - 10) + '"}'
    words = [
        str(pgbench_path()),
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={clients}",
        "--jobs=2",
        f"--time={duration_s}",
        f"--file={script(name)}",
        f"--define=payload={payload}",
        dsn,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = _TPS.search(done.stdout)
    if done.returncode or found is None:
        problem = done.stderr.strip() or done.stdout.strip()
        raise RuntimeError(f"pgbench {name} failed, exit code {done.returncode}: {problem}")
    return float(found[1])
