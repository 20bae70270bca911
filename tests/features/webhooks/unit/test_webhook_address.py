"""Which URLs and addresses webhooks may call: whatever form a private address has, it is refused."""

import asyncio
import socket
from ipaddress import ip_address
from typing import Any

import pytest

from gapless.errors import UsageError
from gapless.features.webhooks.address import (
    EndpointAddress,
    RefusedAddressError,
    networks_of,
    parse_target,
    resolve,
    why_refused,
)

# Addresses, as a look-up gives them, that no webhook calls.
REFUSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.1.2.3",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "64:ff9b::a83f:8110",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:7f00:1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a00:1::",
    "2606:4700::5efe:7f00:1",
    "2606:4700::200:5efe:a00:1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456:789a::1",
    "fd00:ec2::254",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "4000::1",
    "fe80::1%1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]
PUBLIC += ["64:ff9b::8.8.8.8", "192.0.1.1", "198.20.0.1", "223.255.255.254", "2a00:1450::1"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_on_the_internet_is_refused(text: str) -> None:
    assert why_refused(ip_address(text)) is not None


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_on_the_internet_may_be_called(text: str) -> None:
    assert why_refused(ip_address(text)) is None


def test_a_network_may_be_allowed() -> None:
    allowed = networks_of(["10.1.2.0/24", "fd00::/8"])
    assert why_refused(ip_address("10.1.2.3"), allowed) is None
    assert why_refused(ip_address("::ffff:10.1.2.3"), allowed) is None
    assert why_refused(ip_address("fd00::1"), allowed) is None
    assert why_refused(ip_address("10.1.3.3"), allowed) == "private"
    assert why_refused(ip_address("127.0.0.1"), allowed) == "loopback"
    with pytest.raises(UsageError, match=r"webhookAllow: .*nonsense"):
        networks_of(["nonsense"])


# URLs that are refused before anybody looks anything up.
NO_URL = [
    "",
    "shop.example/hooks",
    "//shop.example/",
    "ftp://shop.example/",
    "file:///etc/passwd",
    "gopher://shop.example/",
    "http://shop.example/",
    "https://",
    "https:///hooks",
    "https://user@shop.example/",
    "https://user:pw@shop.example/",
    "https://shop.example@127.0.0.1/",
    "https://shop.example#@127.0.0.1/",
    "https://shop.example\\@127.0.0.1/",
    "https://shop.example/#fragment",
    "https://shop.example/a b",
    "https://shop.example/\r\nHost: x",
    "https://shop.example/\t",
    "https://shop.example/\0",
    "https://shöp.example/",
    "https://127。0。0。1/",
    "https://①②⑦.0.0.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://127.1/",
    "https://127.0.1/",
    "https://0/",
    "https://1.2.3.4.5/",
    "https://256.1.1.1/",
    "https://127.0.0.1x.0x1/",
    "https://a..b/",
    "https://-a.example/",
    "https://a%2eb.example/",
    "https://[::1/",
    "https://[::g]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://shop.example:0/",
    "https://shop.example:65536/",
    "https://shop.example:x/",
    "https://" + "a" * 64 + ".example/",
    "https://" + "a." * 130 + "example/",
    "https://shop.example/" + "x" * 2000,
]


@pytest.mark.parametrize("url", NO_URL, ids=lambda url: repr(url)[:50])
def test_what_is_no_url_to_call_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_target(url)
    assert "\n" not in str(found.value)


def test_a_url_is_taken_apart_once() -> None:
    target = parse_target("https://Shop.Example.:8443/a/../b?x=1&y=%20")
    assert target == EndpointAddress("https", "shop.example", 8443, b"/a/../b?x=1&y=%20")
    assert target.authority == "shop.example:8443"
    assert str(parse_target("https://shop.example/secret?token=1")) == "https://shop.example"
    assert parse_target("https://[2606:4700::1]/").authority == "[2606:4700::1]"
    assert parse_target("http://shop.example", allow_http=True).port == 80


def _answers(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Let names have these addresses; return who is looked up."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, 1, 6, "", (each, port))
            for each in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


NAMED = parse_target("https://shop.example/")


def test_a_name_with_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for private in ("127.0.0.1", "::ffff:10.0.0.1", "169.254.169.254", "fd00::1"):
        _answers(monkeypatch, private)
        with pytest.raises(RefusedAddressError, match=r"https://shop\.example is at"):
            asyncio.run(resolve(NAMED))


def test_one_private_address_among_public_ones_refuses_all(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, "8.8.8.8", "10.0.0.1")
    with pytest.raises(RefusedAddressError, match=r"10\.0\.0\.1, which is private"):
        asyncio.run(resolve(NAMED))


def test_public_addresses_are_returned_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _answers(monkeypatch, "8.8.8.8", "2606:4700::1111", "8.8.8.8")
    assert asyncio.run(resolve(NAMED)) == ["8.8.8.8", "2606:4700::1111"]
    assert asked == ["shop.example"]


@pytest.mark.parametrize("host", ["localhost", "localhost.", "LOCALHOST", "127.0.0.1", "[::1]"])
def test_names_of_this_machine_are_refused(host: str) -> None:
    with pytest.raises((RefusedAddressError, OSError)):
        asyncio.run(resolve(parse_target(f"https://{host}/")))
