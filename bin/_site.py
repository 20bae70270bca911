"""Prepare the pages of the documentation's site: python bin/_site.py PAGES.

PAGES gets what is in docs/, README as the first page, and the reference (bin/_reference.py); and
zensical.toml, by which the site goes into PAGES/site. What leads out of docs/ leads to the source.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import _reference

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\]\((?!#|[a-z]+:)(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_NAV = (
    ("Start", "index.md"),
    ("Concepts", "concepts.md"),
    ("Chains", "chains.md"),
    ("Handlers", "handlers.md"),
    ("When something fails", "when-something-fails.md"),
    ("Queues", "queues.md"),
    ("Filters", "filters.md"),
    ("Schemas", "schemas.md"),
    ("Compaction", "compaction.md"),
    ("Subscriptions", "subscriptions.md"),
    ("Direct messages", "direct.md"),
    ("Later", "later.md"),
    ("Webhooks", "webhooks.md"),
    ("Where your program lives", "frameworks.md"),
    ("Testing handlers", "testing.md"),
    ("Other languages", "other-languages.md"),
    ("The gateway (HTTP)", "gateway.md"),
    ("Behind nginx, Caddy, Traefik", "behind-a-proxy.md"),
    ("Tables as topics", "capture.md"),
    ("Outboxes that exist", "attach.md"),
    ("Classic names", "classic.md"),
    ("Operations", "operations.md"),
    ("Deployment", "deployment.md"),
    ("How many partitions", "partitions.md"),
    ("The console", "console.md"),
    ("Metrics, health, traces, logs", "observability.md"),
    ("From Python", "ops.md"),
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
# Pages that are not in docs/, and the file each is made of.
_FROM_ROOT = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}


def main(pages: Path) -> None:
    """Write everything into a new folder `pages`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]
    docs = pages / "docs"
    shutil.copytree(ROOT / "docs", docs)
    for page in docs.rglob("*.md"):
        folder = ROOT / "docs" / page.parent.relative_to(docs)
        page.write_text(_led(page.read_text(encoding="utf-8"), folder, source), encoding="utf-8")
    for name, file in _FROM_ROOT.items():
        text = _led((ROOT / file).read_text(encoding="utf-8"), ROOT, source)
        (docs / name).write_text(text, encoding="utf-8")
    _reference.main(docs)
    known = {page for _, page in _NAV} | {*_FROM_ROOT, *_reference.PAGES}
    missing = {page.name for page in docs.glob("*.md")} - known
    if missing:
        raise SystemExit(f"bin/_site.py: no place in the navigation for {', '.join(missing)}")
    (pages / "zensical.toml").write_text(_configuration(project, source), encoding="utf-8")


def _led(text: str, folder: Path, source: str) -> str:
    """Return Markdown of `folder` for docs/: links into docs/ are its, others go to the source."""
    up = "../" * len(folder.relative_to(ROOT / "docs").parts) if folder != ROOT else ""
    made_of = {ROOT / file: page for page, file in _FROM_ROOT.items()}

    def lead(link: re.Match[str]) -> str:
        target = (folder / link["target"]).resolve()
        anchor = link["anchor"] or ""
        if target.is_relative_to(ROOT / "docs") and target.is_file():
            return f"]({up}{target.relative_to(ROOT / 'docs')}{anchor})"
        if target in made_of:
            return f"]({up}{made_of[target]}{anchor})"
        kind = "tree" if target.is_dir() else "blob"
        return f"]({source}/{kind}/HEAD/{target.relative_to(ROOT)}{anchor})"

    return _LINK.sub(lead, text)


def _configuration(project: dict[str, object], source: str) -> str:
    nav: list[dict[str, object]] = [{name: page} for name, page in _NAV]
    nav.insert(-1, {"Decisions": [{_title(page): page} for page in _decisions()]})
    nav.append({"Reference": [{name: page} for page, name in _reference.PAGES.items()]})
    nav += [{"Contributing": "contributing.md"}, {"Changes": "changelog.md"}]

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


def _decisions() -> list[str]:
    return [f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]


def _title(page: str) -> str:
    first = (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n", 1)[0]
    return first.removeprefix("# ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
