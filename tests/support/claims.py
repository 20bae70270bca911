"""Claims of twins: an owner's fence, the calls that claim, and events that a filter keeps."""

from typing import Any

import pytest

from support.twins import Twins

TOKEN = "00000000-0000-4000-8000-000000000001"


OTHER = "00000000-0000-4000-8000-000000000002"


CLAIM = (
    "select * from gapless.claim_at('billing', %(topic_id)s, %(partition)s, %(epoch)s, %(token)s, %(size)s,"
    " %(ahead)s, %(place)s::tid, 'transaction', %(filter)s)"
)


PLACES = "select group_id, topic_id, partition_id, next_offset, layout, passed from gapless.consumer_offsets order by 1, 2, 3"


# The group's offset, the number wanted, the read-ahead; the last offset claimed, and the segments returned.
CLAIMS = [
    (1, 1, 0, 2, [1]), (1, 2, 0, 2, [1]), (1, 3, 0, 3, [1]), (1, 4, 0, 6, [1, 4]), (2, 1, 0, 2, [1]),
    (3, 1, 0, 3, [1]), (3, 2, 0, 6, [1, 4]), (4, 1, 0, 6, [4]), (5, 1, 0, 6, [4]), (6, 1, 0, 6, [4]),
    (5, 3, 0, 7, [4, 7]), (7, 1, 0, 7, [7]), (8, 1, 0, 8, [7]), (1, 100, 0, 8, [1, 4, 7]), (8, 100, 0, 8, [7]),
    (1, 1, 3, 2, [1]), (1, 1, 4, 2, [1, 4]), (1, 1, 6, 2, [1, 4]), (1, 1, 7, 2, [1, 4, 7]), (3, 1, 2, 3, [1, 4]),
]  # fmt: skip


@pytest.fixture
def owned(twins: Twins) -> Twins:
    """Give every partition of a group an owner; those of this group have tokens of their own."""
    twins.conn.execute(
        "update gapless.consumer_offsets set epoch = 5, token = case when group_id = 'billing' and topic_id = %s"
        " and partition_id = 1 then %s else %s end::uuid",
        [twins.topic_ids["orders"], TOKEN, OTHER],
    )
    return twins


def claim(twins: Twins, **more: Any) -> list[Any]:
    params = {
        "topic_id": twins.topic_ids["orders"], "partition": 1, "epoch": 5, "token": TOKEN, "size": 100, "ahead": 0,
        "place": None, "filter": 0,
    }  # fmt: skip
    return twins.conn.execute(CLAIM, params | more).fetchall()


def moved(twins: Twins, before: list[Any]) -> list[Any]:
    """Return the places of groups that changed, with their present layouts."""
    after = twins.conn.execute(PLACES).fetchall()
    return [row for row in after if row not in before]


def here(twins: Twins, *values: int) -> list[Any]:
    return [("billing", twins.topic_ids["orders"], 1, *values)]


def ctid(twins: Twins, where: str) -> str:
    return str(twins.value(f"select ctid::text from gapless.consumer_offsets where {where}"))
