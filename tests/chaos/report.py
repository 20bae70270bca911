"""What came of a run, for people."""

from chaos.checker import report
from chaos.figures import Figure
from chaos.run import Verdict

LINES_MAX = 60
STALL_TOLD_S = 8.0  # a unit that hangs is killed three times: about 5 s


def print_verdict(verdict: Verdict) -> None:
    print(verdict_text(verdict))  # noqa: T201


def verdict_text(verdict: Verdict) -> str:
    events, effects, letters, epoch = (*verdict.size, 0, 0, 0, 0)[:4]
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(verdict.faults.items()))
    lines = [
        f"seed {verdict.seed}: {events} events, {effects} effects, {letters} dead letters",
        f"highest epoch {epoch}",
        f"{verdict.faults.total()} faults: {faults}",
        "",
        *_counted(verdict.counts),
        *(f"{seconds:8.1f}  s {what}" for what, seconds in verdict.seconds.items()),
        "",
    ]
    if verdict.stall is not None and verdict.stall.seconds > STALL_TOLD_S:
        lines += [f"why {verdict.stall.partition} stood still:", *verdict.stall.story, ""]
    if verdict.violations:
        told = report(verdict.violations).splitlines()
        lines += [f"{len(verdict.violations)} VIOLATIONS", *told[:LINES_MAX]]
        lines += ["…"] if len(told) > LINES_MAX else []
    lines += [f"PROBLEM {problem}" for problem in verdict.problems]
    lines += [f"SLOW {what}" for what in verdict.slow]
    if verdict.exit_code == 1:
        lines.append(f"again: bin/chaos --seed {verdict.seed} (histories in {verdict.folder})")
    elif verdict.slow:
        lines.append("SLOW, so inconclusive: nothing wrong, and not all of it was seen to its end")
    elif verdict.never:
        lines += ["INCONCLUSIVE, never happened:", *(f"  {what}" for what in verdict.never)]
    else:
        lines.append("GOOD: nothing lost, nothing twice, nothing out of order, nothing left behind")
    return "\n".join(lines)


def _counted(counts: dict[str, int]) -> list[str]:
    """A line for each count; those of a group ("group: what") are on one."""
    groups: dict[str, list[str]] = {}
    lines = []
    for what, count in counts.items():
        group, _, deed = what.partition(": ")
        if deed:
            groups.setdefault(group, []).append(f"{count} {deed}")
        else:
            lines.append(f"{count:8d}  {what}")
    return [*lines, *(f"{group:>8}  {', '.join(each)}" for group, each in groups.items())]


def print_figures(rows: list[Figure]) -> None:
    print(figures_text(rows))  # noqa: T201


def figures_text(rows: list[Figure]) -> str:
    """Return the table of docs/why/reliability.md."""
    lines = [
        "| fault | faults | partitions | p50 | max | target (p50) |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        met = "" if row.p50_s <= row.target_s else " **missed**"
        lines.append(
            f"| {row.title} | {row.faults} | {len(row.pauses_s)} | {_ms(row.p50_s)} |"
            f" {_ms(row.max_s)} | {_ms(row.target_s)}{met} |"
        )
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1.5 else f"{seconds:.2f} s"
