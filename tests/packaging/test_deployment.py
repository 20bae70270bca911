"""config/deploy: what its files name is there, and their times fit one another."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapless.cli.commands import parser_of
from gapless.settings import Settings
from gapless.telemetry.names import METRICS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "config" / "deploy"
SECONDS = re.compile(r"(\d+)s")


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def unit() -> dict[str, list[str]]:
    """The settings of the systemd unit, by name; a name may be there more than once."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "gapless@.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def containers() -> Iterator[dict[str, Any]]:
    for document in documents("kubernetes.yml"):
        template = document["spec"].get("template")
        if template is not None:
            yield from template["spec"]["containers"]


def commands() -> Iterator[list[str]]:
    """Every command of gapless that the files give."""
    for service in documents("compose.yml")[0]["services"].values():
        if "command" in service:
            yield service["command"]
    for container in containers():
        yield container["args"]
    yield shlex.split(unit()["ExecStart"][0].replace("%H-%i", "a-1"))[1:]


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_the_commands(words: list[str]) -> None:
    parser_of(words[0]).parse_args(words)


def test_the_environment() -> None:
    """A name that is no setting would be passed over in silence."""
    known = {f"GAPLESS_{name.replace('_', '').upper()}" for name in Settings.__dataclass_fields__}
    named = {each["name"] for container in containers() for each in container["env"]}
    named |= set(documents("compose.yml")[0]["x-gapless"]["environment"]) - {"PGPASSWORD"}
    assert named <= known


def test_they_have_time_to_drain() -> None:
    drain_s = Settings().drain_timeout_ms / 1000
    compose = documents("compose.yml")[0]["services"]["supervisor"]["stop_grace_period"]
    (deployment,) = [each for each in documents("kubernetes.yml") if each["kind"] == "Deployment"]
    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    found = SECONDS.fullmatch(compose)
    assert found
    for given_s in (int(found[1]), grace, int(unit()["TimeoutStopSec"][0])):
        assert given_s >= drain_s + 10
    assert unit()["KillMode"] == ["mixed"]


def test_the_watchdog_has_patience() -> None:
    """An attempt to connect may take the supervisor's loop as long as that."""
    settings = Settings()
    silence_s = settings.member_ttl_ms / 1000 + settings.connect_timeout_s
    assert int(unit()["WatchdogSec"][0]) > silence_s
    assert unit()["Type"] == ["notify"]


def test_the_ports() -> None:
    (supervisor,) = [each for each in containers() if each["name"] == "supervisor"]
    (port,) = supervisor["ports"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert supervisor[probe]["httpGet"]["port"] == port["name"]
    for words in commands():
        if "--metrics" in words:
            assert words[words.index("--metrics") + 1].endswith(f":{port['containerPort']}")
    assert f"EXPOSE {port['containerPort']}" in (DEPLOY / "Dockerfile").read_text()
    assert f":{port['containerPort']}/healthz" in (DEPLOY / "compose.yml").read_text()


def test_nobody_is_root() -> None:
    for document in documents("kubernetes.yml"):
        template = document["spec"].get("template")
        if template is not None:
            assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    user = re.search(r"^USER (\d+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert user, "a number: Kubernetes cannot tell whether a name is root's"
    assert int(user[1]) > 0


def test_the_scaling_asks_for_what_is_measured() -> None:
    (scaled,) = documents("keda.yml")
    (trigger,) = scaled["spec"]["triggers"]
    names = re.findall(r"gapless_\w+", trigger["metadata"]["query"])
    assert names
    assert all(set(METRICS[name].labels) >= {"topic", "group", "partition"} for name in names)
    kinds = {each["metadata"]["name"]: each["kind"] for each in documents("kubernetes.yml")}
    assert scaled["spec"]["scaleTargetRef"]["name"] in kinds


def test_the_image_copies_what_the_wheel_needs() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    pyproject = (ROOT / "pyproject.toml").read_text()
    section = pyproject.partition("[tool.hatch.build.targets.wheel")[2].partition("\n[tool.check")[
        0
    ]
    for needed in re.findall(r'^"(\w+)(?:/\S*)?" = ', section, re.MULTILINE):
        assert needed not in ignored
    assert "README.md" not in ignored


def test_the_handlers_compile() -> None:
    tree = ast.parse((DEPLOY / "app.py").read_text())
    assert any(isinstance(node, ast.FunctionDef) for node in tree.body)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not on this machine")
    text = (DEPLOY / "gapless@.service").read_text()
    text = text.replace("/opt/gapless/bin/gapless", sys.executable).replace(
        "=/opt/gapless", f"={tmp_path}"
    )
    path = tmp_path / "gapless@1.service"
    path.write_text(text)
    done = subprocess.run(
        [analyze, "verify", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    about_it = [line for line in done.stderr.splitlines() if "gapless@" in line]
    assert (done.returncode, about_it) == (0, [])
