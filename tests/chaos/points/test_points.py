"""Every failpoint, crossed with every way to be hit there; the checker judges each run.

kill: SIGKILL. terminate: the session is ended. stall: the whole instance stops until others have
taken over. lose: the next statement (often COMMIT) is done, and its answer never comes.

All scenarios run side by side in the fixture, on a few databases, for most of their time is waiting;
each test looks at the result of one.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from chaos.points.scenarios import ELSEWHERE, PROVOKED_BY, play
from chaos.points.theatre import Theatre
from chaos.points.traps import ACTIONS, Action
from gapless import failpoints

STAGES = 3
IN_SHORT = "kill"
SHARE = 6  # of the kills are in the default run: one of so many; all others with --long
SOURCES = Path(failpoints.__file__).parent
Scenario = tuple[str, Action]


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest,
    server_dsn: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[Scenario, str | None]:
    """What is wrong with each scenario that a test was chosen for; None: nothing."""
    wanted: SimpleQueue[Scenario] = SimpleQueue()
    for item in request.session.items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        is_skipped = item.get_closest_marker("skip") is not None
        if item.path == request.path and "point" in params and not is_skipped:
            wanted.put((params["point"], params["action"]))
    folder = tmp_path_factory.mktemp("points")
    numbers = count()
    found: dict[Scenario, str | None] = {}

    def run() -> None:
        while scenarios := _take_some(wanted):
            with Theatre(server_dsn, template, folder / str(next(numbers))) as theatre:
                for each in _play_some(theatre, scenarios, found):
                    wanted.put(each)

    with ThreadPoolExecutor(STAGES) as pool:
        for stage in [pool.submit(run) for _ in range(STAGES)]:
            stage.result()
    return found


def _play_some(
    theatre: Theatre, scenarios: list[Scenario], found: dict[Scenario, str | None]
) -> list[Scenario]:
    """Play until one goes wrong: what comes after it would be blamed for it. Return the rest."""
    for number, (point, action) in enumerate(scenarios, 1):
        found[point, action] = play(theatre, point, action)
        if found[point, action] is not None:
            return scenarios[number:]
    return []


def _take_some(wanted: SimpleQueue[Scenario], most: int = 16) -> list[Scenario]:
    """Take scenarios for one theatre; the longer its history, the longer it takes to check."""
    taken: list[Scenario] = []
    try:
        while len(taken) < most:
            taken.append(wanted.get_nowait())
    except Empty:
        pass
    return taken


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "action"),
    [
        pytest.param(
            point, action, marks=() if action == IN_SHORT and not n % SHARE else pytest.mark.long
        )
        for n, point in enumerate(PROVOKED_BY)
        for action in ACTIONS
    ],
)
def test_a_crash_point(results: dict[Scenario, str | None], point: str, action: Action) -> None:
    assert (point, action) in results, "it was never played"
    wrong = results[point, action]
    assert wrong is None, f"{action} at {point}:\n{wrong}"


def test_every_failpoint_is_enumerated() -> None:
    """A new failpoint needs a line in scenarios.py that says what makes a process pass it."""
    hit = set(_failpoints_in_the_code())
    assert hit == failpoints.POINTS, f"code and failpoints.POINTS: {hit ^ failpoints.POINTS}"
    elsewhere = {point for point in hit if point.partition(".")[0] in ELSEWHERE}
    here = set(PROVOKED_BY)
    assert here == hit - elsewhere, f"code and scenarios.py: {here ^ (hit - elsewhere)}"


@pytest.mark.parametrize("family", ELSEWHERE)
def test_other_failpoints_are_tried_where_they_belong(family: str) -> None:
    text = (Path(__file__).parents[2] / ELSEWHERE[family]).read_text()
    assert re.search(rf'"{family}\.[a-z]+"', text)
    assert "kill" in text


def _failpoints_in_the_code() -> Iterator[str]:
    for path in SOURCES.rglob("*.py"):
        yield from re.findall(r'^\s*hit\("([a-z_.]+)"\)', path.read_text(), re.MULTILINE)
