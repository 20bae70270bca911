"""The configurations of docs/run/behind-a-proxy.md, by the real nginx and caddy: streams, sizes, who asks."""

import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import trustme
from psycopg import Connection

from docs.blocks import ROOT, blocks_of
from gapless.log.topics import Topic
from support.fleet import until
from support.gateways import EVENTS, Client, Open, problem
from support.ports import free_port

PAGE = ROOT / "docs" / "run" / "behind-a-proxy.md"
pytestmark = pytest.mark.long
_NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {site}
}}
"""


def configuration(language: str, changes: dict[str, str]) -> str:
    """What the page says, with the names of this machine."""
    (text,) = [block.text for block in blocks_of(PAGE) if block.language == language]
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@contextmanager
def running(words: list[str], port: int, folder: Path, trusts: ssl.SSLContext) -> Iterator[Client]:
    """A proxy, and a client of it."""
    log_path = folder / "log"
    with log_path.open("wb") as log:
        home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | home)
    try:
        client = Client(f"https://localhost:{port}")
        client.client = httpx.Client(base_url=client.url, verify=trusts, timeout=60)

        def is_up() -> bool:
            assert process.poll() is None, log_path.read_text()
            try:
                return client.get("/healthz").status_code == 200
            except httpx.TransportError:
                return False

        until(is_up, "the proxy answers", within=log_path.read_text)
        yield client
        client.client.close()
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def proxied(
    request: pytest.FixtureRequest, open_gateway: Open, orders: Topic, tmp_path: Path
) -> Iterator[Client]:
    """A gateway behind nginx, or caddy."""
    path, port = program(request.param), free_port()
    gateway = open_gateway(operates=True, proxies=("127.0.0.1",))
    upstream = gateway.url.removeprefix("http://")
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    trusts = ssl.create_default_context()
    authority.configure_trust(trusts)
    if request.param == "nginx":
        site = configuration(
            "nginx",
            {
                "127.0.0.1:8080": upstream,
                "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
                "/etc/ssl/log.example.com.pem": str(cert),
                "/etc/ssl/log.example.com.key": str(key),
            },
        )
        config = tmp_path / "nginx.conf"
        config.write_text(_NGINX.format(folder=tmp_path, site=site))
        words = [path, "-p", str(tmp_path), "-c", str(config)]
    else:
        site = configuration(
            "caddyfile",
            {
                "127.0.0.1:8080": upstream,
                "log.example.com {": f"https://localhost:{port} {{\n tls {cert} {key}\n bind 127.0.0.1",
            },
        )
        config = tmp_path / "Caddyfile"
        config.write_text("{\n admin off\n auto_https off\n}\n" + site)
        words = [path, "run", "--config", str(config), "--adapter", "caddyfile"]
    with running(words, port, tmp_path, trusts) as client:
        yield client


@pytest.mark.parametrize("proxied", ["nginx", "caddy"], indirect=True)
def test_a_proxy(proxied: Client, conn: Connection, caplog: pytest.LogCaptureFixture) -> None:
    # A stream comes through as it grows, not when it is long enough.
    with proxied.client.stream("GET", "/v1/topics/orders/stream", timeout=40) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry:")
        time.sleep(0.2)
        publishes = threading.Thread(target=proxied.publish, args=(7,), kwargs={"wait": "offset"})
        publishes.start()
        assert any("payload" in line for line in lines)
        publishes.join()
    # A long poll of more than a moment is waited for.
    conn.execute("select gapless.create_group('letters', 'orders', 'latest', mode => 'queue')")
    done = proxied.post("/v1/groups/letters/take", json={"topic": "orders"}, params={"wait": 3})
    assert done.status_code == 204
    # Bodies of a few MiB pass; too large ones do not.
    big = {"payload": "a" * 900_000}
    assert proxied.post(EVENTS, json=[big] * 5).status_code == 202
    assert proxied.post(EVENTS, json=[big] * 20).status_code == 413
    assert problem(proxied.post(EVENTS, json={"payload": "a" * 1_200_000}), 413)
    # Who asks is who asked the proxy, whatever he says of himself.
    caplog.set_level("INFO", "gapless.gateway")
    conn.execute("select gapless.create_group('billing', 'orders')")
    headers = {"X-Forwarded-For": "198.51.100.7"}
    assert proxied.post("/v1/groups/billing/pause", json={}, headers=headers).status_code == 200
    assert " at 127.0.0.1: " in caplog.messages[-1]
