"""Dead letters in bulk over HTTP: counted by cause, changed as the caller saw them, and the outcome of a redrive."""

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.log.publish import publish
from gapless.log.topics import Topic
from gapless.testing import drain
from support.gateways import Client, Open, problem

ERRORS = ["order 17 is late", "order 4711 is late", "no such customer"]


@pytest.fixture
def operated(open_gateway: Open, orders: Topic, conn: Connection, dsn: str) -> Client:
    """A gateway that operates, and three units of group billing that failed for two causes."""
    for error in ERRORS:
        publish(conn, "orders", {"error": error}, key=error)

    @gapless.handler(topic="orders", group="billing")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        raise ValueError(next(iter(unit)).payload["error"])

    drain(dsn, refuse)
    return open_gateway(operates=True)


def places(conn: Connection, state: str = "dead") -> list[str]:
    return [str(each.place) for each in ops.list_units(conn, ops.DlqFilter(states=[state]))]


def test_counts_lead_to_their_units(operated: Client) -> None:
    """The filter of each cause, type and day finds as many units as were counted."""
    late, missing = operated.get("/v1/dlq/summary").json()
    assert (late["units"], late["total"], missing["units"]) == (2, 3, 1)
    assert late["cause"].endswith("order # is late")
    found = operated.get("/v1/dlq", params={"cause": late["cause"], "since": "1h"}).json()
    assert {each["error"][-13:] for each in found} == {"er 17 is late", " 4711 is late"}
    assert operated.get("/v1/dlq", params={"skip": 2}).json() == operated.get("/v1/dlq").json()[2:]
    assert operated.get("/v1/dlq", params={"type": "order.paid"}).json() == []
    (untyped,) = operated.get("/v1/dlq/summary", params={"by": "type"}).json()
    assert (untyped["cause"], untyped["units"]) == (None, 3)
    for wrong, status in (
        ({"until": "2h"}, 400),
        ({"states": "lost"}, 400),
        ({"group": "no"}, 404),
    ):
        problem(operated.get("/v1/dlq/summary", params=wrong), status)


def test_a_selection_that_changed_is_refused(operated: Client, conn: Connection) -> None:
    """By its number or by one of its places; then nothing at all is changed."""
    first, *others = before = places(conn)
    url, reason = "/v1/dlq/discard-all", {"reason": "test"}
    filtered = {"group": "billing", "states": "dead", **reason}
    for expected in (2, 4):
        told = problem(operated.post(url, json={**filtered, "expected": expected}), 409)
        assert (
            f"the filter finds 3 units now, not {expected}; nothing was changed" in told["detail"]
        )
    assert places(conn) == before
    done = operated.post(url, json={"places": [first], **reason})
    assert done.json() == {"units": 1, "left_alone": 0}
    told = problem(operated.post(url, json={"places": before, **reason}), 409)
    assert f"{first} was discarded already" in told["detail"]
    problem(operated.post(url, json={"places": ["billing/orders/0@99"], **reason}), 404)
    for wrong in ([], "all", [7], ["billing"], ["a/b/1@1"] * 201):
        problem(operated.post(url, json={"places": wrong, **reason}), 400)
    assert places(conn) == others
    done = operated.post(url, json={**filtered, "expected": 2})
    assert done.json() == {"units": 2, "left_alone": 0}


def test_a_redrive_is_followed(operated: Client, conn: Connection, dsn: str) -> None:
    """Until each unit was handled, or failed again."""
    assert operated.get("/v1/dlq/redrives").json() == []
    operated.post("/v1/dlq/redrive-all", json={"group": "billing", "expected": 3})
    (asked,) = operated.get("/v1/dlq/redrives", params={"group": "billing"}).json()
    assert (asked["units"], asked["unhandled"], asked["handled"], asked["failed"]) == (3, 3, 0, 0)
    assert asked["who"] == "gateway: without a key"

    @gapless.handler(topic="orders", group="billing")
    def take(unit: gapless.Unit, conn: object) -> None:
        if "customer" in next(iter(unit)).payload["error"]:
            raise ValueError("again")

    drain(dsn, take)
    (done,) = operated.get("/v1/dlq/redrives").json()
    assert (done["units"], done["unhandled"], done["handled"], done["failed"]) == (3, 0, 2, 1)
    assert operated.get("/v1/dlq/redrives", params={"group": "letters"}).json() == []
    (left,) = places(conn)
    operated.post("/v1/dlq/discard", json={"place": left, "reason": "test"})
    assert operated.get("/v1/dlq/redrives", params={"since": ""}).json() == [{**done, "failed": 0}]


def test_a_filter_is_set_and_cleared(operated: Client) -> None:
    url = "/v1/groups/billing/filter"
    wanted = {"topic": "orders", "event_types": "order.*,refund", "where": "$.n > 1"}
    assert operated.post(url, json=wanted).json()["changed"] is True
    (line,) = operated.get("/v1/groups").json()
    assert line["takes"] == 'order.*, refund where ($."n" > 1)'
    problem(operated.post(url, json={**wanted, "clear": True}), 400)
    assert operated.post(url, json={"topic": "orders", "clear": True}).json()["changed"] is True
    assert operated.get("/v1/groups").json()[0]["takes"] is None
