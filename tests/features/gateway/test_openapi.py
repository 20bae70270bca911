"""openapi.json against a gateway: whatever is sent to a route, it answers as the file says.

Requests are made out of it, so a route that is declared is tried as well.
"""

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from psycopg import Connection

from gapless import ops
from gapless.features.gateway.app import description
from gapless.log.topics import Topic
from support.gateways import EVENTS, Client, Open, problem
from support.openapi import Operation, Sent, operations

OPERATIONS = list(operations(json.loads(description())))
STREAM = "text/event-stream"
KNOWN = {
    "topic": ["orders"],
    "group": ["billing", "letters"],
    "place": ["billing/orders/0@1", "billing/orders/0", "nobody/orders/0@1"],
    "wait": ["offset", "group:billing", "0"],
    "timeout": ["0"],
    "partition": ["0", "1"],
    "from": ["1", "earliest"],
    "to": ["earliest", "1"],
    "states": ["dead,waiting"],
    "where": ["$.a == 1"],
    "name": ["nightly"],
    "cron": ["0 3 * * *"],
    "event": ["0@1"],
    "scopes": ["read:orders", "operate"],
    "expires": [None, "1h"],
    "scheduled_ids": [[1, 2]],
    "scheduled_id": ["1"],
    "to_group": [None],
    "to_subscription": [None],
    "deliver_at": ["2100-01-01T00:00:00Z"],
    "deliver_in": [None, 5],
    "max_events": [None, 1],
    "offset": [None, "1"],
    "visibility_s": [None, 60],
    "application/x-ndjson": ['{"payload": 1}\n{"payload": [2]}\n', "{}"],
}
REACHED = (
    "POST /v1/topics/{topic}/events",
    "POST /v1/groups/{group}/take",
    "POST /v1/groups/{group}/acknowledge",
    "POST /v1/schedules/{name}/{verb}",
    "POST /v1/later/{scheduled_id}/cancel",
)
DONE = {200, 202, 204}
FEW = settings(
    max_examples=16,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def open_to_all(open_gateway: Open, orders: Topic, conn: Connection) -> Client:
    """A gateway that asks for keys and operates; a client with a key for everything."""
    conn.execute("select gapless.create_group('billing', 'orders')")
    conn.execute("select gapless.create_group('letters', 'orders', mode => 'queue')")
    made = ops.create_key(conn, "all", ["operate", "publish:*", "read:*", "consume:*"])
    gateway = open_gateway(operates=True, asks_keys=True)
    gateway.client.headers["Authorization"] = f"Bearer {made.key}"
    conn.execute("select gapless.add_schedule('nightly', 'orders', cron => '0 3 * * *')")
    gateway.publish(*({"a": n} for n in range(50)), wait="offset")
    gateway.post(EVENTS, json={"payload": 1, "deliver_in": 900})
    return gateway


@pytest.fixture
def known(open_to_all: Client) -> dict[str, list[Any]]:
    """What there is, by the names of parameters and fields."""
    path = "/v1/groups/letters/take"
    receipts = [
        open_to_all.post(path, json={"topic": "orders", "visibility_s": 600}).json()["events"][0][
            "receipt"
        ]
        for _ in range(5)
    ]
    return {**KNOWN, "receipt": receipts}


def send(
    gateway: Client, operation: Operation, sent: Sent, **headers: str
) -> tuple[httpx.Response, bytes]:
    """An answer; of a stream its first part."""
    url = f"{gateway.url}{sent.path}"
    request = gateway.client.build_request(
        operation.method,
        url,
        params=sent.query,
        content=sent.content,
        headers={**sent.headers, **headers},
    )
    answer = gateway.client.send(request, stream=True)
    try:
        if answer.headers.get("content-type", "").startswith(STREAM):
            return answer, next(answer.iter_raw())
        return answer, answer.read()
    finally:
        answer.close()


def quick(sent: Sent) -> Sent:
    """The same, but it waits for nothing."""
    found: Any = {
        name: "0" if name in ("wait", "timeout") and _is_number(each) else each
        for name, each in sent.query.items()
    }
    if "wait" in found:
        found["timeout"] = found.get("timeout", "0")
    return Sent(sent.path, found, sent.headers, sent.content, sent.is_allowed)


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) <= 30
    except ValueError:
        return False


def tried(gateway: Client, operation: Operation, known: dict[str, list[Any]]) -> set[int]:
    """Try an operation; the statuses that came."""
    statuses: set[int] = set()

    @FEW
    @given(operation.requests(known).map(quick))
    def one(sent: Sent) -> None:
        answer, body = send(gateway, operation, sent)
        statuses.add(answer.status_code)
        complaint = operation.complaint(sent, answer.status_code, answer.headers, body)
        assert complaint is None, f"{operation}: {complaint}\n{sent}\n{body[:1000]!r}"

    one()
    # Hypothesis draws by the constants of all modules, also of those that other tests imported.
    for number in range(8):
        if repr(operation) in REACHED and not statuses & DONE:
            seed(number)(one)()
    return statuses


@pytest.mark.long
def test_answers_are_as_described(open_to_all: Client, known: dict[str, list[Any]]) -> None:
    statuses = {repr(each): tried(open_to_all, each, known) for each in OPERATIONS}
    done = {name for name, found in statuses.items() if found & DONE}
    assert len(done) > len(statuses) / 2, f"what was sent gets nowhere: {statuses}"
    assert done >= set(REACHED), statuses
    assert open_to_all.get("/readyz").status_code == 200


def test_what_is_refused_is_said() -> None:
    """Each text that is sent has a bound, each number two; what an event holds is bounded by its size."""
    for operation in OPERATIONS:
        for each in operation.parameters:
            if each["in"] != "header":
                assert_bounded(each["schema"], f"{operation}: {each['name']}")
        kinds = operation.said.get("requestBody", {}).get("content", {})
        for name, schema in (
            kinds.get("application/json", {}).get("schema", {}).get("properties", {}).items()
        ):
            assert_bounded(schema, f"{operation}: {name}")


ANYWHERE = {"400", "421", "501", "503"}  # Host, a coding, too many connections; 500 is a fault
WITH_A_KEY = {"401", "403", "429"}
WITH_A_BODY = {"408", "413", "415"}


def test_what_is_refused_for_all_is_said_of_all() -> None:
    for operation in OPERATIONS:
        statuses = set(operation.said["responses"])
        has_body = "requestBody" in operation.said
        wanted = ANYWHERE | (WITH_A_KEY if operation.is_locked else set())
        wanted |= WITH_A_BODY if has_body else set()
        assert wanted <= statuses, operation
        assert has_body or not WITH_A_BODY & statuses, operation
        assert operation.is_locked or not WITH_A_KEY & statuses or "session" in str(operation), (
            operation
        )


def assert_bounded(schema: dict[str, Any], where: str) -> None:
    kinds = schema.get("type", [])
    if "string" in kinds:
        assert {"enum", "format"} & set(schema) or {"maxLength", "pattern"} <= set(schema), where
    if {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)}:
        assert {"minimum", "exclusiveMinimum"} & set(schema), where
        assert "maximum" in schema, where
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            assert {"maximum", "pattern"} & set(inner), where


def test_all_but_what_is_open_needs_a_key(open_to_all: Client) -> None:
    for operation in OPERATIONS:
        path = operation.path.replace("{", "").replace("}", "")
        sent = Sent(path, {}, {}, None, is_allowed=False)
        answer, _ = send(open_to_all, operation, sent, Authorization="Bearer gk_no_one")
        assert (answer.status_code == 401) == operation.is_locked, operation


@pytest.mark.long
def test_no_method_but_those_described(open_to_all: Client) -> None:
    for path in {each.path for each in OPERATIONS}:
        described = {each.method for each in OPERATIONS if each.path == path}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - described:
            done = open_to_all.client.request(method, path.replace("{", "").replace("}", ""))
            problem(done, 405)
            allowed = {each.strip() for each in done.headers["allow"].split(",")}
            assert allowed - {"HEAD"} == described, path


def test_an_answer_that_is_not_described_is_seen() -> None:
    """What tries the routes sees a status, a media type, a body that the file does not have."""
    health = next(each for each in OPERATIONS if each.path == "/healthz")
    publish = next(each for each in OPERATIONS if repr(each) == "POST /v1/topics/{topic}/events")
    sent = Sent("", {}, {}, None, is_allowed=True)
    bad = Sent("", {}, {}, None, is_allowed=False)
    kind = {"content-type": "application/json"}
    said = json.dumps({
        "transaction_id": "0190163d-8694-739b-aea5-966c26f8ad91", "events": 1, "duplicate": False,
        "duplicates": 0, "scheduled_ids": [],
    }).encode()  # fmt: skip
    assert publish.complaint(sent, 202, kind, said) is None
    assert "status 500" in str(publish.complaint(sent, 500, kind, said))
    assert "not allow" in str(publish.complaint(bad, 202, kind, said))
    assert "text/html" in str(publish.complaint(sent, 202, {"content-type": "text/html"}, said))
    assert "['events']" in str(
        publish.complaint(sent, 202, kind, said.replace(b'"events": 1', b'"events": "1"'))
    )
    wrong = {"content-type": "application/problem+json"}
    assert "problem of 401" in str(
        publish.complaint(bad, 400, wrong, b'{"status": 401, "title": "x", "detail": "y"}')
    )
    assert (
        health.complaint(sent, 200, {"content-type": "text/plain; charset=utf-8"}, b"ok\n") is None
    )


@pytest.mark.long
def test_requests_are_as_described_too() -> None:
    """Not only such as the file does not allow."""
    for operation in OPERATIONS:
        assert True in _kinds(operation), operation


def _kinds(operation: Operation) -> set[bool]:
    found: set[bool] = set()

    @FEW
    @given(operation.requests(KNOWN))
    def draw(sent: Sent) -> None:
        found.add(sent.is_allowed)

    draw()
    return found
