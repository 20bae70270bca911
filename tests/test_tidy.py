"""House rules (docs/why/style.md) as a test: sizes, docstrings, no SQL in Python, units in names.

They hold for all Python there is: the packages, tests, benchmarks, examples and the scripts in bin.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "supervisor" / "gapless"
PACKAGES = ROOT / "supervisor"
PLACES = ("supervisor", "tests", "benchmarks", "examples", "bin")
EVERYTHING = sorted(path for place in PLACES for path in (ROOT / place).rglob("*.py"))
SHIPPED = [path for path in EVERYTHING if path.is_relative_to(PACKAGES)]
LINES_MAX = 300
TOOL_LINES_MAX = 400  # what tests are made with
TEST_LINES_MAX = 750  # a file of tests: a list of promises
FUNCTION_LINES_MAX = 50
SQL_LINE_MAX = 100  # characters, in Python
SQL_LINE_CHARACTERS_MAX = 120  # in SQL
_SQL = re.compile(
    r"\s*(select|insert|update|delete|with|create|alter|drop|begin|do|copy)\b.*\b"
    r"(from|into|set|table|as|function|exists)\b",
    re.IGNORECASE | re.DOTALL,
)
_NOWHERE = re.compile(r"(?:utils?|common|helpers?|misc|shared|tools?)(?:\.py)?")

_TIME = re.compile(
    r"(?:^|_)(?:timeout|wait|delay|interval|period|ttl|grace|pause|patience|deadline|duration|elapsed|"
    r"give_up|due|began|begun|backoff|rest|sleep|poll|silence|beat|retention|age|took|latency)(?:_|$)",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(?:^|_)(?:size|length|limit|buffer|capacity|memory)(?:_|$)", re.IGNORECASE)
_UNIT = re.compile(
    r"(?:^|_)(?:s|ms|us|ns|seconds|minutes|hours|days|ts|bytes|kb|mb|events|units|rows|lines|characters|"
    r"letters|calls|columns|ids|keys|partitions)(?:_(?:max|min))?$",
    re.IGNORECASE,
)
# Names that say no unit, and why they may.
WITHOUT_UNIT = {
    "batch_size": "events: a setting, and an option of a handler, that users write",
    "_batch_size": "the same",
    "capacity": "partitions: a setting that users write",
    "limit": "as many as --limit says of what is listed",
    "due": "seconds of the server's clock, as all columns of the checker's history",
    "began": "a moment of time.monotonic(), or of the checker's history",
    "_chunks_due": "a moment of time.monotonic()",
    "delay_min": "minutes: a column of the data of the flights",
    "dep_delay_min": "the same",
    "arr_delay_min": "the same",
    "dep_delay_min_sum": "the same",
    "arr_delay_min_sum": "the same",
    "size": "of the thing itself: lines of a batch, bytes of a file",
}


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def _broken(rule: Callable[[Path], Iterator[str]], paths: Iterable[Path]) -> str:
    """Where a rule is broken, a line each. One test a rule: one a file and rule would be thousands."""
    return "\n".join(f"{path.relative_to(ROOT)}: {why}" for path in paths for why in rule(path))


def lines_max(path: Path) -> int:
    """How long a file may be."""
    if path == ROOT / "supervisor" / "gapless" / "ops" / "__init__.py":
        return 2 * LINES_MAX  # a list of names, three times: for types, for readers, for the import
    if not path.is_relative_to(ROOT / "tests"):
        return LINES_MAX
    return TEST_LINES_MAX if path.name.startswith("test_") else TOOL_LINES_MAX


def test_a_file_is_one_idea() -> None:
    def rule(path: Path) -> Iterator[str]:
        lines = len(_text(path).splitlines())
        if lines > lines_max(path):
            yield f"{lines} lines"

    assert not _broken(rule, EVERYTHING)


@pytest.mark.long
def test_a_module_says_what_it_owns() -> None:
    def rule(path: Path) -> Iterator[str]:
        if not ast.get_docstring(_tree(path)):
            yield "no docstring"

    assert not _broken(rule, EVERYTHING)


@pytest.mark.long
def test_a_function_does_one_thing() -> None:
    def rule(path: Path) -> Iterator[str]:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (node.end_lineno or 0) - (body[0].lineno if body else node.lineno) + 1
                if lines > FUNCTION_LINES_MAX:
                    yield f"{node.name} has {lines} lines"

    assert not _broken(rule, EVERYTHING)


def test_no_sql_in_python() -> None:
    def rule(path: Path) -> Iterator[str]:
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(_tree(path))
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(_tree(path)):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            if id(node) in docstrings or not _SQL.match(node.value):
                continue
            if "\n" in node.value.strip() or len(node.value) >= SQL_LINE_MAX:
                yield f"line {node.lineno}: SQL belongs into sql/"

    assert not _broken(rule, SHIPPED)


def test_nothing_is_left_for_later() -> None:
    def rule(path: Path) -> Iterator[str]:
        yield from re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b", _text(path))

    assert not _broken(rule, [path for path in EVERYTHING if path != Path(__file__)])


@pytest.mark.long
def test_nobody_prints_but_the_command_line() -> None:
    def rule(path: Path) -> Iterator[str]:
        for node in ast.walk(_tree(path)):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and ast.unparse(node.func) == "print":  # type: ignore[attr-defined]
                yield f"line {node.lineno}: print outside the command line"

    screens = {"cli", "demo"}
    assert not _broken(rule, [path for path in SHIPPED if path.parts[-2] not in screens])


@pytest.mark.long
def test_a_number_has_its_unit_in_its_name() -> None:
    def rule(path: Path) -> Iterator[str]:
        for line, name in _unnamed_units_of(path):
            if name not in WITHOUT_UNIT:
                yield f"line {line}: {name} of what? See docs/why/style.md, Names"

    assert not _broken(rule, EVERYTHING)


@pytest.mark.long
def test_every_exception_is_needed() -> None:
    found = {name for path in EVERYTHING for _, name in _unnamed_units_of(path)}
    assert not set(WITHOUT_UNIT) - found


def test_a_number_without_a_unit_is_found() -> None:
    source = (
        "WAIT = 3\nWAIT_S = 3\n"
        "def f(timeout: float, size: int | None, timeout_ms: int, wait: timedelta): ...\n"
        "class A:\n    delay: float = 1\n    def __init__(self): self.pause = monotonic() + 1\n"
        "def g():\n    began = 3\n"
    )
    found = sorted(name for _, name in unnamed_units(ast.parse(source)))
    assert found == ["WAIT", "delay", "pause", "size", "timeout"]


ROOMS = ("consume", "worker", "log", "lease", "db", "settings")


def test_a_public_function_has_a_name_of_its_own() -> None:
    """What `settle` or `run` means, a reader should not have to look up in the imports."""
    homes: dict[str, set[Path]] = {}
    for room in ROOMS:
        for path in (PACKAGES / "gapless" / room).glob("**/*.py"):
            for node in _tree(path).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, set()).add(path)
    assert not {name for name, paths in homes.items() if len(paths) > 1}


def test_rooms_have_names_of_their_own() -> None:
    names = {part for path in SHIPPED for part in path.relative_to(PACKAGES).parts}
    assert not [name for name in names if _NOWHERE.fullmatch(name)]


def unnamed_units(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each parameter, field and constant that is a number of what?

    Local variables are not looked at: what they are stands a line or two above.
    """
    for line, name, annotation, value in _named_values(tree):
        if _UNIT.search(name) or not (_TIME.search(name) or _SIZE.search(name)):
            continue
        if _is_number(annotation, value):
            yield line, name


@cache
def _unnamed_units_of(path: Path) -> list[tuple[int, str]]:
    return list(unnamed_units(_tree(path)))


_Named = tuple[int, str, ast.expr | None, ast.expr | None]


def _named_values(tree: ast.Module) -> Iterator[_Named]:
    """Yield (line, name, annotation, value) of parameters, fields, attributes and constants."""
    owned = set(tree.body)
    for node in ast.walk(tree):  # a class comes before what is in it
        if isinstance(node, ast.ClassDef):
            owned |= set(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                yield each.lineno, each.arg, each.annotation, None
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _assigned(target, None, node.value, is_owned=node in owned)
        elif isinstance(node, ast.AnnAssign):
            yield from _assigned(node.target, node.annotation, node.value, is_owned=node in owned)


def _assigned(
    target: ast.expr, annotation: ast.expr | None, value: ast.expr | None, *, is_owned: bool
) -> Iterator[_Named]:
    if isinstance(target, ast.Name) and is_owned:
        yield target.lineno, target.id, annotation, value
    elif isinstance(target, ast.Attribute):
        yield target.lineno, target.attr, annotation, value


def _is_number(annotation: ast.expr | None, value: ast.expr | None) -> bool:
    if annotation is not None:
        said = ast.unparse(annotation)
        return re.fullmatch(r"(?:(?:int|float|None)(?: \| )?)+", said) is not None
    if isinstance(value, ast.BinOp):
        return _is_number(None, value.left) or _is_number(None, value.right)
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).split(".")[-1] in {"monotonic", "perf_counter"}
    return isinstance(value, ast.Constant) and type(value.value) in {int, float}


def test_the_command_line_asks_the_database_through_ops() -> None:
    """What a command does, a gateway does with one call of gapless.ops."""
    asking = {
        str(path.relative_to(PACKAGES / "gapless" / "cli"))
        for path in (PACKAGES / "gapless").glob("cli/**/*.py")
        if "gapless.db.queries" in _text(path)
    }
    assert not asking


def test_the_name_supervisor_stays_free() -> None:
    """`import supervisor` from the checkout must still find supervisord's package."""
    assert not (ROOT / "supervisor" / "__init__.py").exists()


ROOMS_OF_TESTS = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - {"support"}
TOOLS = ("docs.blocks.", "docs.examples.", "chaos.")  # of those who test the whole


def test_a_test_stands_alone() -> None:
    """A file of tests needs no other one, and a folder of tests no other one but `support`."""

    def rule(path: Path) -> Iterator[str]:
        for name in _imported(_tree(path)):
            top, *rest = name.split(".")
            if top not in ROOMS_OF_TESTS:
                continue
            if any(re.match(r"test_|conftest$", each) for each in rest):
                yield f"imports {name}: move what both need into tests/support"
            elif room_of(name.split(".")) != room_of(
                path.relative_to(ROOT / "tests").parts
            ) and not f"{name}.".startswith(TOOLS):
                yield f"imports {name} of another room: move it into tests/support"

    assert not _broken(rule, sorted((ROOT / "tests").rglob("*.py")))


def room_of(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the folder that a feature, or a room of the core, has for its tests."""
    return tuple(parts[: 2 if parts[0] == "features" else 1])


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_top_level_is_what_was_asked_for() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    asked = {"pyproject.toml", "supervisor", "sql", "config", "tests", "bin"}
    pages = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"}
    assert asked <= top
    beside = pages | {"docs", "benchmarks", "examples"}
    assert not {name for name in top - asked - beside if not name.startswith(".")}


def test_sql_is_source() -> None:
    def rule(path: Path) -> Iterator[str]:
        text = _text(path)
        if not text.startswith("--"):
            yield "a file begins with what it is for"
        if re.search(r"[ \t]+$", text, re.MULTILINE):
            yield "trailing blanks"
        if max(map(len, text.splitlines())) > SQL_LINE_CHARACTERS_MAX:
            yield "a line is too long"
        if re.search(r"^(stable|immutable|volatile|strict|security definer)\b", text, re.MULTILINE):
            yield "attributes of a function stand on the line of its language"

    assert not _broken(rule, sorted((ROOT / "sql").rglob("*.sql")))
