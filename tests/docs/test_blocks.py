"""What README and docs print can be typed as it stands there: every block of code is run.

As a reader does it: README on a machine with nothing, then each page and each example, in order, with one
server and one HOME. No page and no example may stumble over what one before it left.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

import gapless
from docs.blocks import PAGES, ROOT, Block, UndecidedError, blocks_of
from docs.examples import VARIES, play, said
from docs.terminal import Terminal
from gapless import ops
from gapless.features.server.server import stop
from gapless.log.topics import ensure_topic
from gapless.settings import Settings

PATIENCE_S = 60
README = ROOT / "README.md"
# Run with --long: pages of many commands. What they say of commands has its tests in tests/cli.
EXPENSIVE = {
    *("attach.md", "classic.md", "compaction.md", "messages.md", "filters.md", "gateway.md"),
    *("scheduled.md", "operations.md", "queue.md", "schemas.md", "subscriptions.md", "testing.md"),
    "webhooks.md",
    *(page.name for page in PAGES if page.parent.name == "from"),
}
EXAMPLES = ("shop", "mail", "notifications", "fastapi", "flask", "django")
_TOP = 60  # lines: two screens


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_decided(page: Path) -> None:
    blocks_of(page)


def test_an_undecided_block_is_a_mistake(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text in ("```\ngapless init\n```\n", "```toml\na = 1\n```\n"):
        page.write_text(text)
        with pytest.raises(UndecidedError, match=r"page.md line 1: .*not run: WHY"):
            blocks_of(page)
        page.write_text(f"<!-- not run: it takes an hour -->\n{text}")
        (block,) = blocks_of(page)
        assert block.why_not == "it takes an hour"


def test_the_first_thing_that_runs_comes_within_two_screens() -> None:
    first = next(block for block in blocks_of(README) if block.why_not is None)
    assert first.line <= _TOP


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that root's server, which runs as nobody, can enter."""
    made = Path(tempfile.mkdtemp(prefix="gapless-docs-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    for name in ("default", "demo"):
        stop(made / "home" / name)
    shutil.rmtree(made)


@pytest.fixture
def server(folder: Path) -> str:
    """The DSN of the server of README's shop, whether that ran or not; a page may have stopped it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAPLESS_HOME", str(folder / "home"))
        dsn = str(ops.start_server().url)
    with gapless.connect(dsn, autocommit=True) as conn:
        ops.install_schema(conn)
        ensure_topic(conn, "orders", partitions=Settings().total_partitions)
    return dsn


@pytest.fixture
def terminal(folder: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_one(**env: str) -> Terminal:
        opened.append(Terminal(folder, GAPLESS_HOME=str(folder / "home"), **env))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_readme_runs(terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch) -> None:
    shell = terminal()
    said = {}
    for block in _to_run(README):
        said[block] = _run(block, shell, {}, lambda: shell.type("gapless server url").strip())
    assert any("All agrees with the file" in text for text in said.values())
    assert "background" not in shell.say("GAPLESS_DSN")
    dsn = shell.type("gapless server url").strip()
    with psycopg.connect(dsn, autocommit=True) as conn:  # one from Python, two from SQL
        _wait_until(lambda: conn.execute("select * from bill").fetchall() == [("AA", 5)] * 3)
    assert "nothing yet" not in shell.type("gapless server status --name demo")
    shell.type("gapless server start --name demo")
    kept = shell.type('GAPLESS_DSN="$(gapless server url --name demo)" gapless topics')
    assert "flights" in kept, "the demo that was kept survives a stop"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.long if page.name in EXPENSIVE else (), id=page.name)
        for page in PAGES[1:]
        if any(block.why_not is None for block in blocks_of(page))
    ],
)
def test_a_page_runs(
    page: Path,
    terminal: Callable[..., Terminal],
    server: str,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = terminal(GAPLESS_DSN=server)
    monkeypatch.syspath_prepend(str(shell.folder))
    monkeypatch.delitem(__import__("sys").modules, "shop", raising=False)
    # Whom a page's own provider would outlast: the tests after it in this process.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    names: dict[str, object] = {"gapless": gapless, "dsn": dsn}  # dsn: of a test of theirs
    if page.name == "operations.md":
        _open_the_shop(shell)
    for block in _to_run(page):
        with gapless.connect(server) if block.language == "python" else nullcontext() as conn:
            names["conn"] = conn
            _run(block, shell, names, lambda: server)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_as_its_readme_says(example: str, server: str) -> None:
    _, expected = said(example)
    printed = play(example, server)
    if example in VARIES:
        printed, expected = (VARIES[example].sub("N", text) for text in (printed, expected))
    assert printed == expected


def test_every_example_is_run() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    # flights are the demo; spark has tests/features/spark/engine/test_examples.py
    assert folders == {*EXAMPLES, "flights", "spark"}


def _to_run(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.why_not is None]


def _open_the_shop(shell: Terminal) -> None:
    shop = next(block for block in blocks_of(README) if block.text.startswith("# shop.py"))
    (shell.folder / "shop.py").write_text(shop.text)
    shell.type("gapless topics create orders\npython shop.py\ngapless run shop.py")


def _run(
    block: Block, shell: Terminal, names: dict[str, object], find_dsn: Callable[[], str]
) -> str:
    if block.language == "sh":
        return shell.type(block.text)
    if block.language == "sql":
        with psycopg.connect(find_dsn(), autocommit=True) as conn:
            conn.execute(block.text.encode())
        return ""
    first = block.text.split("\n", 1)[0]
    if first.startswith("# ") and first.endswith(".py"):
        (shell.folder / first.removeprefix("# ")).write_text(block.text)
        return ""
    names.setdefault("gapless", gapless)
    before = set(names)
    exec(compile(block.text, str(block), "exec"), names)
    for name in set(names) - before:
        if name.startswith("test_"):
            names[name](names["dsn"])  # type: ignore[operator]
    return ""


def _wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.2)
