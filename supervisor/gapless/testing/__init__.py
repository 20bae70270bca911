"""For tests of handlers: run handlers through the real step, on a real database.

def test_billing(gapless_db, gapless_conn):
    testing.install(gapless_db, topics={"orders": 4})
    gapless.publish(gapless_conn, "orders", {"total": 5}, key="AA")
    assert testing.drain(gapless_db, billing).dead == 0

pytest finds the fixtures itself (gapless.pytest_plugin).
"""

from gapless.testing.drained import Drained, drain, drain_async
from gapless.testing.install import install
from gapless.testing.published import assert_published, published
from gapless.testing.units import make_unit

__all__ = [
    "Drained",
    "assert_published",
    "drain",
    "drain_async",
    "install",
    "make_unit",
    "published",
]
