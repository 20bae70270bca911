"""The example of docs/use/chains.md runs as it stands there, and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

from psycopg import Connection

from support.commands import environment

PAGE = Path(__file__).parents[2] / "docs" / "use" / "chains.md"
TIMEOUT_S = 60


def test_the_example_runs(conn: Connection, dsn: str, tmp_path: Path) -> None:
    program, printed = re.findall(
        r"```python\n(# chain\.py\n.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL
    )[0]
    file = tmp_path / "chain.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        env=environment(GAPLESS_DSN=dsn),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.stdout == printed
    assert re.fullmatch(r"stock/payments/0@3: dead letter: .*\n", done.stderr), "once, by the log"
    row = conn.execute(
        "select count(distinct xid) from gapless.outbox_message_t where cause ~ '^b'"
    )
    assert row.fetchone() == (1,), "one batch, one transaction"
