"""Tokens (JWT): what of an issuer counts, and each way to forge one that does not."""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from psycopg import Connection

from docs.blocks import ROOT, blocks_of
from gapless import ops
from gapless.errors import UsageError
from gapless.features.gateway.issuer import Issuer, is_scope, read_issuer
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.tokens import KeyRing
from gapless.log.topics import Topic
from support.gateways import EVENTS, Client, Open, Serve, problem

ISSUER = "https://idp.example.com"
BODY = {"payload": 1}


def now() -> int:
    return int(time.time())  # noqa: TID251 - as tokens have it


@cache  # to find such a key takes up to a second
def rsa() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "one"}, auto_kid=False)


class Idp:
    """An issuer: keys, their set at an address, and tokens."""

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.asked = 0
        self.status = 200
        self.rsa = rsa()
        self.publish(self.rsa)
        idp = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                idp.asked += 1
                body = json.dumps({"keys": idp.keys}).encode()
                self.send_response(idp.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/jwks"

    def publish(self, *keys: Key) -> None:
        self.keys = [each.as_dict(private=False) for each in keys]

    def token(
        self, key: Key | None = None, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        key = key or self.rsa
        head = {"alg": "RS256", "kid": key.kid} | (header or {})
        head = {name: value for name, value in head.items() if value is not None}
        return jwt.encode(head, _claims(claims), key, algorithms=[head["alg"]])


def _claims(claims: dict[str, Any]) -> dict[str, Any]:
    now_s = now()
    found = {
        "iss": ISSUER, "aud": "gapless", "sub": "shop", "exp": now_s + 600, "iat": now_s,
        "scope": "openid publish:orders read:orders",
    } | claims  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def raw(head: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """A token made by hand; `signature` may be a key of HMAC."""
    parts = [_b64(json.dumps(each).encode()) for each in (head, _claims(claims))]
    text = ".".join(parts)
    if head["alg"].startswith("HS"):
        signature = hmac.new(signature, text.encode(), hashlib.sha256).digest()
    return f"{text}.{_b64(signature)}"


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.fixture
def idp() -> Iterator[Idp]:
    made = Idp()
    yield made
    made.server.shutdown()
    made.server.server_close()


Describe = Callable[..., str]


@pytest.fixture
def described(idp: Idp, tmp_path: Path) -> Describe:
    """Write the file of an issuer; its path."""

    def write(**more: Any) -> str:
        path = tmp_path / "tokens.yml"
        said = {"issuer": ISSUER, "audience": "gapless", "keys": idp.url} | more
        path.write_text(json.dumps({name: each for name, each in said.items() if each is not None}))
        return str(path)

    return write


@pytest.fixture
def guarded(open_gateway: Open, orders: Topic, described: Describe) -> Client:
    """A gateway that asks for tokens."""
    return open_gateway(tokens=described(), operates=True)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def status(gateway: Client, token: str) -> int:
    return gateway.post(EVENTS, json=BODY, headers=bearer(token)).status_code


@pytest.mark.long
def test_what_a_token_allows(guarded: Client, idp: Idp) -> None:
    assert status(guarded, idp.token()) == 202
    problem(guarded.post(EVENTS, json=BODY), 401)
    found = guarded.get(EVENTS, params={"partition": 0}, headers=bearer(idp.token()))
    assert found.status_code == 200
    for scope in (
        "read:orders",
        "publish:other",
        "operate",
        "*",
        "p*",
        "publish*",
        "",
        ["x", 1],
        7,
        {},
    ):
        problem(guarded.post(EVENTS, json=BODY, headers=bearer(idp.token(scope=scope))), 403)
    for scope in (["publish:orders"], "publish:ord*", "publish:* x"):
        assert status(guarded, idp.token(scope=scope)) == 202
    assert status(guarded, idp.token(aud=["other", "gapless"])) == 202
    assert idp.asked == 1, "keys are read once"


@pytest.mark.long
def test_algorithms_that_are_allowed(
    open_gateway: Open, orders: Topic, idp: Idp, described
) -> None:
    algorithms = ["RS256", "PS256", "ES256", "Ed25519"]
    guarded = open_gateway(tokens=described(algorithms=algorithms))
    curve = ECKey.generate_key("P-256", {"kid": "two"}, auto_kid=False)
    edwards = OKPKey.generate_key("Ed25519", {"kid": "three"}, auto_kid=False)
    idp.publish(idp.rsa, curve, edwards)
    for key, algorithm in (
        (idp.rsa, "RS256"),
        (idp.rsa, "PS256"),
        (curve, "ES256"),
        (edwards, "Ed25519"),
    ):
        assert status(guarded, idp.token(key, {"alg": algorithm})) == 202, algorithm
    assert status(guarded, idp.token(idp.rsa, {"alg": "RS512"})) == 401


@pytest.mark.long
def test_forged_tokens(guarded: Client, idp: Idp, conn: Connection) -> None:
    """Each classic kind, with a good one before and after."""
    good = idp.token()
    assert status(guarded, good) == 202
    stranger = RSAKey.generate_key(2048, {"kid": "one"}, auto_kid=False)
    pem, now_s = idp.rsa.as_pem(private=False), now()
    head, claims, signature = good.split(".")
    payload = json.loads(base64.urlsafe_b64decode(claims + "=="))
    bad = {
        "no signature (alg none)": raw({"alg": "none", "kid": "one"}, {}),
        "alg None": raw({"alg": "None", "kid": "one"}, {}),
        "the public key as a secret": raw({"alg": "HS256", "kid": "one"}, {}, pem),
        "its number as a secret": raw({"alg": "HS256", "kid": "one"}, {}, idp.keys[0]["n"].encode()),
        "an empty secret": raw({"alg": "HS256", "kid": "one"}, {}, b""),
        "another's key under its kid": idp.token(stranger),
        "its own key in the header": idp.token(stranger, {"jwk": stranger.as_dict(private=False)}),
        "keys at an address of its own": idp.token(stranger, {"jku": idp.url}),
        "a certificate of its own": idp.token(stranger, {"x5c": ["AAAA"]}),
        "a kid that is a path": idp.token(stranger, {"kid": "../../../dev/null"}),
        "a kid that is SQL": idp.token(stranger, {"kid": "' union select 'x"}),
        "no kid, another's key": idp.token(stranger, {"kid": None}),
        "no signature": f"{head}.{claims}.",
        "half a signature": f"{head}.{claims}.{signature[:20]}",
        "other claims": f"{head}.{_b64(json.dumps(payload | {'scope': 'operate'}).encode())}.{signature}",
        "expired": idp.token(exp=now_s - 31),
        "without an end": idp.token(exp=None),
        "an end that is text": idp.token(exp="2999-01-01"),
        "an end that is no number": raw({"alg": "RS256", "kid": "one"}, {"exp": float("nan")}),
        "not yet": idp.token(nbf=now_s + 120),
        "of tomorrow": idp.token(iat=now_s + 86_400),
        "for another": idp.token(aud="other"),
        "for nobody": idp.token(aud=None),
        "of another": idp.token(iss="https://evil.example.com"),
        "of another that begins so": idp.token(iss=f"{ISSUER}.evil.com"),
        "of nobody": idp.token(iss=None),
        "a list of issuers": idp.token(iss=[ISSUER]),
        "crit that nobody knows": raw({"alg": "RS256", "kid": "one", "crit": ["x"], "x": 1}, {}, b"a" * 256),
        "encrypted, five parts": "a.b.c.d.e",
        "claims that are no object": f"{head}.{_b64(b'[]')}.{signature}",
        "deep": f"{head}.{_b64(b'[' * 9000)}.{signature}",
        "a header that is no object": f"{_b64(b'[1]')}.{claims}.{signature}",
        "dots": "...", "a dot": ".", "not base64": "%%%.%%%.%%%", "long": "a" * 30_000,
        "a key": "gk_0123456789abcdef_x", "nothing": "",
    }  # fmt: skip
    stored = "select count(*) from gapless.outbox_message_t"
    before = conn.execute(stored).fetchone()
    for kind, token in bad.items():
        done = guarded.post(EVENTS, json=BODY, headers={"Authorization": f"Bearer {token}".strip()})
        assert problem(done, 401), kind
        assert done.headers["www-authenticate"].startswith("Bearer"), kind
    assert conn.execute(stored).fetchone() == before
    assert status(guarded, good) == 202


@pytest.mark.long
def test_a_set_with_keys_that_are_none(guarded: Client, idp: Idp) -> None:
    """Secrets, small keys, keys that encrypt, and what cannot be read are left out."""
    secret = OctKey.import_key("a" * 32, {"kid": "secret"})
    with pytest.warns(match="size"):
        small = RSAKey.generate_key(1024, {"kid": "small"}, auto_kid=False)
    hides = RSAKey.generate_key(2048, {"kid": "hides", "use": "enc"}, auto_kid=False)
    other = RSAKey.generate_key(2048, {"kid": "other", "alg": "RS512"}, auto_kid=False)
    idp.publish(small, hides, other, idp.rsa)
    idp.keys += [
        secret.as_dict(private=True),
        {"kty": "RSA", "n": "!", "e": "AQAB", "kid": "x"},
        7,
        {},
    ]
    assert status(guarded, idp.token()) == 202
    for key in (hides, other):
        forged = RSAKey.import_key(key.as_dict(private=True) | {"use": "sig", "alg": "RS256"})
        assert status(guarded, idp.token(forged)) == 401, key.kid
    assert status(guarded, raw({"alg": "HS256", "kid": "secret"}, {}, b"a" * 32)) == 401


async def until_none(ring: KeyRing, kid: str) -> None:
    """Ask for a key until it counts no more."""
    async with asyncio.timeout(20):
        while await ring.find(kid):  # noqa: ASYNC110 - the ring reads on this loop, and says nothing
            await asyncio.sleep(0.01)


@pytest.mark.long
def test_keys_change(guarded: Client, idp: Idp) -> None:
    """A new key counts at once, an old one as long as its set has it; strangers cost few fetches."""
    assert status(guarded, idp.token()) == 202
    new = RSAKey.generate_key(2048, {"kid": "new"}, auto_kid=False)
    idp.publish(idp.rsa, new)

    async def play() -> None:
        slow, quick = KeyRing(idp.url), KeyRing(idp.url, again_s=0.0)
        forgets = KeyRing(idp.url, again_s=0.0, fresh_s=0.0)
        assert await slow.find("new")
        asked = idp.asked
        for number in range(30):
            assert await slow.find(f"stranger-{number}") is None
        assert idp.asked == asked, "who names keys that nobody knows has them fetched once a while"
        assert await quick.find("one")
        assert await forgets.find("one")
        newer = RSAKey.generate_key(2048, {"kid": "newer"}, auto_kid=False)
        idp.publish(new, newer)
        assert await quick.find("newer"), "a new key counts at once"
        assert await slow.find("one"), "an old one until its set is read again"
        await until_none(forgets, "one")

    asyncio.run(play())


def test_an_issuer_that_is_away(guarded: Client, idp: Idp) -> None:
    idp.status = 500
    done = guarded.post(EVENTS, json=BODY, headers=bearer(idp.token()))
    assert "cannot be read now" in problem(done, 503)["detail"]
    assert done.headers["retry-after"] == "5"

    async def play() -> None:
        ring = KeyRing(idp.url, again_s=0.0, fresh_s=0.0)
        for wrong in (500, 302, 204):
            idp.status = wrong
            with pytest.raises(Problem, match="cannot be read now"):
                await ring.find("one")
        idp.status = 200
        assert await ring.find("one")
        stale = KeyRing(idp.url, again_s=0.0, stale_s=0.5)
        assert await stale.find("one")
        idp.status = 500
        for _ in range(3):
            assert await ring.find("one"), "known keys count on for an hour"
        with pytest.raises(Problem, match="cannot be read now"):
            await until_none(stale, "one")

    asyncio.run(play())


@pytest.mark.long
def test_clocks_that_differ(open_gateway: Open, orders: Topic, idp: Idp, described) -> None:
    guarded = open_gateway(tokens=described(leewayS=5))
    now_s = now()
    assert status(guarded, idp.token(exp=now_s - 2)) == 202
    assert status(guarded, idp.token(nbf=now_s + 3, iat=now_s + 3)) == 202
    assert status(guarded, idp.token(exp=now_s - 10)) == 401


@pytest.mark.long
def test_a_subject_has_so_many_requests_a_second(
    open_gateway: Open, orders: Topic, idp: Idp, described, conn: Connection
) -> None:
    """Each has a bucket of his own, however many tokens he has; keys have theirs."""
    guarded = open_gateway(tokens=described(rate=0.01), asks_keys=True)
    assert status(guarded, idp.token(jti="1")) == 202
    done = guarded.post(EVENTS, json=BODY, headers=bearer(idp.token(jti="2")))
    assert problem(done, 429)["detail"] == "token of shop may send 0.01 requests a second"
    assert 1 <= int(done.headers["retry-after"]) <= 100
    assert status(guarded, idp.token(sub="mail")) == 202
    assert status(guarded, idp.token(sub=None)) == 202
    assert status(guarded, idp.token(sub=None)) == 429, "tokens without a subject are one's"
    long = "x" * 300
    assert status(guarded, idp.token(sub=f"{long}1")) == 202
    assert status(guarded, idp.token(sub=f"{long}2")) == 202, "names are cut, subjects are not"
    assert status(guarded, idp.token(sub="late", exp=now() - 600)) == 401
    assert status(guarded, idp.token(sub="late")) == 202, "what counts not costs nothing"
    made = ops.create_key(conn, "shop", ["publish:orders"])
    for _ in range(3):
        assert status(guarded, made.key) == 202


@pytest.mark.long
def test_a_stream_ends_with_its_token(
    open_gateway: Open, orders: Topic, idp: Idp, described
) -> None:
    guarded = open_gateway(tokens=described(leewayS=0))
    began_s = time.monotonic()
    token = idp.token(exp=now() + 2)
    path = "/v1/topics/orders/stream"
    with guarded.client.stream("GET", path, headers=bearer(token), timeout=30) as stream:
        assert stream.status_code == 200
        lines = list(stream.iter_lines())  # to its end: a whole answer, no broken one
    assert lines[0].startswith("retry:")
    assert time.monotonic() - began_s < 12
    assert guarded.get(path, headers=bearer(token)).status_code == 401


def test_a_token_becomes_a_cookie(guarded: Client, idp: Idp) -> None:
    """The page takes one as it takes a key, as long as a browser would keep it."""
    own = {"Sec-Fetch-Site": "same-origin"}
    for token, status_then in ((idp.token(more="x" * 6_000), 400), ("x", 401), (idp.token(), 200)):
        told = guarded.post("/v1/session", json={"key": token}, headers=own)
        assert told.status_code == status_then, told.text
        assert ("set-cookie" in told.headers) == (status_then == 200)
    assert told.json()["caller"] == "token of shop"
    assert told.json()["asks_keys"] is True
    assert guarded.post(EVENTS, json=BODY, headers=own).status_code == 202


@pytest.mark.long
def test_keys_and_tokens_together(
    open_gateway: Open, orders: Topic, idp: Idp, described, conn: Connection
) -> None:
    both = open_gateway(tokens=described(), asks_keys=True)
    made = ops.create_key(conn, "shop", ["publish:orders"])
    assert [status(both, each) for each in (made.key, idp.token(), "x")] == [202, 202, 401]
    tokens_only = open_gateway(tokens=described())
    assert [status(tokens_only, each) for each in (made.key, idp.token())] == [401, 202]


@pytest.mark.long
def test_claims_of_an_issuer_s_own(open_gateway: Open, orders: Topic, idp: Idp, described) -> None:
    """Roles, as Keycloak has them, and what each may do."""
    roles = {"writer": "publish:orders", "boss": ["operate", "publish:*"]}
    guarded = open_gateway(tokens=described(claim="realm_access.roles", scopes=roles))
    for given, answer in (
        (["writer"], 202),
        (["x", "boss"], 202),
        (["publish:orders"], 403),
        ([], 403),
    ):
        assert status(guarded, idp.token(realm_access={"roles": given})) == answer, given
    assert status(guarded, idp.token(realm_access="writer")) == 403


@pytest.mark.long
def test_whose_text_it_is(guarded: Client, idp: Idp) -> None:
    """What a token says of itself goes to logs and answers: no line breaks, and not too much."""
    token = idp.token(sub="a\r\nX-Bad: 1\x1b[31m" + "b" * 5_000, scope="")
    done = guarded.post(EVENTS, json=BODY, headers=bearer(token))
    detail = problem(done, 403)["detail"]
    assert "\x1b" not in detail
    assert len(detail) < 500
    assert "x-bad" not in done.headers


def test_what_a_file_may_say(tmp_path: Path) -> None:
    good = {"issuer": "i", "audience": "a", "keys": "https://x/jwks"}
    path = tmp_path / "t.yml"
    path.write_text(json.dumps(good))
    assert read_issuer(str(path)) == Issuer(issuer="i", audience="a", keys="https://x/jwks")
    bad: list[Any] = [
        {"algorithms": ["none"]}, {"algorithms": ["HS256"]}, {"algorithms": []}, {"algorithms": "RS256"},
        {"keys": "http://idp.example.com/jwks"}, {"keys": "ftp://x/y"}, {"keys": ""}, {"keys": "https://"},
        {"issuer": None}, {"audience": 7}, {"leewayS": 301}, {"leewayS": True}, {"leewayS": "1"},
        {"scopes": []}, {"scopes": {"x": "*"}}, {"scopes": {"x": [1]}}, {"claim": 1}, {"secret": "x"},
        {"rate": 0}, {"rate": -1}, {"rate": True}, {"rate": "1"}, {"rate": float("nan")}, {"rate": 1e7},
    ]  # fmt: skip
    for each in bad:
        path.write_text(json.dumps(good | each))
        with pytest.raises(UsageError, match=r"--tokens .*t\.yml: ") as refused:
            read_issuer(str(path))
        assert "\n" not in str(refused.value)
    for text in ("[", "7", "", "a: !!python/object:os.system x"):
        path.write_text(text)
        with pytest.raises(UsageError):
            read_issuer(str(path))
    with pytest.raises(UsageError, match="No such file"):
        read_issuer(str(tmp_path / "none"))


def test_the_file_of_the_page(tmp_path: Path) -> None:
    (text,) = [
        block.text
        for block in blocks_of(ROOT / "docs" / "use" / "gateway.md")
        if block.language == "yaml"
    ]
    (tmp_path / "t.yml").write_text(text)
    found = read_issuer(str(tmp_path / "t.yml"))
    assert found.scopes == {"writer": ("publish:orders",), "operator": ("operate", "publish:*")}
    assert found.algorithms == ("RS256", "ES256")
    assert found.leeway_s == 30
    assert found.requests_s == 100


def test_scopes_are_those_of_keys(conn: Connection) -> None:
    """Both places take the same."""
    for text in (
        "operate", "publish:a", "publish:*", "read:a*", "consume:a.b", "publish:", "*", "p*", "publish:a*b",
        "publish:a:b", "delete:a", "read:" + "a" * 201, "operate*", " operate", "",
    ):  # fmt: skip
        try:
            ops.create_key(conn, "x", [text])
            taken = True
        except UsageError:
            taken = False
        assert is_scope(text) is taken, text


@pytest.mark.long
def test_the_command(serve: Serve, orders: Topic, idp: Idp, described, tmp_path: Path) -> None:
    """With a file of keys, at its start and afterwards."""
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": idp.keys}))
    gateway = serve("--tokens", described(keys=str(keys)))
    token = idp.token()
    assert status(gateway, token) == 202
    problem(gateway.post(EVENTS, json=BODY), 401)
    assert token not in gateway.log()
