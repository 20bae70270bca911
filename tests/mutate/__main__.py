"""`bin/mutate`: put small faults into a copy of the checkout, one at a time; the tests should fail."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from mutate.arena import Arena, Memory, Result, arena
from mutate.judge import judge
from mutate.mutant import ROOT, Mutant
from mutate.session import PLACES, Line, Results, accepted, all_mutants, chosen, classics, figure
from mutate.table import tests_for

LIMIT_S = 1800.0
AGAIN = {
    "resume": {None, "undecided"},
    "survivors": {"survived"},
    "confirm": {"killed", "hung"},
}
Try = Callable[[Arena, Mutant], Result]
EXPLAIN = f"""\
Without PATH: {", ".join(PLACES)}.
Without a sample the catalogue of tests/chaos/mutants comes first, as far as it is SQL.
Results are lines of JSON in --results (mutants.jsonl). Of the mutants that are chosen --resume tries
those that are not in it yet, --survivors those that survived when it was written, and --confirm those
that were killed, with the test that failed alone: on a busy machine tests fail without a mutant, too.

exit code: 0 every mutant was killed, or is accepted (tests/mutate/accepted.toml)
           1 others survived: they are printed
           2 usage, or the tests fail without any mutant
"""


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what runs is ended
    if args.against:
        return against(args)
    results = Results.load(args.results)
    tried = [again for again in AGAIN if getattr(args, again)]
    mutants = chosen(all_mutants(args.only), args.sample, args.seed)
    if args.sample is None:
        mutants = [*classics(args.only), *mutants]
    for again in tried:
        mutants = [m for m in mutants if _outcome(results, m) in AGAIN[again]]
    if args.list:
        for mutant in mutants:
            print(mutant.diff())  # noqa: T201
        return 0
    with ExitStack() as stack:
        arenas = [stack.enter_context(arena()) for _ in range(args.jobs)]
        refuses = stack.enter_context(judge())
        run = Run(results, args.limit)
        say(f"{len(mutants)} mutants")
        if args.confirm:
            run.confirm(arenas, mutants)
            return verdict(results)
        if args.baseline and not run.baseline(arenas[0], mutants):
            return 2
        run.all(arenas, (m for m in mutants if refuses.takes(m) or run.refused(m)))
    return verdict(results)


def _outcome(results: Results, mutant: Mutant) -> str | None:
    line = results.lines.get(mutant.name)
    return line.outcome if line else None


class Run:
    """Tries mutants, in several arenas at once."""

    def __init__(
        self,
        results: Results,
        limit_s: float,
        tests_for: Callable[[str], list[str]] = tests_for,
    ) -> None:
        self._tests_for = tests_for
        self._results = results
        self._limit_s = limit_s
        self._memory = Memory()
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        for line in results.lines.values():
            if line.by:
                self._memory.learn(line.path, line.by)

    def baseline(self, where: Arena, mutants: list[Mutant]) -> bool:
        """Run all tests that will be asked, without a mutant; tell whether they pass."""
        tests = sorted({test for mutant in mutants for test in self._tests_for(mutant.path)})
        say(f"first {len(tests)} files and folders of tests without a mutant")
        result = where.run(tests, self._memory, 10 * self._limit_s) if tests else None
        if result and result.outcome != "survived":
            say(f"without a mutant, this test fails: {result.by}\n{where.output()}")
            return False
        return True

    def all(self, arenas: list[Arena], mutants: Iterator[Mutant]) -> None:
        """Try each; the first error ends it."""

        def try_(where: Arena, mutant: Mutant) -> Result:
            return where.try_(mutant, self._tests_for(mutant.path), self._memory, self._limit_s)

        self._share(arenas, mutants, try_)

    def confirm(self, arenas: list[Arena], mutants: list[Mutant]) -> None:
        """Let the test that failed fail again; when it does not, nothing is known."""
        killers = {mutant.name: self._results.lines[mutant.name].by for mutant in mutants}

        def try_(where: Arena, mutant: Mutant) -> Result:
            killer = killers[mutant.name]
            if "::" not in killer:
                return Result("killed", killer)
            again = where.try_(mutant, [killer], self._memory, self._limit_s)
            return Result("undecided") if again.outcome == "survived" else again

        self._share(arenas, iter(mutants), try_)

    def _share(self, arenas: list[Arena], mutants: Iterator[Mutant], try_: Try) -> None:
        threads = [
            threading.Thread(target=self._some, args=(each, mutants, try_), daemon=True)
            for each in arenas
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def refused(self, mutant: Mutant) -> bool:
        """Note that the server refuses it; it is not to be tried."""
        self._note(mutant, Result("invalid"))
        return False

    def _some(self, where: Arena, mutants: Iterator[Mutant], try_: Try) -> None:
        while not self._errors:
            try:
                with self._lock:
                    mutant = next(mutants, None)
                if mutant is None:
                    return
                result = try_(where, mutant)
                with self._lock:
                    self._note(mutant, result)
            except BaseException as error:  # noqa: BLE001 - raised again by all()
                self._errors.append(error)

    def _note(self, mutant: Mutant, result: Result) -> None:
        if result.by:
            self._memory.learn(mutant.path, result.by)
        self._results.add(Line.of(mutant, result.outcome, result.by, result.seconds))
        say(
            f"{len(self._results.lines)} {result.outcome} in {result.seconds:.0f} s: {mutant.path}"
            f":{mutant.line} {mutant.within} ({mutant.how}) {result.by}"
        )


def against(args: argparse.Namespace) -> int:
    """Try them against some files of tests alone, in one pytest."""
    wanted = {
        "only": args.only,
        "sample": args.sample,
        "seed": args.seed,
        "results": str(args.results.resolve()),
    }
    places = os.pathsep.join((str(ROOT / "supervisor"), str(ROOT / "tests")))
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "mutate.against", "-p", "no:cacheprovider",
            # Each call of a test, not the protocol around it, which is passed by: a mutant may loop.
            "--long", "--timeout=60", "-o", "timeout_func_only=true", *args.against,
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": places, "MUTATE_AGAINST": json.dumps(wanted)},
        check=False,
    )  # fmt: skip
    return verdict(Results.load(args.results)) if done.returncode == 0 else 2


def verdict(results: Results) -> int:
    """Print who survived, and the figure."""
    known = accepted()
    left = 0
    for line in results.lines.values():
        if line.outcome == "survived" and not any(each.covers(line) for each in known):
            left += 1
            print(f"\n{line.name} survived in {line.within or line.path}\n{line.diff}")  # noqa: T201
    print(f"\n{figure(results.lines.values())}")  # noqa: T201
    return int(left > 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/mutate",
        description="Put small faults into a copy of the checkout, one at a time, and see whether"
        " the tests fail.",
        epilog=EXPLAIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", default=[], metavar="PATH", help="repeatable")
    parser.add_argument("--sample", type=int, metavar="N", help="so many, drawn by the seed")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="(1)")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), metavar="N")
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, metavar="SECONDS",
        help=f"for all tests of a mutant; more leaves it undecided ({LIMIT_S:.0f})",
    )  # fmt: skip
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"), metavar="FILE",
        help="from the checkout (mutants.jsonl)",
    )  # fmt: skip
    parser.add_argument(
        "--against", action="append", default=[], metavar="TESTS",
        help="these files of tests alone, in one process (repeatable)",
    )  # fmt: skip
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="try what is not in the results yet")
    again.add_argument("--survivors", action="store_true", help="try again what survived")
    again.add_argument("--confirm", action="store_true", help="see what killed them fail again")
    parser.add_argument("--list", action="store_true", help="show the mutants, try none")
    parser.add_argument(
        "--no-baseline", dest="baseline", action="store_false",
        help="do not first see the tests pass without a mutant",
    )  # fmt: skip
    args = parser.parse_args()
    for path in (*args.only, *args.against):
        if not (ROOT / path).exists():
            parser.error(f"{path}: there is no such file or folder in the checkout")
    again_said = any(getattr(args, name) for name in AGAIN)
    if args.results.exists() and not (again_said or args.list):
        parser.error(f"{args.results} is there: --resume goes on with it; or remove it")
    return args


def say(text: str) -> None:
    print(f"mutate: {text}", file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
