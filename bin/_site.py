"""Prepare the pages of the documentation's site: python bin/_site.py PAGES.

PAGES gets the pages of docs/, README as the first page, the reference (bin/_reference.py), and a
zensical.toml that puts the site into PAGES/site. Links out of docs/ become links to the source.
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
# The sections, in the order of the site; a page is in the folder of its section.
_SECTIONS = {
    "Start": (
        ("A shop in 15 minutes", "start/tutorial.md"),
        ("A queue in 10 minutes", "start/queue.md"),
        ("Another language in 10 minutes", "start/languages.md"),
        ("From a table with SKIP LOCKED", "start/from/skip-locked.md"),
        ("From pgmq", "start/from/pgmq.md"),
        ("From procrastinate", "start/from/procrastinate.md"),
        ("From River", "start/from/river.md"),
        ("From Celery", "start/from/celery.md"),
        ("From light-portal", "start/from/light-portal.md"),
        ("From a Debezium outbox and Kafka", "start/from/debezium.md"),
    ),
    "Learn": (
        ("Concepts", "learn/concepts.md"),
        ("Handlers", "learn/handlers.md"),
        ("When something fails", "learn/failures.md"),
        ("Testing handlers", "learn/testing.md"),
        ("States", "learn/states.md"),
    ),
    "Use": (
        ("Queues", "use/queue.md"),
        ("Chains", "use/chains.md"),
        ("Filters", "use/filters.md"),
        ("Subscriptions", "use/subscriptions.md"),
        ("Schemas", "use/schemas.md"),
        ("Compaction", "use/compaction.md"),
        ("Direct messages", "use/messages.md"),
        ("Later", "use/scheduled.md"),
        ("Webhooks", "use/webhooks.md"),
        ("The gateway (HTTP)", "use/gateway.md"),
        ("Other languages", "use/clients.md"),
        ("FastAPI, SQLAlchemy, Django, Flask", "use/frameworks.md"),
        ("Spark", "use/spark.md"),
        ("Streams of Spark", "use/spark-streams.md"),
        ("Tables as topics", "use/capture.md"),
        ("Outboxes that exist", "use/attach.md"),
        ("Classic names", "use/classic.md"),
    ),
    "Run": (
        ("Deployment", "run/deploy.md"),
        ("Operations", "run/operations.md"),
        ("The console", "run/console.md"),
        ("The page", "run/page.md"),
        ("Metrics, health, traces, logs", "run/observe.md"),
        ("Roles and rights", "run/secure.md"),
        ("Behind nginx, Caddy, Traefik", "run/behind-a-proxy.md"),
        ("Number of partitions", "run/partitions.md"),
        ("Spark on a cluster", "run/spark-cluster.md"),
    ),
    "Reference": (
        *((name, f"reference/{page}") for page, name in _reference.PAGES.items()),
        ("From Python", "reference/ops.md"),
        ("Exit codes", "reference/exit-codes.md"),
        ("Glossary", "reference/glossary.md"),
    ),
    "Why": (
        ("Invariants", "why/invariants.md"),
        ("Leases", "why/leases.md"),
        ("Reliability", "why/reliability.md"),
        ("Benchmarks", "why/benchmarks.md"),
        ("Benchmarks: all figures", "why/benchmarks-all.md"),
        ("Comparison", "why/comparison.md"),
        ("Style", "why/style.md"),
    ),
}
# Nothing comes from other hosts: fonts of the system, no look at a forge (repo_url). A line of
# code of 100 characters fits at 1280 pixels, a longer one is broken, and the button that copies
# stands above the code. A drawing (text) is not broken: on a narrow screen it moves sideways.
_STYLE = """\
.md-grid { max-width: 84rem; }
.md-typeset pre > code {
  font-size: .62rem; padding-top: 2em; white-space: pre-wrap; overflow-wrap: anywhere;
}
.md-typeset .language-text pre > code { white-space: pre; }
.md-typeset .md-code__nav { top: 0; padding: 0; }
.md-typeset .md-code__button { width: 1.2rem; height: 1.1rem; }
@media screen and (min-width: 76.25em) {
  .md-sidebar { width: 10.5rem; }
}
"""
# A page with a drawing that is wider than that has the room of the list of its headings, too.
_WIDE_DRAWING = re.compile(r"^(?=.*[│─]).{101,}$", re.MULTILINE)
_WITHOUT_LIST = "---\nhide: [toc]\n---\n\n"
# Pages that are not in docs/, each with its source file.
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
        text = _led(page.read_text(encoding="utf-8"), folder, source)
        begins = _WITHOUT_LIST if _WIDE_DRAWING.search(text) else ""
        page.write_text(begins + text, encoding="utf-8")
    for name, file in _FROM_ROOT.items():
        text = _led((ROOT / file).read_text(encoding="utf-8"), ROOT, source)
        (docs / name).write_text(text, encoding="utf-8")
    _reference.main(docs / "reference")
    known = {page for section in _SECTIONS.values() for _, page in section}
    missing = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    missing -= {*known, *_FROM_ROOT, *_decisions(), "README.md"}
    if missing:
        raise SystemExit(f"bin/_site.py: no place in the navigation for {', '.join(missing)}")
    (docs / "site.css").write_text(_STYLE, encoding="utf-8")
    (pages / "zensical.toml").write_text(_configuration(project), encoding="utf-8")


def _led(text: str, folder: Path, source: str) -> str:
    """Return Markdown of `folder` for docs/: links out of docs/ become links to the source."""
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


def _configuration(project: dict[str, object]) -> str:
    sections: dict[str, list[dict[str, object]]] = {
        section: [{name: page} for name, page in pages] for section, pages in _SECTIONS.items()
    }
    sections["Why"] += [
        {"Decisions": [{_title(page): page} for page in _decisions()]},
        {"Contributing": "contributing.md"},
        {"Changes": "changelog.md"},
    ]
    nav = [{"gapless": "index.md"}, *({name: pages} for name, pages in sections.items())]

    def toml(value: object) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(toml, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{json.dumps(k)} = {toml(v)}' for k, v in value.items())}}}"
        return json.dumps(value)

    return f"""[project]
site_name = "gapless"
site_description = {json.dumps(project["description"])}
docs_dir = "docs"
site_dir = "site"
extra_css = ["site.css"]
nav = {toml(nav)}

[project.theme]
font = false
features = [
  "navigation.sections", "navigation.footer", "navigation.top",
  "search.highlight", "content.code.copy",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Light"
"""


def _decisions() -> list[str]:
    folder = ROOT / "docs" / "why" / "decisions"
    return [f"why/decisions/{path.name}" for path in sorted(folder.glob("*.md"))]


def _title(page: str) -> str:
    first = (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n", 1)[0]
    return first.removeprefix("# ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
