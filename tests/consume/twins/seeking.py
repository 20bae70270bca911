"""Groups of twins with units that were set aside, at places that a seek reaches."""

import pytest

from support.twins import Twins

SET_ASIDE = (
    "select gapless.set_aside(c.group_id, c.topic_id, c.partition_id, %(first)s, array("
    "select s.message_ids[n - s.base_offset + 1] from generate_series(%(first)s::int, %(last)s) n"
    " join gapless.log_segment s on s.topic_id = c.topic_id and s.partition_id = c.partition_id"
    " and n between s.base_offset and s.last_offset order by n), 'dead', 'why', 'trace')"
    " from gapless.consumer_offsets c where {where}"
)


def set_aside(twins: Twins, first: int, last: int, where: str) -> None:
    statement = SET_ASIDE.format(where=where)
    twins.conn.execute(statement, {"first": first, "last": last})  # type: ignore[arg-type]


@pytest.fixture
def placed(twins: Twins) -> Twins:
    """Everybody is at 7 and owned; in every partition there are letters at 3 and 4, of which the second has three events."""
    twins.seek(7)
    twins.conn.execute(
        "update gapless.consumer_offsets set token = gen_random_uuid(), installed_offset = 7,"
        " layout = 1, passed = 1 where group_id in ('billing', 'mail')"
    )
    set_aside(twins, 3, 3, "true")
    set_aside(twins, 4, 6, "true")
    twins.conn.execute("delete from gapless.audit")
    return twins
