"""The report of a run as JSON, and the table of such reports in docs/why/reliability.md."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chaos.run import Verdict

DOC = Path(__file__).parents[2] / "docs" / "why" / "reliability.md"
BEGIN, END = "<!-- soak -->", "<!-- /soak -->"
VERDICTS = {0: "good", 1: "**VIOLATIONS**", 3: "inconclusive", 4: "slow"}
_COLUMNS = (
    *("PostgreSQL", "seed", "faults for", "faults", "kinds", "events", "effects", "take-overs"),
    *("COMMITs unanswered", "violations", "longest stall", "verdict"),
)
_HEAD = (f"| {' | '.join(_COLUMNS)} |", f"|---|{'--:|' * (len(_COLUMNS) - 2)}---|")


def as_json(verdict: Verdict) -> str:
    """Return the report of a run."""
    events, effects, letters, _ = (*verdict.size, 0, 0, 0, 0)[:4]
    report = {
        "server": verdict.server,
        "seed": verdict.seed,
        "exit_code": verdict.exit_code,
        "faults": dict(sorted(verdict.faults.items())),
        "events": events,
        "effects": effects,
        "dead_letters": letters,
        "violations": [str(each) for each in verdict.violations],
        "problems": verdict.problems,
        "slow": verdict.slow,
        "never": verdict.never,
        "counts": verdict.counts,
        "seconds": {what: round(seconds, 1) for what, seconds in verdict.seconds.items()},
        "longest_stall_s": None if verdict.stall is None else round(verdict.stall.seconds, 1),
    }
    return json.dumps(report, indent=1) + "\n"


def table(reports: Iterable[dict[str, Any]]) -> str:
    """Return the table of reports, by the version of the server, oldest first, and the seed."""
    return "\n".join([*_HEAD, *(_row(each) for each in sorted(reports, key=_order))])


def write_table(paths: Sequence[Path], doc: Path = DOC) -> None:
    """Put the table of these reports into the document, where the one before was."""
    made = table(json.loads(path.read_text()) for path in paths)
    text = doc.read_text()
    block = re.compile(f"(?s){re.escape(BEGIN)}.*?{re.escape(END)}")
    if not block.search(text):
        raise ValueError(f"{doc} has no {BEGIN} … {END}")
    doc.write_text(block.sub(lambda _: f"{BEGIN}\n{made}\n{END}", text))


def _row(report: dict[str, Any]) -> str:
    counts = report["counts"]
    stall_s = report["longest_stall_s"]
    cells = [
        report["server"].split(" ")[0],
        report["seed"],
        f"{report['seconds']['of faults']:.0f} s",
        sum(report["faults"].values()),
        len(report["faults"]),
        _many(report["events"]),
        _many(report["effects"]),
        counts["partitions taken over from a member that was gone"],
        counts["COMMITs without an answer"],
        len(report["violations"]) + len(report["problems"]),
        "-" if stall_s is None else f"{stall_s:.1f} s",
        VERDICTS[report["exit_code"]],
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _order(report: dict[str, Any]) -> tuple[list[int], int]:
    return [int(part) for part in re.findall(r"\d+", report["server"].split(" ")[0])], report[
        "seed"
    ]


def _many(number: int) -> str:
    return f"{number:,}".replace(",", " ")
