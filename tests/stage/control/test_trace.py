"""trace(): the tree a transaction stands in, whatever a producer wrote; wait_for(through=...)."""

from __future__ import annotations

import psycopg
from gapless.testing import install


def test_x(dsn, conn):
    import gapless
    install(dsn, topics={"orders": 2, "payments": 2, "parcels": 1})

    def relay(topic, group, to, bad=()):
        @gapless.handler(topic=topic, group=group)
        def h(unit, conn):
            for e in unit:
                if e.payload["n"] in bad:
                    raise ValueError("bad")
                if to:
                    gapless.publish(conn, to, e.payload, key=e.key)
        return h
    ids = [gapless.publish(conn, "orders", [gapless.NewEvent(payload={"n": n}, key=f"k{m}", event_type="t") for m in range(3)]) for n in range(4)]
    print(gapless.testing.drain(dsn, relay("orders", "bill", "payments", {3})))
    print(gapless.testing.drain(dsn, relay("payments", "ship", "parcels", {1})))
    print(gapless.testing.drain(dsn, relay("parcels", "track", None)))
    import subprocess, sys, os
    for i in ids + [None]:
        if i is None:
            i = conn.execute("select published_as from gapless.trace(%s) where level = 2", [ids[0]]).fetchone()[0]
        for extra in [[], ["--limit", "3"]]:
            r = subprocess.run([sys.executable, "-m", "gapless", "trace", str(i), *extra], env={**os.environ, "GAPLESS_DSN": dsn}, capture_output=True, text=True)
            print(r.stdout, r.stderr)
    for i in ids:
        try:
            print(gapless.wait_for(conn, "track", i, 1, through=["bill", "ship"]))
        except gapless.WaitError as e:
            print(e)
    assert 0
