"""Prepare the pages of the documentation's site: python bin/_site.py PAGES.

PAGES gets what is in docs/, README as the first page, and the reference, which is made from
docstrings, from config/gapless.yml and from the headers of the SQL functions; and zensical.toml,
by which the site goes into PAGES/site. What leads out of docs/ leads to the source.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import gapless
from gapless import testing

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\]\((?!#|[a-z]+:)(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_SQL = re.compile(
    r"^(?P<said>(?:--[^\n]*\n)+)create or replace (?P<kind>function|procedure) "
    r"(?P<head>gapless\.(?P<name>\w+)\(.*?)\n(?:language|as|set|security|stable|immutable|volatile)",
    re.MULTILINE | re.DOTALL,
)
_SETTING = re.compile(r"(?P<said>(?:^#[^\n]*\n)+)^(?P<key>\w+): (?P<value>[^\n]*)$", re.MULTILINE)
_NAV = (
    ("Start", "index.md"),
    ("Concepts", "concepts.md"),
    ("Chains", "chains.md"),
    ("Handlers", "handlers.md"),
    ("When something fails", "when-something-fails.md"),
    ("Operations", "operations.md"),
    ("Leases", "leases.md"),
    ("States", "states.md"),
    ("Who can do what", "trust.md"),
    ("Exit codes", "exit-codes.md"),
    ("Spark", "spark.md"),
    ("Reliability", "reliability.md"),
    ("Invariants", "invariants.md"),
    ("Benchmarks", "benchmarks.md"),
    ("How it compares", "comparison.md"),
    ("Glossary", "glossary.md"),
    ("Style", "style.md"),
)
_REFERENCE = (("Python", "python.md"), ("SQL", "sql.md"), ("Settings", "settings.md"))


def main(pages: Path) -> None:
    """Write everything into a new folder `pages`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]
    docs = pages / "docs"
    shutil.copytree(ROOT / "docs", docs)
    for page in docs.glob("*.md"):
        page.write_text(_led(page.read_text(encoding="utf-8"), ROOT / "docs", source))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (docs / "index.md").write_text(_led(readme, ROOT, source))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (docs / "changelog.md").write_text(_led(changes, ROOT, source))
    (docs / "python.md").write_text("\n".join(_python()))
    (docs / "sql.md").write_text("\n".join(_sql()))
    (docs / "settings.md").write_text("\n".join(_settings()))
    missing = {page.name for page in docs.glob("*.md")} - {name for _, name in _NAV + _REFERENCE}
    if missing != {"changelog.md"}:
        raise SystemExit(f"bin/_site.py: no place in the navigation for {', '.join(missing)}")
    (pages / "zensical.toml").write_text(_configuration(project, source))


def _led(text: str, folder: Path, source: str) -> str:
    """Return Markdown of `folder` for docs/: links into docs/ are its, others go to the source."""

    def lead(link: re.Match[str]) -> str:
        target = (folder / link["target"]).resolve()
        anchor = link["anchor"] or ""
        if target.is_relative_to(ROOT / "docs"):
            return f"]({target.relative_to(ROOT / 'docs')}{anchor})"
        if target == ROOT / "README.md":
            return f"](index.md{anchor})"
        kind = "tree" if target.is_dir() else "blob"
        return f"]({source}/{kind}/HEAD/{target.relative_to(ROOT)}{anchor})"

    return _LINK.sub(lead, text)


def _python() -> Iterator[str]:
    """Yield the reference of what is public in Python: names of __all__, and gapless.testing."""
    yield "# Python\n\nWhat is not named here is not public.\n"
    for name in sorted(gapless.__all__, key=str.lower):
        yield from _member("gapless", name, getattr(gapless, name))
    yield from ("\n## gapless.testing\n", _doc(testing))
    for name, member in vars(testing).items():
        if not name.startswith("_") and getattr(member, "__module__", "") == testing.__name__:
            yield from _member("gapless.testing", name, member)


def _member(home: str, name: str, member: object) -> Iterator[str]:
    yield f"\n### {home}.{name}\n"
    if inspect.isclass(member):
        if not issubclass(member, BaseException):
            yield f"```python\nclass {name}{_signature(member)}\n```\n"
    elif callable(member):
        yield f"```python\n{name}{_signature(member)}\n```\n"
    yield _doc(member)
    if inspect.isclass(member):
        for own, part in vars(member).items():
            is_read = isinstance(part, property | cached_property)
            said = inspect.getdoc(part) if is_read or inspect.isfunction(part) else None
            if said and not own.startswith("_"):
                call = "" if is_read else _signature(part)
                yield f"\n`{own}{call}`\n\n: {said.replace(chr(10), chr(10) + '  ')}\n"


def _signature(member: object) -> str:
    try:
        return str(inspect.signature(member)).replace("'", "")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"


def _doc(member: object) -> str:
    return inspect.getdoc(member) or ""


def _sql() -> Iterator[str]:
    """Yield the reference of the SQL functions: their headers and what their files say of them."""
    yield "# SQL functions\n\nIn the schema `gapless`; the roles say who may call what.\n"
    found = []
    for path in (ROOT / "sql" / "functions").glob("*.sql"):
        found += _SQL.finditer(path.read_text(encoding="utf-8"))
    for each in sorted(found, key=lambda match: match["name"]):
        said = "\n".join(line.removeprefix("--")[1:] for line in each["said"].splitlines())
        yield f"\n### gapless.{each['name']}\n\n```sql\n{each['head']}\n```\n"
        yield f"```text\n{said}\n```\n"


def _settings() -> Iterator[str]:
    """Yield the reference of the settings, as config/gapless.yml says it."""
    text = (ROOT / "config" / "gapless.yml").read_text(encoding="utf-8")
    yield "# Settings\n"
    yield f"```text\n{_comment(text.split(chr(10) * 2, 1)[0])}\n```\n"
    for each in _SETTING.finditer(text):
        yield f"\n### {each['key']}\n\n{_comment(each['said'])}\n"
        yield f"`{each['key']}: {each['value']}`\n"


def _comment(lines: str) -> str:
    return "\n".join(
        line.removeprefix("#").removeprefix(" ")
        for line in lines.splitlines()
        if not line.startswith("# ----")
    )


def _configuration(project: dict[str, object], source: str) -> str:
    nav = [{name: page} for name, page in _NAV]
    reference = [{name: page} for name, page in _REFERENCE]
    nav += [{"Reference": reference}, {"Changes": "changelog.md"}]  # type: ignore[dict-item]

    def toml(value: object) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(toml, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{json.dumps(k)} = {toml(v)}' for k, v in value.items())}}}"
        return json.dumps(value)

    return f"""[project]
site_name = "gapless"
site_description = {json.dumps(project["description"])}
repo_url = {json.dumps(source)}
docs_dir = "docs"
site_dir = "site"
nav = {toml(nav)}

[project.theme]
features = ["navigation.footer", "navigation.top", "search.highlight", "content.code.copy"]
"""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
