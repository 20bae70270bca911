"""client_lease() when somebody had the fence: what was so before the wait is not what is so now."""

import time

import psycopg
import pytest

from gapless.db.connect import connect
from support.staff import NOBODY, Staff, put_back

LEASE = "select token::text from gapless.client_lease('{me}', 'billing', {topic}, 1)"
# What somebody did meanwhile, who had the fence; whether it is its lease still.
MEANWHILE = {
    "nothing": ("select 1", True),
    "let it go": ("update gapless.lease set owner = null, token = null where {here}", False),
    "gave it to another": (f"update gapless.lease set owner = '{NOBODY}' where {{here}}", False),
    "gave it anew": ("update gapless.lease set token = gen_random_uuid() where {here}", False),
    "retired it": ("delete from gapless.lease where {here}", False),
    "another's went": ("update gapless.lease set owner = null, token = null where not ({here})", True),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANWHILE)
def test_a_lease_that_was_waited_for(employed: Staff, module_dsn: str, name: str) -> None:
    """Leases of other places are no answer, though they are called the same."""
    change, is_his = MEANWHILE[name]
    here, token = employed.here(), employed.fences[1]
    ask = LEASE.format(me=employed.me, topic=employed.topic)
    with put_back(module_dsn, "lease") as one, connect(module_dsn, role="test") as client:
        one.execute(
            f"update gapless.lease set owner = %s, token = %s where not ({here})".encode(),
            [employed.me, token],
        )
        with one.transaction():
            one.execute(f"select from gapless.consumer_offsets where {here} for update".encode())
            one.execute(change.format(here=here).encode())
            client.pgconn.send_query(ask.encode())
            assert waits(one, client.pgconn.backend_pid)
        result = client.pgconn.get_result()
        assert result is not None
        assert client.pgconn.get_result() is None
    if is_his:
        assert result.get_value(0, 0) == token.encode()
    else:
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"GL007"


def waits(conn: psycopg.Connection, pid: int) -> bool:
    """Come back when that session waits for a lock."""
    give_up = time.monotonic() + 20
    ask = "select 1 from pg_locks where pid = %s and not granted"
    while not (found := conn.execute(ask, [pid]).fetchall()) and time.monotonic() < give_up:
        pass
    return bool(found)
