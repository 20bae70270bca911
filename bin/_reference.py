"""Generate the reference as pages in Markdown: python bin/_reference.py FOLDER.

It is generated when the site is built, and not committed: so it is never stale, and a change of a
docstring is a change of one file. tests/docs/test_reference.py checks that nothing public is left
out. Its sources: for Python, the docstrings of the PUBLIC modules; for SQL, the headers of the
functions; for the settings, config/gapless.yml; for the commands, their --help.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import os
import pkgutil
import re
import sys
import types
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from gapless.cli.commands import COMMANDS
from gapless.cli.main import main as gapless

ROOT = Path(__file__).resolve().parents[1]
# The modules that users may import. A module that this version does not have yet is left out.
PUBLIC = (
    "gapless",
    "gapless.testing",
    "gapless.testing.strategies",
    "gapless.sqlalchemy",
    "gapless.django",
    "gapless.ops",
)
PAGES = {
    "python.md": "Python",
    "sql.md": "SQL functions",
    "commands.md": "Commands",
    "settings.md": "Settings",
}
_WIDTH = 100
_SQL = re.compile(
    r"(?P<said>(?:^--[^\n]*\n)*)^create or replace (?P<kind>function|procedure) "
    r"(?P<head>gapless\.(?P<name>\w+)\s*\(.*?)\n(?:language|as|set|security|stable|immutable|volatile)",
    re.MULTILINE | re.DOTALL,
)
_SETTING = re.compile(r"(?P<said>(?:^#[^\n]*\n)+)^(?P<key>\w+): (?P<value>[^\n]*)$", re.MULTILINE)
_SECTION = re.compile(r"^# ---- (.+?) -+$", re.MULTILINE)
_COMMAND = re.compile(r"^ {2,4}([a-z][\w-]*)(?: {2,}|$)", re.MULTILINE)


def main(folder: Path) -> None:
    """Write every page into `folder`."""
    for name, lines in {
        "python.md": python(),
        "sql.md": sql(),
        "commands.md": commands(),
        "settings.md": settings(),
    }.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def public_modules() -> list[types.ModuleType]:
    """Return those modules of PUBLIC that exist."""
    found = []
    for name in PUBLIC:
        home = name.rpartition(".")[0]
        if not home or importlib.util.find_spec(name):
            found.append(importlib.import_module(name))
    return found


def public_names(module: types.ModuleType) -> dict[str, object]:
    """Return the public names of a module: those of __all__, else those that it defines itself.

    For a package without __all__: the names of its public modules, after the modules' names.
    """
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    own = {
        name: member
        for name, member in vars(module).items()
        if not name.startswith("_") and getattr(member, "__module__", "") == module.__name__
    }
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if not found.name.startswith("_"):
            part = importlib.import_module(f"{module.__name__}.{found.name}")
            own |= {f"{found.name}.{name}": each for name, each in public_names(part).items()}
    return own


def python() -> Iterator[str]:
    """Yield the reference of the public Python names."""
    yield "# Python\n\nWhat is not named here is not public.\n"
    for module in public_modules():
        yield f"\n## {module.__name__}\n"
        yield f"{_text(_doc(module))}\n"
        for name, member in sorted(public_names(module).items(), key=lambda each: each[0].lower()):
            yield from _member(module.__name__, name, member)


def _member(home: str, name: str, member: object) -> Iterator[str]:
    yield f"\n### {home}.{name}\n"
    if inspect.isclass(member):
        base = f"({member.__bases__[0].__name__})" if issubclass(member, Exception) else ""
        call = "" if base and "__init__" not in vars(member) else _signature(member)
        yield f"```python\nclass {name}{base or call}\n```\n"
    elif callable(member):
        yield f"```python\n{name}{_signature(member)}\n```\n"
    yield f"{_text(_doc(member))}\n"
    if inspect.isclass(member):
        for own, part in vars(member).items():
            is_read = isinstance(part, property | cached_property)
            said = inspect.getdoc(part) if is_read or inspect.isfunction(part) else None
            if said and not own.startswith("_"):
                yield f"\n#### `{own}{'' if is_read else _signature(part)}`\n\n{_text(said)}\n"


def _signature(member: object) -> str:
    try:
        return str(inspect.signature(member)).replace("'", "")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"


def _doc(member: object) -> str:
    return inspect.getdoc(member) or ""


def _text(said: str) -> str:
    """Return a docstring as Markdown: its lines as they are, indented ones as code."""
    parts = []
    for part in re.split(r"\n\s*\n", said):
        lines = part.splitlines()
        if all(line.startswith("    ") for line in lines):
            parts.append("\n".join(["```python", *(line[4:] for line in lines), "```"]))
        else:  # `name: description` begins a line of its own
            parts.append(re.sub(r"\n(?=(?:\w+(?:, \w+)*: )|Raises |Returns )", "  \n", part))
    return "\n\n".join(parts)


def sql() -> Iterator[str]:
    """Yield the reference of the SQL functions, by room: their headers."""
    yield "# SQL functions\n\nIn the schema `gapless`; the roles say who may call what.\n"
    rooms: dict[str, list[re.Match[str]]] = {}
    for path in sorted((ROOT / "sql").rglob("functions/**/*.sql")):
        names = path.relative_to(ROOT / "sql").parts
        room = [name for name in names[:-1] if name not in {"functions", "features"}][-1]
        rooms.setdefault(room, []).extend(_SQL.finditer(path.read_text(encoding="utf-8")))
    for room, found in sorted(rooms.items()):
        yield f"\n## {room}\n"
        for each in sorted(found, key=lambda match: match["name"]):
            said = "\n".join(line.removeprefix("--")[1:] for line in each["said"].splitlines())
            yield f"\n### gapless.{each['name']}\n\n```sql\n{each['head']}\n```\n"
            if said:
                yield f"```text\n{said}\n```\n"


def commands() -> Iterator[str]:
    """Yield the help of every command and of every verb."""
    yield "# Commands\n\nWhat they end with: [Exit codes](exit-codes.md).\n"
    said = _help()
    yield f"```text\n{said}\n```\n"
    for command in COMMANDS:
        said = _help(command)
        yield f"\n## gapless {command}\n\n```text\n{said}\n```\n"
        for verb in _listed(said, "verbs"):
            yield f"\n### gapless {command} {verb}\n\n```text\n{_help(command, verb)}\n```\n"


def _help(*words: str) -> str:
    printed = io.StringIO()
    printed.reconfigure = lambda **_: None  # type: ignore[attr-defined]  # as a terminal's stream has it
    os.environ["COLUMNS"] = str(_WIDTH)
    with contextlib.redirect_stdout(printed):
        code = gapless([*words, "--help"])
    assert code == 0, f"gapless {' '.join(words)} --help ended with {code}"
    return printed.getvalue().rstrip()


def _listed(said: str, title: str) -> list[str]:
    """Return the commands or verbs that a help text lists."""
    section = re.search(rf"^{title}:\n(?P<lines>(?: .*\n|\n)+)", f"{said}\n", re.MULTILINE)
    return _COMMAND.findall(section["lines"]) if section else []


def settings() -> Iterator[str]:
    """Yield the reference of the settings, from config/gapless.yml."""
    text = (ROOT / "config" / "gapless.yml").read_text(encoding="utf-8")
    yield "# Settings\n"
    yield f"```text\n{_comment(text.split(chr(10) * 2, 1)[0])}\n```\n"
    for match in re.finditer(f"{_SECTION.pattern}|{_SETTING.pattern}", text, re.MULTILINE):
        if match[1]:
            yield f"\n## {match[1]}\n"
        else:
            yield f"\n### {match['key']}\n\n{_comment(match['said'])}\n"
            yield f"`{match['key']}: {match['value']}`\n"


def _comment(lines: str) -> str:
    return "\n".join(
        line.removeprefix("#").removeprefix(" ")
        for line in lines.splitlines()
        if not line.startswith("# ----")
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
