"""`bin/chaos`: run faults against real processes, or take the figures of docs/why/reliability.md."""

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from chaos.arena import FAULTS
from chaos.figures import KINDS, figures
from chaos.report import print_figures, print_verdict
from chaos.run import run
from chaos.soak import as_json, write_table

MORE_S = 120.0  # at most, for a run that has not yet met all it is about
EXPLAIN = """\
--oldest, before anything else: on the oldest PostgreSQL that is supported
--server VERSION, before anything else: on that major version, 14 to 18

exit code: 0 nothing lost, doubled or out of order, and every fault met what it was for
           1 a violation (its shortest history is printed, the run's folder kept)
           2 usage
           3 inconclusive: something the run is about never happened
           4 slow, so inconclusive, too: the machine was too busy for what is left to come to its end
"""


def main() -> int:
    args = parse()
    if args.table:
        write_table([Path(each) for each in args.table])
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what runs is ended
    folder = Path(args.folder or tempfile.mkdtemp(prefix="gapless-chaos-"))
    keep = bool(args.folder)
    try:
        if args.figures:
            print_figures(figures(folder, args.faults, args.only or list(KINDS), say))
            return 0
        verdict = run(
            folder,
            seed=args.seed,
            seconds=args.minutes * 60,
            say=say,
            kinds=args.only or None,
            more_s=MORE_S,
            with_queues=args.queues,
            soak=args.soak,
        )
        print_verdict(verdict)
        if args.json:
            Path(args.json).write_text(as_json(verdict))
        keep = keep or verdict.exit_code == 1
        return verdict.exit_code
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/chaos",
        description="Do harm to supervisors, producers, network and server, and check what came of it.",
        epilog=EXPLAIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=1.5, metavar="M", help="of faults (1.5)")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), metavar="S")
    parser.add_argument(
        "--figures", action="store_true", help="measure how long partitions stand still"
    )
    parser.add_argument("--faults", type=int, default=20, metavar="N", help="of each figure (20)")
    parser.add_argument(
        "--no-queues", dest="queues", action="store_false", help="no queue groups, no SQL clients"
    )
    parser.add_argument(
        "--soak",
        action="store_true",
        help="no faults: everything at once, and what grows is a problem",
    )
    parser.add_argument("--only", action="append", metavar="KIND", help="this fault; repeatable")
    parser.add_argument("--json", metavar="FILE", help="write a report that --table takes")
    parser.add_argument(
        "--table",
        nargs="+",
        metavar="FILE",
        help="write reports into docs/why/reliability.md; no run",
    )
    parser.add_argument("--folder", help="where histories and logs go, and stay")
    args = parser.parse_args()
    known = set(KINDS if args.figures else FAULTS)
    unknown = sorted(set(args.only or ()) - known)
    if unknown:
        parser.error(f"no such fault: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if args.minutes <= 0 or args.faults < 1:
        parser.error("--minutes and --faults must be above 0")
    return args


def say(text: str) -> None:
    print(f"chaos: {text}", file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
