"""Events that match a filter, among twins."""

import json

from support.twins import Twins

# From offset 1 on: type, payload, the group that it is for.
EVENTS: list[tuple[str | None, str, str | None]] = [
    ("a", '{"n": 1}', None),
    ("b", '{"n": 2}', "billing"),
    ("order.paid", '{"n": 3}', "mail"),
    ("a", '"\\u0000"', None),
    ("orderXpaid", '{"n": 5}', None),
    (None, '{"n": 6}', None),
    ("b", '{"n": 1e999999}', None),
    ("a", "{}", None),
]


ODD = "the filter could not be asked: "


NUL = f"{ODD}unsupported Unicode escape sequence"


def write(twins: Twins) -> None:
    """Give the events of every partition these types, payloads and groups."""
    for c_offset, (event_type, payload, group) in enumerate(EVENTS, 1):
        headers = json.dumps({"gapless-to-group": group} if group else {"other": "billing"})
        twins.conn.execute(
            "update gapless.outbox_message_t o set event_type = %s, payload = %s, headers = %s"
            " from gapless.log_segment s where o.id = s.message_ids[%s - s.base_offset + 1]",
            [event_type, payload, headers, c_offset],
        )


def ids(twins: Twins, offsets: list[int]) -> list[int]:
    return [
        twins.value("select message_id from gapless.read('orders', 1, %s, %s)", each, each)
        for each in offsets
    ]


ROWS = (
    "select id, key, event_type, payload, headers, host_id, user_id, transaction_id, xid, created_ts, cause,"
    " correlation from gapless.outbox_message_t where id = any (%s) order by id"
)
