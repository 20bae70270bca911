"""The checker knows the chain: a good history passes, each kind of a corrupted one is found by name.

The good history is a real one: that of chaos.chain_play.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg import Connection

from chaos.chain import BATCH_MAX, MARK, WAYS, derived, links, plan, root_of
from chaos.chain_corruptions import IN_TABLES
from chaos.chain_coverage import chains
from chaos.chain_play import ChainPlay
from chaos.checked import Run, played
from chaos.checker import check, report
from chaos.history import Linked, select

ORDERS = 160


@pytest.fixture(scope="module")
def run(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("history")

    def play(conn: Connection) -> None:
        with closing(ChainPlay(module_dsn, conn, folder)) as made:
            made.play(ORDERS)

    with played(module_dsn, folder, play) as run:
        yield run


@pytest.mark.long
def test_a_good_history_passes(run: Run) -> None:
    found = check(run.conn, run.folder)
    assert not found, report(found)
    counts = chains(run.conn, run.records)
    assert [what for what, count in counts.items() if not count] == []
    assert counts["pay: at most in a commit"] > 1
    assert counts["pack: at most in a commit"] == 1, "it publishes at COMMIT: a unit is one"


@pytest.mark.few(3)
@pytest.mark.parametrize("case", IN_TABLES)
def test_a_corrupted_history_is_found(run: Run, case: str) -> None:
    name, statements = IN_TABLES[case]
    assert run.found(name, *statements)[0].history, "it tells nothing"


def test_where_nothing_is_linked_nothing_is_asked(run: Run) -> None:
    """Then what is below the orders was published by nobody."""
    run.found_in("ghost", [each for each in run.records if not isinstance(each, Linked)])


def test_what_is_published_follows_from_the_seed_and_the_unit() -> None:
    first, second, last = links(5)
    plans = [plan(first, f"{number}/0") for number in range(400)]
    assert plans == [plan(first, f"{number}/0") for number in range(400)]
    assert plans != [plan(links(6)[0], f"{number}/0") for number in range(400)]
    assert {len(each.events) for each in plans} == set(range(5))
    assert {each.way for each in plans} == set(first.ways) <= set(WAYS)
    event = next(each.events[-1] for each in plans if each.events)
    assert derived((first, second, last), event.tag) == event
    assert derived((first, second, last), f"{event.tag}{MARK}undone") is None
    assert derived((first, second, last), root_of(event.tag)) is None
    assert derived((), event.tag) is None


def test_batch_sizes_are_drawn() -> None:
    sizes = [link.batch_size for seed in range(400) for link in links(seed)]
    assert min(sizes) == 1
    assert max(sizes) > BATCH_MAX * 0.9
    assert max(sizes) <= BATCH_MAX
    assert sorted(sizes)[len(sizes) // 2] < BATCH_MAX / 4, "small ones as likely as large"


def test_links_are_read_back_as_they_were_written(run: Run) -> None:
    assert [each.group for each in select(run.records, Linked)] == ["pay", "pack", "ship"]
    assert all(isinstance(each.ways, tuple) for each in select(run.records, Linked))
