"""Which topic comes next: shares as the weights say, nobody starves, nothing is saved up."""

from collections import Counter
from itertools import pairwise

from gapless.features.queue.shares import Shares


def serve(shares: Shares, turns: int, *, without: str = "", events: int = 1) -> list[str]:
    """Serve the first topic that has something, again and again."""
    served = []
    for _ in range(turns):
        name = next(each for each in shares.order() if each != without)
        shares.served(name, events)
        served.append(name)
    return served


def test_shares_are_as_the_weights_and_the_least_waits_for_eight_at_most() -> None:
    served = serve(Shares(["urgent", "mails"], [8, 1]), 900)
    assert Counter(served) == {"urgent": 800, "mails": 100}
    at = [n for n, name in enumerate(served) if name == "mails"]
    assert max(later - before for before, later in pairwise(at)) == 9


def test_batches_count_by_their_events() -> None:
    shares = Shares(["a", "b"], [1, 1])
    shares.served("a", 100)
    assert serve(shares, 100) == ["b"] * 100


def test_what_had_nothing_has_saved_up_nothing() -> None:
    shares = Shares(["urgent", "mails"], [8, 1])
    assert set(serve(shares, 10_000, without="urgent")) == {"mails"}
    served = serve(shares, 90)
    assert Counter(served)["mails"] >= 9


def test_without_weights_the_first_comes_first() -> None:
    assert set(serve(Shares(["urgent", "mails"]), 100)) == {"urgent"}
