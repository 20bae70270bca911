"""The table of metrics in docs/run/observe.md is made of the one in the code: `python tests/docs/test_observability.py`."""

import re
from pathlib import Path

from gapless.telemetry.names import METRICS

PAGE = Path(__file__).parents[2] / "docs" / "run" / "observe.md"
_TABLE = re.compile(r"(?<=<!-- metrics -->\n).*?(?=<!-- /metrics -->)", re.DOTALL)


def table() -> str:
    """Return the table as the page has it."""
    lines = ["| metric | kind | labels | of | |", "|---|---|---|---|---|"]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(
            f"| `{metric.name}` | {metric.kind} | {labels} | {metric.source} | {metric.help} |"
        )
    return "".join(f"{line}\n" for line in lines)


def test_the_page_has_the_table() -> None:
    found = _TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == table(), "python tests/docs/test_observability.py writes it"


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), "utf-8")
