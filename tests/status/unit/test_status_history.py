"""What successive snapshots say together: rates, their course, hand-overs; and small words."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gapless.status.fitted import cut, shorten, wrapped
from gapless.status.history import WINDOW_S, History
from gapless.status.snapshot import Eviction, Snapshot
from gapless.status.words import ASCII, UNICODE, age, clean, count, rate, sparkline
from support.look import MEMBERS, look, presence, standing

KEY = ("billing", "orders", 0)


def _history(*offsets: tuple[float, int]) -> History:
    history = History()
    for at_s, next_offset in offsets:
        history.add(look([standing(0, next_offset=next_offset)], at_s=at_s))
    return history


def _told(*snapshots: Snapshot) -> list[str]:
    history = History()
    for snapshot in snapshots:
        history.add(snapshot)
    return [happening.text for happening in history.happenings]


def test_one_look_is_no_rate() -> None:
    history = _history((0, 1))
    assert history.rate(KEY) is None
    assert history.published() is None
    assert history.handled() is None
    assert history.course(KEY) == []


def test_a_rate_is_offsets_over_the_databases_time() -> None:
    history = _history((0, 1), (1, 101), (2, 201))
    assert history.rate(KEY) == history.handled() == history.published() == 100.0
    assert history.course(KEY) == [100.0, 100.0]
    assert history.rate(("billing", "orders", 9)) is None


def test_a_rate_is_the_mean_of_a_few_seconds() -> None:
    history = _history(*((float(s), 1 + 10 * s) for s in range(20)), (20.0, 1 + 190 + 1000))
    assert history.rate(KEY) == pytest.approx((1000 + 40) / WINDOW_S)
    assert history.course(KEY)[-1] == 1000.0


def test_a_seek_backwards_is_no_rate() -> None:
    assert _history((0, 100), (1, 1)).rate(KEY) == 0.0


def test_a_long_job_of_a_queue_hides_no_rate() -> None:
    """It holds the floor: the others are finished above it, until it is done, too."""
    history = History()
    for second, (floor, ahead) in enumerate([(1, 0), (1, 10), (1, 20), (31, 0)]):
        row = standing(0, next_offset=floor, finished_ahead=ahead)
        history.add(look([row], at_s=second))
    assert history.course(KEY) == [10.0] * 3


def test_a_clock_that_went_back_begins_anew() -> None:
    history = _history((100, 1), (101, 2), (50, 3))
    assert history.rate(KEY) is None
    history.add(look([standing(0, next_offset=13)], at_s=51))
    assert history.rate(KEY) == 10.0


def test_the_lag_of_a_group_has_a_course_and_a_pace() -> None:
    history = History()
    for second in range(20):
        rows = [standing(n, lag=1000 - 20 * second) for n in range(2)]
        history.add(look(rows, at_s=second))
    group = ("billing", "orders")
    assert history.lags(group)[:2] == [2000, 1960]
    assert history.lag_per_s(group) == pytest.approx(-40.0)
    assert history.lag_per_s(("billing", "other")) is None
    assert history.lags(("billing", "other")) == [None] * 20
    assert _history((0, 1)).lag_per_s(group) is None, "one look is no pace"


def test_the_first_look_is_no_news() -> None:
    assert _told(look([standing(0, error="x", dead_letters=3)], members=[presence("host-a")])) == []


def test_a_hand_over_is_told_when_it_has_arrived() -> None:
    assert _told(
        look([standing(3, epoch=4)]),
        look([standing(3, target="host-b", epoch=4)], at_s=1),
        look([standing(3, None, target="host-b", epoch=4)], at_s=2),
        look([standing(3, "host-b", epoch=5)], at_s=3),
        look([standing(3, "host-b", epoch=5)], at_s=4),
    ) == ["billing/orders/3: host-a → host-b, epoch 5"]


def test_many_alike_are_one_line() -> None:
    before = look([standing(n) for n in range(12)])
    after = look([standing(n, "host-b" if n < 8 else "host-c", epoch=2) for n in range(12)], at_s=1)
    assert _told(before, after) == [
        "billing/orders: 8 partitions host-a → host-b",
        "billing/orders: 4 partitions host-a → host-c",
    ]


def test_a_new_worker_of_the_same_member() -> None:
    assert _told(look([standing(0)]), look([standing(0, epoch=2)], at_s=1)) == [
        "billing/orders/0: host-a has a new worker, epoch 2"
    ]


def test_an_evicted_owner_keeps_its_name() -> None:
    evicted = replace(standing(0, target="host-b"), owner=None, is_held=False)
    assert _told(
        look([standing(0)], members=[presence("host-a"), presence("host-b")]),
        look([evicted], at_s=1, members=[presence("host-b")]),
        look([standing(0, "host-b", epoch=2)], at_s=2, members=[presence("host-b")]),
    ) == ["host-a left", "billing/orders/0: host-a → host-b, epoch 2"]


def test_who_was_evicted_did_not_leave() -> None:
    gone = presence("host-a")
    eviction = Eviction(
        member_id=gone.member_id,
        name="host-a",
        reason="silent for 9 s",
        evicted_ts=look().server.taken_ts,
    )
    assert _told(
        look(members=[gone, presence("host-b")]),
        replace(look(members=[presence("host-b")], at_s=1), evictions=(eviction,)),
    ) == ["host-a is gone: silent for 9 s"]


def test_members_come_change_and_go() -> None:
    assert _told(
        look(members=[presence("host-a")]),
        look(members=[presence("host-a"), presence("host-b")], at_s=1),
        look(members=[presence("host-a", state="draining"), presence("host-b")], at_s=2),
        look(members=[presence("host-b", is_present=False)], at_s=3),
    ) == ["host-b joined", "host-a is draining", "host-b is gone", "host-a left"]


def test_errors_dead_letters_and_the_sequencer() -> None:
    assert _told(
        look([standing(0)]),
        look([standing(0, error="stopped: a hole", dead_letters=1)], at_s=1, sequencer_pid=None),
        look([standing(0, error="stopped: a hole", dead_letters=1)], at_s=2, sequencer_pid=5),
        look([standing(0, dead_letters=3)], at_s=3, sequencer_pid=6),
    ) == [
        "sequencer: no session has the role",
        "billing/orders/0: stopped: a hole",
        "billing/orders/0: 1 dead letter",
        "sequencer: session 5 has the role",
        "sequencer: session 6 took over",
        "billing/orders/0 continues",
        "billing/orders/0: 2 dead letters",
    ]


def test_state_of_a_partition() -> None:
    assert standing(0).state == "working"
    assert standing(0, target="host-b").state == "moving"
    assert standing(0, None, target="host-b").state == "starting"
    assert standing(0, None, target=None).state == "unserved"
    assert standing(0, is_held=False).state == "lost"
    assert MEMBERS["host-a"] == standing(0).owner_id


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"), (9999, "9,999"), (9999.6, "10.0k"), (10000, "10.0k"), (99_949, "99.9k"),
        (99_951, "100k"), (999_499, "999k"), (999_500, "1.00M"), (1_234_567, "1.23M"),
        (123_456_789, "123M"), (9_876_543_210, "9.88G"), (5e15, "5000T"),
    ],
)  # fmt: skip
def test_counts(number: float, said: str) -> None:
    assert count(number) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "?"), (0, "0s"), (0.35, "350ms"), (0.9996, "1.0s"), (2.14, "2.1s"), (9.96, "10s"),
        (99.4, "99s"), (99.6, "2m"), (3600, "60m"), (7200, "2.0h"), (86400 * 3, "3.0d"),
        (86400 * 400, "400d"),
    ],
)  # fmt: skip
def test_ages(seconds: float | None, said: str) -> None:
    assert age(seconds) == said


@given(st.floats(0, 1e14))
def test_figures_stay_narrow(number: float) -> None:
    assert len(count(number)) <= 5
    assert len(rate(number, UNICODE)) <= 5


@given(st.floats(0, 86400 * 9999))
def test_ages_stay_narrow(seconds: float) -> None:
    assert len(age(seconds)) <= 5


@given(st.text(max_size=40), st.integers(1, 30))
def test_names_are_cut_to_fit(text: str, width: int) -> None:
    text = clean(text)
    for glyphs in (UNICODE, ASCII):
        assert cell_len(shorten(text, width, glyphs)) <= max(width, 2)
        assert cell_len(cut(text, width, glyphs)) <= max(width, 2)
    if cell_len(text) <= width:
        assert shorten(text, width) == cut(text, width) == text


@given(st.text(), st.booleans())
def test_clean_text_is_one_harmless_line(text: str, is_ascii: bool) -> None:
    cleaned = clean(text, ASCII if is_ascii else UNICODE)
    assert cleaned.splitlines() in ([], [cleaned])
    assert "\x1b" not in cleaned
    cleaned.encode("ascii" if is_ascii else "utf-8")


def test_sparklines() -> None:
    assert sparkline([None, 0, 1, 50, 100], 6, UNICODE) == "  ▁▂▅█"
    assert sparkline([0.0, 0.0], 2, UNICODE) == "▁▁"
    assert sparkline([1.0] * 99, 3, ASCII) == "###"
    assert sparkline([], 4, UNICODE) == "    "
    assert sparkline([1.0], 0, UNICODE) == ""


@given(st.text(max_size=200), st.integers(2, 40))
def test_wrapped_text_fits_and_loses_nothing(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines) == clean("".join(text.split("\n")).replace("\t", "    "))
