"""The session of the page by HTTP: a cookie that counts as a key does, for the gateway's own page alone."""

import re
from typing import Any

import httpx
import pytest
from psycopg import Connection

from gapless import ops
from gapless.features.gateway import access
from gapless.log.topics import Topic
from support.fleet import until
from support.gateways import EVENTS, Client, Open, Serve, problem

SESSION = "/v1/session"
SEEK = "/v1/groups/billing/pause"
STREAM = "/v1/topics/orders/stream"
OWN = {"Sec-Fetch-Site": "same-origin"}


def key_of(conn: Connection, *scopes: str, **more: Any) -> ops.CreatedKey:
    return ops.create_key(conn, "ann", scopes or ["read:*", "operate"], **more)


def enter(gateway: Client, key: str, **headers: str) -> httpx.Response:
    return gateway.post(SESSION, json={"key": key}, headers=OWN | headers)


def cookie(answer: httpx.Response) -> str:
    """Return the cookie that an answer sets, as it is sent back."""
    return str(answer.headers["set-cookie"]).partition(";")[0]


@pytest.fixture
def locked(open_gateway: Open, orders: Topic, conn: Connection) -> Client:
    """A gateway that asks for keys, and does what an operator does."""
    conn.execute("select gapless.create_group('billing', 'orders')")
    return open_gateway(asks_keys=True, operates=True)


def test_a_key_becomes_a_cookie_and_ends(
    locked: Client, conn: Connection, open_gateway: Open
) -> None:
    made = key_of(conn)
    nobody = {"caller": None, "scopes": [], "asks_keys": True, "operates": True}
    assert locked.get(SESSION).json() == nobody
    told = enter(locked, f" {made.key}\n")
    caller = f"key {made.key_id} (ann)"
    somebody = {**nobody, "caller": caller, "scopes": ["read:*", "operate"]}
    assert told.json() == somebody
    assert told.headers["cache-control"] == "no-store"
    name, *attributes = told.headers["set-cookie"].lower().split("; ")
    port = locked.url.rpartition(":")[2]
    assert name == f"gapless-session-{port}={made.key}".lower()
    assert sorted(attributes) == ["httponly", "path=/", "samesite=strict"]
    # Another gateway behind one address accepts it; the cookie of the client above stays out of it.
    other = open_gateway(asks_keys=True)
    by_cookie = {"Cookie": cookie(told), "Host": f"127.0.0.1:{port}"}
    assert other.get(SESSION, headers=by_cookie).json() == {**somebody, "operates": False}
    assert other.get("/v1/topics", headers=by_cookie).status_code == 200
    problem(other.get("/v1/topics"), 401)
    ended = locked.client.delete(SESSION, headers=OWN)
    assert ended.status_code == 204
    assert "max-age=0" in ended.headers["set-cookie"].lower()
    assert locked.get(SESSION).json() == nobody


def test_two_ports_of_a_host_have_a_session_each(
    locked: Client, conn: Connection, open_gateway: Open
) -> None:
    """A browser keeps the cookies of a host in one jar, and sends all of them to each of its ports."""
    other = open_gateway(asks_keys=True)
    locked.client.cookies = other.client.cookies = httpx.Cookies()
    ann, ben = key_of(conn), key_of(conn, "read:*")
    enter(locked, ann.key)
    enter(other, ben.key)
    other.client.cookies.update(locked.client.cookies)
    locked.client.cookies.update(other.client.cookies)
    callers = [str(each.get(SESSION).json()["caller"]) for each in (locked, other)]
    assert [ann.key_id in callers[0], ben.key_id in callers[1]] == [True, True]
    assert other.client.delete(SESSION, headers=OWN).status_code == 204
    assert locked.get(SESSION).json()["caller"] == callers[0]


def test_a_gateway_without_keys_keeps_none(
    open_gateway: Open, conn: Connection, orders: Topic
) -> None:
    gateway = open_gateway()
    told = enter(gateway, key_of(conn).key)
    assert told.json() == {"caller": None, "scopes": [], "asks_keys": False, "operates": False}
    assert "set-cookie" not in told.headers


@pytest.mark.parametrize(
    "key", ["", " ", "x", "gk_", "gk_0123456789abcdef_a", "a" * 16_384, "a" * 16_385]
)
def test_keys_that_do_not_count(locked: Client, key: str) -> None:
    told = enter(locked, key)
    problem(told, 401 if len(key) <= 16_384 else 400)
    assert "set-cookie" not in told.headers


def test_the_rate_of_a_key_holds_for_sessions(locked: Client, conn: Connection) -> None:
    made = key_of(conn, requests_s=0.5)
    assert enter(locked, made.key).status_code == 200
    problem(enter(locked, made.key), 429)
    problem(locked.get(SESSION), 429)


def test_the_header_wins_over_the_cookie(locked: Client, conn: Connection) -> None:
    reader, shop = key_of(conn, "read:*"), key_of(conn, "publish:orders")
    enter(locked, reader.key)
    as_shop = {"Authorization": f"Bearer {shop.key}"}
    assert locked.get(SESSION, headers=as_shop).json()["scopes"] == ["publish:orders"]
    problem(locked.get("/v1/topics", headers=as_shop), 403)
    for none in ("Bearer x", "Basic x", ""):
        problem(locked.get("/v1/topics", headers={"Authorization": none}), 401)
    body = {"payload": 1}  # a request that brings its key needs no page
    assert locked.post(EVENTS, json=body, headers=as_shop).status_code == 202
    problem(locked.post(EVENTS, json=body, headers=OWN), 403)


@pytest.mark.parametrize(
    ("headers", "reads", "changes"),
    [
        ({}, True, False),
        ({"Sec-Fetch-Site": "same-origin"}, True, True),
        ({"Sec-Fetch-Site": "none"}, True, False),
        ({"Sec-Fetch-Site": "same-site"}, False, False),
        ({"Sec-Fetch-Site": "cross-site"}, False, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "OWN"}, False, False),
        ({"Sec-Fetch-Site": "same-origin, cross-site"}, False, False),
        ({"Origin": "OWN"}, True, True),
        ({"Origin": "null"}, False, False),
        ({"Origin": "http://127.0.0.1:1"}, False, False),
        ({"Origin": "https://evil.example.com"}, False, False),
        ({"Origin": ""}, False, False),
    ],
)
def test_a_cookie_is_for_the_own_page(
    locked: Client, conn: Connection, headers: dict[str, str], reads: bool, changes: bool
) -> None:
    """Another page cannot use it, sign somebody in as somebody else, or sign them out."""
    made = key_of(conn)
    enter(locked, made.key)
    sent = {name: locked.url if value == "OWN" else value for name, value in headers.items()}
    assert locked.get("/v1/topics", headers=sent).status_code == (200 if reads else 403)
    for method, path, body, fine in (
        ("POST", "/v1/groups/billing/pause", {"topic": "orders", "reason": "a test"}, 200),
        ("POST", SESSION, {"key": made.key}, 200),
        ("DELETE", SESSION, None, 204),
    ):
        done = locked.client.request(method, path, json=body, headers=sent)
        assert done.status_code == (fine if changes else 403), (method, path, done.text)
        assert changes or "set-cookie" not in done.headers


@pytest.mark.parametrize(
    ("proto", "name", "others"),
    [
        ("https", "__Host-gapless-session", "gapless-session"),
        ("http", "gapless-session", "__Host-gapless-session"),
    ],
)
def test_behind_a_proxy_that_speaks_tls(
    open_gateway: Open, conn: Connection, orders: Topic, proto: str, name: str, others: str
) -> None:
    """A cookie that was set without TLS, which anybody on the way can do, counts not behind it."""
    gateway = open_gateway(asks_keys=True, proxies=("127.0.0.1",))
    made = key_of(conn)
    via = {
        "X-Forwarded-Proto": proto,
        "Host": "127.0.0.1",
    }  # without a port, as a proxy may send it
    told = enter(gateway, made.key, **via)
    assert told.headers["set-cookie"].startswith(f"{name}={made.key};")
    assert ("; secure" in told.headers["set-cookie"].lower()) == (proto == "https")
    gateway.client.cookies.clear()
    for sent, status in ((name, 200), (others, 401), (f"x{name}", 401)):
        done = gateway.get("/v1/topics", headers={**via, "Cookie": f"a=b; {sent}={made.key};c"})
        assert done.status_code == status, sent
    twice = f"{name}={key_of(conn).key}; {name}={made.key}"
    problem(gateway.get("/v1/topics", headers={**via, "Cookie": twice}), 401)
    untrusted = open_gateway(asks_keys=True)
    assert "secure" not in enter(untrusted, made.key, **via).headers["set-cookie"].lower()


def test_a_stream_goes_on_by_the_cookie_and_ends_with_its_key(
    locked: Client, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As EventSource asks for it: no header of its own but Last-Event-ID."""
    monkeypatch.setattr(access, "KNOWN_S", 0.1)
    shop, made = key_of(conn, "publish:orders"), key_of(conn)
    as_shop = {"Authorization": f"Bearer {shop.key}"}
    for n in (1, 2):
        locked.post(EVENTS, json={"payload": n, "key": "k"}, headers=as_shop)
    enter(locked, made.key)

    def read(params: dict[str, str], **headers: str) -> tuple[str, str]:
        """Return the id and the data of the first event; the stream ends then."""
        asked = {"Accept": "text/event-stream", **OWN, **headers}
        with locked.client.stream("GET", STREAM, params=params, headers=asked) as answer:
            assert answer.status_code == 200
            seen = ""
            for part in answer.iter_text():
                seen += part
                found = re.search(r"id: (.*)\n(?:event: .*\n)?data: (.*)\n\n", seen)
                if found:
                    return found[1], found[2]
        raise AssertionError(seen)

    first, data = read({"from": "earliest"})
    assert '"payload":1' in data.replace(" ", "")
    _, data = read({}, **{"Last-Event-ID": first})
    assert '"payload":2' in data.replace(" ", "")
    with locked.client.stream("GET", STREAM, headers=OWN) as answer:
        parts = answer.iter_text()
        next(parts)
        assert ops.revoke_key(conn, made.key_id)
        for _ in parts:
            pass  # until it ends
    until(lambda: locked.get(SESSION).json()["caller"] is None, "the session ends with its key")
    problem(locked.get("/v1/topics", headers=OWN), 401)


@pytest.mark.long
@pytest.mark.slow
def test_the_cookie_is_in_no_log(serve: Serve, conn: Connection, orders: Topic) -> None:
    gateway = serve("--keys", "--access-log", "info")
    made = key_of(conn)
    assert enter(gateway, made.key).status_code == 200
    gateway.get("/v1/topics")
    problem(gateway.post(SESSION, json={"key": made.key, "x": 1}, headers=OWN), 400)
    problem(gateway.get("/v1/topics", headers={"Sec-Fetch-Site": "cross-site"}), 403)
    log = str(until(lambda: gateway.log() if "own page" in gateway.log() else "", "it is noted"))
    assert f"key {made.key_id} (ann)" in log
    assert made.key.split("_", 2)[2] not in log
