"""Poison storms through a real supervisor: they pass soon, and no commit fills shared memory (I8)."""

from typing import Any

import pytest

from gapless.worker.failure_backoff import GRACE_S
from support.fleet import Fleet
from support.ledger import assert_exactly_once
from support.long import long_but
from support.patience import patience

UNITS = 1000
PROMISED_S = 30
POLICIES: dict[str, dict[str, Any]] = {
    "dead-letter": {},
    "retry": {"on_failure": "retry", "retry_delays_s": [1]},
    "park-key": {"on_failure": "park-key", "retry_delays_s": [1]},
    "at-least-once": {"delivery": "at-least-once", "concurrency": 8},
}
# Each a transaction of its own.
PUBLISH = """
do $$ begin
  for n in 1 .. 1000 loop
    perform gapless.publish('t', '{"raise": "no"}', 'k' || n);
    commit;
  end loop;
end $$
"""
# Units that one claim takes, since they commit together; what is rolled back to its savepoint leaves
# nothing to count, so most of them are good.
TOGETHER = """
insert into gapless.outbox_message_t (topic_id, transaction_id, payload)
select t.topic_id, gen_random_uuid(), case when n % 100 = 1 then '{"raise": "no"}' else '{}' end::json
from gapless.topic t, generate_series(1, 1000) n where t.name = 't'
"""
MOST_SUBTRANSACTIONS = """
select max(n) from (
  select count(distinct l.xmin::text) as n from ledger l
  where l.xmin::text <> (l.xid::text::bigint %% (1::bigint << 32))::text
  group by l.xid::text
) per_commit
"""


@pytest.mark.long
@pytest.mark.parametrize("name", POLICIES)
def test_a_thousand_failing_transactions_in_a_row(fleet: Fleet, name: str) -> None:
    """Each of a key of its own, in the only partition; a good one comes behind them.

    Each is set aside, tried again as the policy says, and dead.
    """
    trusting: dict[str, object] = {"gapless.worker.failure_backoff.GRACE_S": patience(GRACE_S)}
    a = fleet.start("a", patch=trusting, total_partitions=1, **POLICIES[name])
    fleet.until_owners(a=1)
    fleet.publish({}, partitions=1)
    fleet.until_handled()
    began = fleet.now()
    fleet.conn.execute(PUBLISH)
    fleet.publish({}, partitions=1)
    fleet.until_settled(10 * PROMISED_S)
    assert fleet.now() - began < patience(PROMISED_S)
    assert list(fleet.states().values()) == ["dead"] * UNITS
    assert not a.logged("slowed down")
    if name != "at-least-once":
        assert_exactly_once(fleet.conn, dead_offsets={(0, n + 2) for n in range(UNITS)})


@pytest.mark.parametrize("name", long_but(["dead-letter", "retry", "park-key"], "dead-letter"))
def test_no_commit_holds_more_subtransactions_than_shared_memory_does(
    fleet: Fleet, name: str
) -> None:
    fleet.start("a", total_partitions=1, batch_size=UNITS, **POLICIES[name])
    fleet.until_owners(a=1)
    fleet.conn.execute(TOGETHER)
    fleet.until_settled(10 * PROMISED_S)
    assert list(fleet.states().values()) == ["dead"] * (UNITS // 100)
    most = fleet.value(MOST_SUBTRANSACTIONS) or 0
    assert 48 <= most <= 64
