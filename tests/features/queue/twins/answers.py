"""Answers for receipts of twins."""

from support.twin_queues import (
    DONE,
    DUE,
    HELD,
)

TOKEN, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


BACK = DUE


# What is called with a receipt and an offset; how a range is then: state, tries, holder.
CALLS: dict[str, tuple[str, tuple[str, int, str | None]]] = {
    "acknowledge": ("acknowledge_receipt({})", (DONE, 3, "session")),
    "begin": ("begin_receipt({})", (DONE, 3, None)),
    "release": ("release_receipt({})", (BACK, 2, "who")),
    "extend": ("extend_receipt({0}, '2 h', {1})", (HELD, 3, "who")),
    "fail": (
        "fail_receipt({}, 'waiting', 'bad', 'trace', 'ValueError', '22000', '1 h', 'me', 12.5)", (DONE, 3, "who"),
    ),
    "fail for good": (
        "fail_receipt({}, 'dead', 'bad', 'trace', _worker => 'me', _counted => false)", (DONE, 3, "who"),
    ),
}  # fmt: skip
