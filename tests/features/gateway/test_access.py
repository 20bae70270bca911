"""Keys: who may do what, and who may not; every route with every scope."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from psycopg import Connection

from features.gateway.together import connected
from gapless import ops
from gapless.features.gateway import access
from gapless.features.gateway.app import WAYS, Route
from gapless.features.gateway.keys import FoundKey, allows, is_secret, key_parts
from gapless.log.topics import Topic, ensure_topic
from support.fleet import until
from support.gateways import EVENTS, Client, Open, Serve, problem

SCOPES = (
    "publish:orders", "publish:*", "publish:other", "read:orders", "read:ord*", "read:*", "read:other",
    "consume:letters", "consume:*", "consume:other", "operate",
)  # fmt: skip


@pytest.fixture
def locked(open_gateway: Open, orders: Topic) -> Client:
    """A gateway that asks for keys, and does what an operator does."""
    return open_gateway(asks_keys=True, operates=True)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}".strip()}


def ask(gateway: Client, way: Route, headers: dict[str, str]) -> int:
    """Send a request that does nothing: its status."""
    path = way.path
    for name, value in (("topic", "orders"), ("group", "letters"), ("name", "x")):
        path = path.replace("{" + name + "}", value)
    params = {"last_event_id": "!"} if path.endswith("/stream") else {}
    if way.method == "GET":
        return gateway.get(path, headers=headers, params=params).status_code
    done = gateway.client.request(way.method, path, headers=headers, content=b"{")
    return done.status_code


@pytest.mark.long
def test_every_route_with_every_scope(locked: Client, conn: Connection) -> None:
    """The matrix: a scope opens what it names, and nothing else."""
    keys = {scope: ops.create_key(conn, scope, [scope]).key for scope in SCOPES}
    for way in WAYS:
        needed = way.scope.format(topic="orders", group="letters", name="x")
        if not needed:
            assert ask(locked, way, {"Sec-Fetch-Site": "same-origin"}) in (200, 204, 415), way
            continue
        assert ask(locked, way, {}) == 401, way
        for scope, key in keys.items():
            status = ask(locked, way, bearer(key))
            assert (status != 403) == allows([scope], needed), (way, scope, status)
            assert status != 401, (way, scope)


def test_what_scopes_cover() -> None:
    for scope, needed, is_covered in (
        ("publish:orders", "publish:orders", True),
        ("publish:orders", "publish:orders2", False),
        ("publish:orders*", "publish:orders2", True),
        ("publish:*", "publish:x", True),
        ("publish:*", "read:x", False),
        ("read:orders", "read:*", False),
        ("operate", "read:x", True),
        ("operate", "operate", True),
        ("operate", "publish:x", False),
        ("operate", "consume:x", False),
    ):
        assert allows([scope], needed) is is_covered, (scope, needed)


@pytest.mark.long
def test_a_key_that_counts_not(locked: Client, conn: Connection, monkeypatch) -> None:
    monkeypatch.setattr(access, "KNOWN_S", 0.0)
    made = ops.create_key(conn, "shop", ["publish:orders"])
    body = {"payload": 1}
    assert locked.post(EVENTS, json=body, headers=bearer(made.key)).status_code == 202
    bad: list[str] = [
        "", "x", "gk_", "gk__", f"gk_{made.key_id}_", made.key[:-1], f"{made.key}x", made.key.upper(),
        f"gk_{'0' * 16}_{made.key.split('_', 2)[2]}", f"gk_{made.key_id}_{'a' * 5000}",
        "gk_' or 1=1 --_x",
    ]  # fmt: skip
    for key in bad:
        done = locked.post(EVENTS, json=body, headers=bearer(key))
        problem(done, 401)
        assert done.headers["www-authenticate"].startswith("Bearer")
    problem(locked.post(EVENTS, json=body, headers={"Authorization": f"Basic {made.key}"}), 401)
    problem(locked.get(EVENTS, params={"key": made.key, "partition": 0}), 401)
    assert ops.revoke_key(conn, made.key_id) is True
    assert ops.revoke_key(conn, made.key_id) is False
    problem(locked.post(EVENTS, json=body, headers=bearer(made.key)), 401)
    short = ops.create_key(conn, "short", ["publish:orders"], expires_in_s=0.2)
    time.sleep(0.3)
    problem(locked.post(EVENTS, json=body, headers=bearer(short.key)), 401)
    row = conn.execute("select count(*) from gapless.outbox_message_t").fetchone()
    assert row == (1,)


def test_what_other_groups_do_is_no_producers_affair(locked: Client, conn: Connection) -> None:
    conn.execute("select gapless.create_group('billing', 'orders')")
    params = {"wait": "group:billing", "timeout": "0"}
    for scopes, status in (
        (["publish:orders"], 403),
        (["publish:orders", "read:orders", "consume:letters"], 403),
        (["publish:orders", "consume:billing"], 202),
        (["publish:orders", "consume:b*"], 202),
        (["publish:orders", "read:*"], 202),
        (["publish:orders", "operate"], 202),
    ):
        key = ops.create_key(conn, "shop", scopes).key
        done = locked.post(EVENTS, json={"payload": 1}, params=params, headers=bearer(key))
        assert done.status_code == status, scopes
    key = ops.create_key(conn, "shop", ["publish:orders"]).key
    params["wait"] = "group:nobody"
    problem(locked.post(EVENTS, json={"payload": 1}, params=params, headers=bearer(key)), 403)


def test_what_groups_do_with_an_event_needs_more_than_its_topic(
    locked: Client, conn: Connection
) -> None:
    """Their names, their dead letters and the errors of these."""
    for group in ("billing", "letters"):
        conn.execute("select gapless.create_group(%s, 'orders')", [group])
    headers = bearer(ops.create_key(conn, "shop", ["publish:orders"]).key)
    done = locked.post(EVENTS, json={"payload": 1}, params={"wait": "offset"}, headers=headers)
    path = f"/v1/topics/orders/events/{done.json()['places'][0]['partition']}/1"
    for scopes, seen in (
        (["read:orders"], []),
        (["read:ord*", "consume:letters"], ["letters"]),
        (["read:*"], ["billing", "letters"]),
        (["operate"], ["billing", "letters"]),
    ):
        key = ops.create_key(conn, "shop", scopes).key
        told = locked.get(path, headers=bearer(key)).json()
        assert [each["group"] for each in told["groups"]] == seen, scopes


def test_a_request_that_lasts_ends_with_its_key(
    locked: Client, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long poll gets nothing more, a body that comes late is not taken; what is stored is told."""
    monkeypatch.setattr(access, "KNOWN_S", 0.0)
    conn.execute("select gapless.create_group('letters', 'orders', mode => 'queue')")
    conn.execute("select gapless.create_group('billing', 'orders')")
    ensure_topic(conn, "mail", partitions=1)
    conn.execute("select gapless.create_group('mailer', 'mail')")
    made = [ops.create_key(conn, f"key {n}", ["publish:*", "consume:*"]) for n in range(5)]

    def post(number: int, path: str, **more: Any) -> httpx.Response:
        more["headers"] = {**bearer(made[number].key), **more.get("headers", {})}
        return locked.post(path, **more)

    def are_in(numbers: list[int]) -> None:
        names = {f"key {n}" for n in numbers}

        def used() -> set[str]:
            return {each.name for each in ops.list_keys(conn) if each.last_used}

        until(lambda: names <= used(), "they are in")

    with connected(locked) as sock:
        sock.sendall(
            f"POST {EVENTS} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            f"Authorization: Bearer {made[0].key}\r\nContent-Type: application/json\r\n"
            "Content-Length: 14\r\n\r\n".encode()
        )
        assert b" 100 " in sock.recv(100), "it reads the body now"
        ops.revoke_key(conn, made[0].key_id)
        sock.sendall(b'{"payload": 1}')
        assert b" 401 " in sock.recv(100)
    members = "/v1/groups/billing/members"
    member = post(1, members, json={"topic": "orders"}).json()
    poll, token = f"{members}/{member['member_id']}/poll", {"Gapless-Token": member["token"]}
    waits: list[tuple[str, dict[str, Any], int]] = [
        ("/v1/groups/letters/take?wait=20", {"json": {"topic": "orders"}}, 401),
        (f"{poll}?wait=20", {"json": {}, "headers": token}, 401),
        ("/v1/topics/mail/events?wait=group:mailer&timeout=20", {"json": {"payload": 1}}, 202),
    ]
    with ThreadPoolExecutor(3) as threads:
        answers = [
            threads.submit(post, number, path, **more)
            for number, (path, more, _) in enumerate(waits, start=2)
        ]
        are_in([2, 3])
        until(lambda: conn.execute("table gapless.outbox_message_t").fetchone(), "it is stored")
        for each in made[2:]:
            ops.revoke_key(conn, each.key_id)
        assert [each.result(15).status_code for each in answers] == [each for _, _, each in waits]


def test_a_secret_is_nowhere(locked: Client, conn: Connection) -> None:
    made = ops.create_key(conn, "shop", ["publish:orders"])
    secret = made.key.split("_", 2)[2]
    (stored,) = conn.execute("select k::text, digest from gapless.api_key k").fetchall()
    assert secret not in stored[0]
    assert len(stored[1]) == 32
    assert secret not in repr(made)
    assert secret not in repr(ops.list_keys(conn))
    assert ops.list_keys(conn)[0].last_used is None
    locked.post(EVENTS, json={"payload": 1}, headers=bearer(made.key))
    assert ops.list_keys(conn)[0].last_used is not None


def test_the_secret_is_compared_whole_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """hmac.compare_digest() of digests: its time says nothing of where they differ."""
    seen: list[tuple[int, int]] = []
    digest = b"x" * 32
    found = FoundKey(key_id="a", name="a", digest=digest, scopes=[], requests_s=None)

    def compare(one: bytes, other: bytes) -> bool:
        seen.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("gapless.features.gateway.keys.hmac.compare_digest", compare)
    for secret in ("", "a", "a" * 100):
        assert not is_secret(found, secret)
    assert seen == [(32, 32)] * 3
    assert key_parts("gk_0123456789abcdef_a_b") == ("0123456789abcdef", "a_b")


def test_a_key_has_so_many_requests_a_second(locked: Client, conn: Connection) -> None:
    made = ops.create_key(conn, "shop", ["publish:orders"], requests_s=0.5)
    body = {"payload": 1}
    assert locked.post(EVENTS, json=body, headers=bearer(made.key)).status_code == 202
    done = locked.post(EVENTS, json=body, headers=bearer(made.key))
    problem(done, 429)
    assert 1 <= int(done.headers["retry-after"]) <= 2
    other = ops.create_key(conn, "other", ["publish:orders"], requests_s=1000)
    for _ in range(20):
        assert locked.post(EVENTS, json=body, headers=bearer(other.key)).status_code == 202


@pytest.mark.long
def test_without_operate_there_is_no_operator(open_gateway: Open, orders: Topic) -> None:
    for way in WAYS:
        if way.scope == "operate":
            assert ask(open_gateway(), way, {}) == 403


@pytest.mark.long
@pytest.mark.slow
def test_the_command(gapless, serve: Serve, orders: Topic) -> None:
    assert "no keys" in gapless("keys").err
    made = gapless("keys", "create", "shop", "--scope", "publish:orders", "--expires", "1d")
    key = made.out.strip()
    assert "it is shown once" in made.err
    (listed,) = gapless("keys", "--json").json
    assert (listed["name"], listed["scopes"]) == ("shop", ["publish:orders"])
    gateway = serve("--listen", "0.0.0.0:0", "--keys", "--behind-proxy", "10.0.0.1")
    url = gateway.url.replace("0.0.0.0", "127.0.0.1")
    post = gateway.client.post
    assert post(f"{url}{EVENTS}", json={"payload": 1}, headers=bearer(key)).status_code == 202
    problem(post(f"{url}{EVENTS}", json={"payload": 1}), 401)
    assert gapless("keys", "revoke", listed["key_id"]).out == f"revoked {listed['key_id']}\n"
    bad = gapless("keys", "create", "x", "--scope", "all").complaint()
    assert '"all" is no scope' in bad
    assert "Traceback" not in gateway.log()
    assert key not in gateway.log()
