"""Events and conditions of many subscriptions."""

import json
from typing import Any

from support.twins import Twins

BILLING = {"gapless-to-group": "billing"}


TO_ANN = {"gapless-to-subscription": "ann"}


# From offset 1 on: type, payload, headers. The values of 5 and 6 have one hash.
EVENTS: list[tuple[str, Any, dict[str, str]]] = [
    ("a", {"c": 1, "n": 1}, {}),
    ("b", {"c": 1, "n": 2}, BILLING),
    ("a", {"c": 2, "n": 3}, {"gapless-to-group": "mail"}),
    ("a", "\0", {}),
    ("a", {"c": [[1, 2]], "n": 5, "flag": True}, {}),
    ("a", {"c": [[1], 2], "n": 6}, {}),
    ("a", {"c": 1, "n": 7}, BILLING | TO_ANN),
    ("a", {"c": 1, "n": 8}, TO_ANN),
]


C = {"c": "$.c"}


LARGE = "(e.payload ->> 'n')::int > (s.params ->> 'min')::int"


def write(twins: Twins) -> list[int]:
    """Give the events what is told of above, in every partition; return the ids of one partition of orders."""
    for c_offset, (event_type, payload, headers) in enumerate(EVENTS, 1):
        twins.conn.execute(
            "update gapless.outbox_message_t o set event_type = %s, payload = %s, headers = %s, host_id = 'h',"
            " user_id = 'u' from gapless.log_segment s where o.id = s.message_ids[%s - s.base_offset + 1]",
            [event_type, json.dumps(payload), json.dumps(headers), c_offset],
        )
    ids: list[int] = twins.value(
        "select array_agg(message_id order by c_offset) from gapless.read('orders', 1, 1, 8)"
    )
    return ids


# What a condition does when it is asked about subscriptions of these names.
HOSTILE = (
    "create or replace function gapless.condition_{digest}(e gapless.condition_event,"
    " s gapless.condition_subscription) returns boolean language plpgsql stable as $f$ begin"
    " if s.name = 'slow' and e.c_offset > 1 then"
    " perform pg_sleep(0.001); raise sqlstate '{state}' using message = 'over';"
    " elsif s.name = 'bad' then raise sqlstate '22012' using message = 'bad'; end if;"
    " return true; end $f$"
)
