"""What README and docs print can be typed as it stands there: every block of code is run.

As a reader does it: README on a machine with nothing, then each page and each example, in order, with one
server and one HOME. No page and no example may stumble over what one before it left.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

import gapless
from docs.blocks import PAGES, ROOT, Block, UndecidedError, blocks_of
from docs.examples import VARIES, said
from docs.prints import differences, rows_shown
from docs.terminal import Terminal, longer
from support.servers import AS_ROOT, environment_of, open_folder

PATIENCE_S = 60
README = ROOT / "README.md"
# Each block of these pages says what it prints.
TYPED = (README, *(page for page in PAGES if page.parent.name in {"start", "learn", "use", "run"}))
# Run with --long: pages of many commands. What they say of commands has its tests in tests/cli.
EXPENSIVE = {
    *("attach.md", "classic.md", "compaction.md", "failures.md", "messages.md", "filters.md"),
    *("gateway.md", "scheduled.md", "operations.md", "queue.md", "schemas.md", "subscriptions.md"),
    *("testing.md", "webhooks.md"),
    *(page.name for page in PAGES if page.parent.name == "from"),
}
PLAIN = "a plain user"
USERS = ("root", PLAIN) if AS_ROOT else (PLAIN,)
ANY = "anyone"  # of the users that can run Python here, the one with the fewest rights
EXAMPLES = ("shop", "mail", "notifications", "fastapi", "flask", "django")
_STARTS = re.compile(r"gapless (server start|demo)\b")
_SLEEP = re.compile(r"\bpg_sleep\((\d+)\)")
_TOP = 60  # lines: two screens


@dataclass(frozen=True)
class Home:
    """A user's folder and environment; account: None is the one of this process."""

    folder: Path
    account: str | None
    env: dict[str, str]


def _typists(page: Path) -> tuple[str, ...]:
    """Return the users that type a page: root, too, where it starts a server, as another account."""
    starts = any(_STARTS.search(block.text) for block in _to_run(page))
    return USERS if starts else (ANY,)


def _to_run(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.why_not is None]


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


@pytest.mark.parametrize(
    ("printed", "shown", "alike"),
    [
        ("a  b\n", "a b", True),
        ("a b\n", "a c", False),
        ("a\n", "", False),
        ("", "a", False),
        ("a\nb\n", "a", False),
        ("a\nb\nc\n", "…\nc", True),
        ("a\nb\nc\n", "…\nb", False),
        ("c\n", "…\nc", True),
        ("lag 0 (350ms), up 2.1s\n", "lag 0 (4m), up 45s", True),
        ("lag 1 (350ms)\n", "lag 0 (4m)", False),
        ("2@1 2026-11-29T01:13:14.026Z Ann\n", "2@1 2026-03-01T12:00:00Z Ann", True),
        ("2@1 2026-11-29T01:13:14.026Z Ann\n", "2@1 2026-03-01T12:00:00Z Ben", False),
        ("9 events (1,980 events/s)\n", "9 events (720 events/s)", True),
        ("8 events (1,980 events/s)\n", "9 events (720 events/s)", False),
        ("http://127.0.0.1:40123/\n", "http://127.0.0.1:8080/", True),
        ("ValueError: 1 of shop-17\n", "ValueError: … of …", True),
    ],
)
def test_an_output_is_compared_but_for_times_and_widths(
    printed: str, shown: str, alike: bool
) -> None:
    assert (differences(printed, shown) == "") is alike


def test_the_first_thing_that_runs_comes_within_two_screens() -> None:
    first = next(block for block in blocks_of(README) if block.why_not is None)
    assert first.line <= _TOP


@pytest.fixture(scope="module")
def homes() -> Iterator[Callable[[str], Home]]:
    """The homes of users, each in a folder of his own, which root's server can enter, too."""
    with ExitStack() as stack:

        @cache
        def home_of(user: str) -> Home | None:
            made = stack.enter_context(open_folder("gapless-docs-"))
            made.chmod(0o755)
            env = {"HOME": str(made), "GAPLESS_HOME": str(made / "home")}
            if user != PLAIN or not AS_ROOT:
                return Home(made, None, env)
            found = environment_of("nobody", made)
            return None if found is None else Home(made, "nobody", env | found)

        def of_one_who_can(user: str) -> Home:
            home = home_of(PLAIN if user == ANY else user)
            if home is None and user == ANY:
                home = home_of("root")
            if home is None:
                pytest.skip("no Python here that user nobody can run")
            return home

        yield of_one_who_can


@pytest.fixture
def terminal(homes: Callable[[str], Home], user: str) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_one(**env: str) -> Terminal:
        home = homes(user)
        opened.append(Terminal(home.folder, home.account, **home.env, **env))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def started() -> dict[Path, str]:
    """The DSNs of servers, by whose home they are in."""
    return {}


@pytest.fixture
def server(
    terminal: Callable[..., Terminal],
    homes: Callable[[str], Home],
    user: str,
    started: dict[Path, str],
) -> str:
    """The DSN of the server of README's shop, whether that ran or not; a page may have stopped it."""
    folder = homes(user).folder
    with suppress(KeyError, psycopg.OperationalError), psycopg.connect(started[folder]):
        return started[folder]
    shell = terminal()
    shell.type("gapless server start")
    started[folder] = shell.type("gapless server url").strip()
    shell.type("gapless init; gapless topics create orders")
    return started[folder]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("user", USERS)
def test_readme_runs(terminal: Callable[..., Terminal]) -> None:
    shell = terminal()
    for block in _to_run(README):
        _run(block, shell, {}, lambda: shell.type("gapless server url").strip())
    assert "background" not in shell.say("GAPLESS_DSN")
    dsn = shell.type("gapless server url").strip()
    with psycopg.connect(dsn, autocommit=True) as conn:  # one from Python, two from SQL
        _wait_until(lambda: conn.execute("select * from bill").fetchall() == [("AA", 5)] * 3)
    assert "nothing yet" not in shell.type("gapless server status --name demo")
    shell.type("gapless server start --name demo")
    kept = shell.type('GAPLESS_DSN="$(gapless server url --name demo)" gapless topics')
    assert "flights" in kept, "the demo that was kept survives a stop"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("user", "page"),
    [
        pytest.param(
            user,
            page,
            marks=pytest.mark.long if page.name in EXPENSIVE or user == "root" else (),
            id=f"{user}-{page.parent.name}/{page.name}",
        )
        for page in PAGES[1:]
        if _to_run(page)
        for user in _typists(page)
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
@pytest.mark.timeout(400)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_as_its_readme_says(
    example: str, terminal: Callable[..., Terminal], server: str
) -> None:
    command, expected = said(example)
    printed = terminal(GAPLESS_DSN=server).type(f"cd {ROOT}\n{command}")
    if example in VARIES:
        printed, expected = (VARIES[example].sub("N", text) for text in (printed, expected))
    assert printed == expected


def test_every_example_is_run() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    # flights are the demo; spark has tests/features/spark/engine/test_examples.py
    assert folders == {*EXAMPLES, "flights", "spark"}


def _open_the_shop(shell: Terminal) -> None:
    shop = next(block for block in blocks_of(README) if block.text.startswith("# shop.py"))
    (shell.folder / "shop.py").write_text(shop.text)
    shell.type("gapless topics create orders\npython shop.py\ngapless run shop.py")


def _run(
    block: Block, shell: Terminal, names: dict[str, object], find_dsn: Callable[[], str]
) -> None:
    """Run a block, and compare what it prints with what the page says."""
    printed = _printed(block, shell, names, find_dsn)
    if printed is not None and (block.prints or block.page in TYPED):
        different = differences(printed, block.prints)
        assert not different, f"{block} prints something else than the page says:\n{different}"


def _printed(
    block: Block, shell: Terminal, names: dict[str, object], find_dsn: Callable[[], str]
) -> str | None:
    """Run a block, and return what it prints; None for a file, which a later block runs."""
    if block.language == "sh":
        return shell.type(block.text)
    if block.language == "sql":
        text = _SLEEP.sub(lambda pause: f"pg_sleep({longer(int(pause[1])):.0f})", block.text)
        with psycopg.connect(find_dsn(), autocommit=True) as conn:
            return rows_shown(conn.execute(text.encode()))
    first = block.text.split("\n", 1)[0]
    if first.startswith("# ") and first.endswith(".py"):
        (shell.folder / first.removeprefix("# ")).write_text(block.text)
        return None
    names.setdefault("gapless", gapless)
    before = set(names)
    with redirect_stdout(StringIO()) as out:
        exec(compile(block.text, str(block), "exec"), names)
        for name in set(names) - before:
            if name.startswith("test_"):
                names[name](names["dsn"])  # type: ignore[operator]
    return out.getvalue()


def _wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.2)
