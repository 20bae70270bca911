"""Who is to blame when a worker has ended."""

from gapless.keys import Partition
from gapless.worker.post_mortem import Blame, Ended, post_mortem, words


def ended(number: int, *, unasked: bool = True) -> Ended:
    """The service of a partition, whose lease has the number 100 + its own."""
    partition = Partition(group_id="g", topic="t", topic_id=1, partition_id=number)
    return Ended(partition, 100 + number, 1, unasked=unasked)


def of(found: list[Blame], name: str) -> list[bool]:
    return [getattr(each, name) for each in found]


def test_the_partition_at_work_is_suspected_and_the_others_go_on_at_once() -> None:
    found = post_mortem([ended(0), ended(1), ended(2)], 101, is_steady=False)
    assert of(found, "is_suspect") == [False, True, False]
    assert of(found, "is_blamed") == [False, True, False]
    assert of(found, "is_steady") == [True, False, True]
    assert words("w", found, "signal SIGKILL") == "w ended: signal SIGKILL, at work on g/t/1"


def test_at_rest_nobody_is_suspected_and_the_end_is_everybodys() -> None:
    found = post_mortem([ended(0), ended(1)], 0, is_steady=False)
    assert of(found, "is_suspect") == [False, False]
    assert of(found, "is_blamed") == [True, True]
    assert of(found, "is_steady") == [False, False]
    assert words("w", found, "exit code 3") == "w ended: exit code 3"


def test_one_that_was_let_go_of_before_blames_nobody_who_is_left() -> None:
    """The board still names a lease that the worker serves no more."""
    found = post_mortem([ended(0)], 107, is_steady=False)
    assert of(found, "is_suspect") == [False]
    assert of(found, "is_blamed") == [True]


def test_a_worker_that_got_on_begins_anew_with_the_shortest_backoff() -> None:
    assert of(post_mortem([ended(0)], 100, is_steady=True), "is_steady") == [True]


def test_an_end_that_was_asked_for_is_no_news() -> None:
    assert words("w", post_mortem([ended(0, unasked=False)], 0, is_steady=True), "") is None
