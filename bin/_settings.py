"""Write config/gapless.yml, every setting with its default, from the declarations.

The comment of a setting is its docstring, and the words by which its kind would refuse a value.

    python bin/_settings.py            print it
    python bin/_settings.py --write    write it
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from gapless.settings.declare import settings_of
from gapless.settings.record import CORE, sections

FILE = Path(__file__).resolve().parents[1] / "config" / "gapless.yml"
WIDTH = 118
HEAD = """\
# Every setting of gapless, with its default. The file may be left out, and so may any key of it.
#
# A value is taken from the first of these that has one:
#   1. a flag on the command line,
#   2. the environment: GAPLESS_ and the key in capitals, so GAPLESS_MEMBERTTLMS for memberTtlMs,
#   3. a values.yml beside this file, one flat key each: `gapless.memberTtlMs: 20000`,
#   4. this file,
#   5. the default in the code, which stands here.
#
# Placeholders work as in light-4j:
#   ${name:default}   the value of `name` from the environment (the name in capitals, every other
#                     character an underscore), else from values.yml, else the default
#   ${name:}          the same, but null without a value
#   ${name:?message}  the same, but an error with this message without a value
#   ${name}           the same, but an error without a value
#   ${name:$}         the text ${name} itself
# Text may stand around a placeholder, and several may stand in one value. A default ends at the
# first closing brace. Put quotes around a value with ": ", " #" or a leading special character.
#
# Names end in their unit: Ms is milliseconds, S is seconds. An unknown key is an error, and so is
# a value that is out of its range. `gapless doctor` shows each value and where it came from.
#
# The four settings of light-portal's db-event-consumer.yml keep their names here, so that file
# works in place of this one, unchanged, with the environment and values.yml it already has.
# Each answers to both names: DB_EVENT_CONSUMER_BATCHSIZE and GAPLESS_BATCHSIZE (which wins).
"""
TAIL = """

# ---- Schedules -----------------------------------------------------------------------------------

# Events that are published again and again, by name; `gapless run` and `gapless init` make them
# known. Fields are topic, and cron or every; zone (UTC), missed (once, all, skip), key, eventType,
# payload (JSON text in quotes), startsAt. Placeholders work in each of them.
# See docs/use/scheduled.md.
#
# schedules:
#   nightly:
#     topic: reports
#     cron: "0 3 * * *"
#     zone: Europe/Berlin
#     payload: '{"full": ${reports.full:true}}'
"""


def text() -> str:
    """Return the file."""
    return HEAD + "".join(line for each in (*CORE, *sections()) for line in _section(each)) + TAIL


def _section(owner: type) -> Iterator[str]:
    title, _, about = (inspect.getdoc(owner) or "").partition("\n\n")
    yield f"\n\n# ---- {title.rstrip('.')} ".ljust(102, "-") + "\n"
    yield _comment(about)
    said = dict(_docstrings(owner))
    for each in settings_of(owner):
        yield f"\n{_comment(said[each.attribute])}{_comment(f'Must be {each.kind.must}.')}"
        yield f"{each.key}: ${{{each.names[-1]}:{_default(each.default)}}}\n"


def _docstrings(owner: type) -> Iterator[tuple[str, str]]:
    """Yield each attribute of a class with the text below it."""
    (declaration,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(declaration, ast.ClassDef)
    for declared, below in pairwise(declaration.body):
        if isinstance(declared, ast.AnnAssign) and isinstance(declared.target, ast.Name):
            assert isinstance(below, ast.Expr)
            assert isinstance(below.value, ast.Constant)
            yield declared.target.id, str(below.value.value)


def _comment(said: str) -> str:
    lines = textwrap.wrap(" ".join(said.split()), WIDTH, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)


def _default(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    if "--write" in sys.argv:
        FILE.write_text(text(), encoding="utf-8")
    else:
        sys.stdout.write(text())
