"""Load from pgbench: many clients without the cost of Python on their side."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.queries import script
from benchmarks.server import pgbench_path

_TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


def transactions_per_s(
    dsn: str,
    name: str,
    *,
    clients: int,
    duration_s: int,
    payload_bytes: int,
    partitions: Sequence[int] = (),
) -> float:
    """Run scripts/<name>.sql in `clients` sessions; return the commits per second of them all.

    partitions: for a script that names its partition; each transaction runs it for one of them.
    """
    payload = '{"pad":"' + "x" * (payload_bytes - 10) + '"}'
    with _files(name, partitions) as files:
        words = [
            str(pgbench_path()),
            "--no-vacuum",
            "--protocol=prepared",
            f"--client={clients}",
            "--jobs=2",
            f"--time={duration_s}",
            *(f"--file={file}" for file in files),
            f"--define=payload={payload}",
            dsn,
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = _TPS.search(done.stdout)
    if done.returncode or found is None:
        problem = done.stderr.strip() or done.stdout.strip()
        raise RuntimeError(f"pgbench {name} failed, exit code {done.returncode}: {problem}")
    return float(found[1])


@contextmanager
def _files(name: str, partitions: Sequence[int]) -> Iterator[list[Path]]:
    """Yield the script, or one for each partition: a table's name cannot be a variable."""
    if not partitions:
        yield [script(name)]
        return
    text = script(name).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
        files = [Path(folder) / f"{name}_{partition}.sql" for partition in partitions]
        for partition, file in zip(partitions, files, strict=True):
            file.write_text(text.replace("{partition}", str(partition)), encoding="utf-8")
        yield files
