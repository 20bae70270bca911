"""To which names a gateway answers that anybody on its machine may use (DNS rebinding)."""

import pytest

from gapless.errors import UsageError
from gapless.features.gateway.hosts import name_in, names_of
from gapless.log.topics import Topic
from support.gateways import Client, Open

OWN = [
    "localhost", "LocalHost", "localhost.", "localhost:8080", "localhost:", "127.0.0.1", "127.0.0.1:1",
    "[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]", "log.example.com", "LOG.example.com.:443",
]  # fmt: skip
OTHERS = [
    "evil.example.com", "localhost.evil.example.com", "evil.localhost", "log.example.com.evil", "127.1",
    "2130706433", "0x7f.0.0.1", "10.0.0.1", "[::2]", "[::ffff:127.0.0.1]", "0.0.0.0", "xlog.example.com",
]  # fmt: skip
NONE = [
    "", " ", "a b", "a,localhost", "localhost/", "user@localhost", "localhost:80:80", "localhost:x",
    "localhost:65536", "localhost:-1", "::1", "[::1", "[::1]x", "[::1%25eth0]", "[localhost]", "a..b",
    ".localhost", "localhost..", "loc%61lhost", "l\xf6calhost", "http://localhost", "-a", "a" * 64, "*",
]  # fmt: skip


def ask(gateway: Client, *hosts: str, target: str = "/healthz", version: str = "1.1") -> str:
    """Return the status of the answer."""
    lines = [f"GET {target} HTTP/{version}", *(f"Host: {host}" for host in hosts)]
    found = gateway.raw("\r\n".join([*lines, "Connection: close", "\r\n"]).encode("latin-1"))
    return found[9:12].decode()


def test_without_keys_it_answers_to_its_own_names(open_gateway: Open, orders: Topic) -> None:
    gateway = open_gateway(hosts=("log.example.com",))
    for status, hosts in (("200", OWN), ("421", OTHERS), ("400", NONE)):
        for host in hosts:
            assert (ask(gateway, host), host) == (status, host)
    for target in ("/", "/v1/status", "/v1/nothing", "/page/app.js"):
        assert ask(gateway, "evil.example.com", target=target) == "421"
    answer = gateway.get("/healthz", headers={"Host": "evil.example.com"})
    assert answer.json()["detail"].endswith("add --host evil.example.com to it")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_request_has_one_name(gateway: Client) -> None:
    """In HTTP/1.0, too; and what an absolute target says has to be right as well."""
    for version in ("1.0", "1.1"):
        assert ask(gateway, version=version) == "400"
        assert ask(gateway, "localhost", "localhost", version=version) == "400"
        assert ask(gateway, "localhost", "evil.example.com", version=version) == "400"
        assert ask(gateway, "evil.example.com", version=version) == "421"
        assert ask(gateway, "localhost", version=version) == "200"
    for target, status in (
        ("http://localhost/healthz", "200"),
        ("HTTPS://LOCALHOST.:1/healthz", "200"),
        ("http://evil.example.com/healthz", "421"),
        ("http://localhost@evil.example.com/healthz", "400"),
        ("http:///healthz", "400"),
    ):
        assert (ask(gateway, "localhost", target=target), target) == (status, target)
    assert ask(gateway, "evil.example.com", target="http://localhost/healthz") == "421"


def test_with_keys_it_answers_to_any_name(open_gateway: Open, orders: Topic) -> None:
    """A page that knows none of its keys can do nothing; unless it was told its names."""
    gateway = open_gateway(asks_keys=True)
    assert [ask(gateway, host) for host in (OWN[0], OTHERS[0], NONE[0])] == ["200", "200", "400"]
    named = open_gateway(asks_keys=True, hosts=("log.example.com",))
    assert [ask(named, host) for host in ("log.example.com", OTHERS[0])] == ["200", "421"]


def test_names_that_are_given() -> None:
    local = {"localhost", "127.0.0.1", "[::1]"}
    assert names_of((), "127.0.0.1") == local
    assert names_of((), "::1") == local
    assert names_of(("A.b.", "::2", "[::3]"), "127.0.0.5") == {
        *local, "127.0.0.5", "a.b", "[::2]", "[::3]",
    }  # fmt: skip
    for wrong in ("", "a:80", "[::1]:80", "http://a", "*", "a b"):
        with pytest.raises(UsageError, match="--host"):
            names_of((wrong,), "127.0.0.1")
    assert name_in("a" * 63 + ".") == "a" * 63
