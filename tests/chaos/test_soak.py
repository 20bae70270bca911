"""The table of soaks in docs/why/reliability.md is made from the reports of the runs."""

from collections import Counter
from pathlib import Path

import pytest

from chaos.checker import Violation
from chaos.growth import Sample, growth
from chaos.run import Verdict
from chaos.soak import BEGIN, DOC, END, as_json, write_table
from chaos.stall import Stall


def report(folder: Path, server: str, seed: int, **what: object) -> Path:
    verdict = Verdict(seed, folder, server=server, faults=Counter(cut=3, leave=4), **what)  # type: ignore[arg-type]
    verdict.size = (12345, 67890, 12, 9)
    verdict.seconds = {"of faults": 1800.04}
    verdict.counts = {
        "partitions taken over from a member that was gone": 5,
        "COMMITs without an answer": 6,
    }
    path = folder / f"{server}-{seed}.json"
    path.write_text(as_json(verdict))
    return path


def test_reports_become_the_table(tmp_path: Path) -> None:
    doc = tmp_path / "doc.md"
    doc.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    stall = Stall("g/t/0", since=0.0, seconds=4.44, story=[])
    wrong = Violation(invariant="I1", name="lost", text="x")
    paths = [
        report(tmp_path, "18.6", 2, stall=stall),
        report(tmp_path, "18.6", 1, violations=[wrong], problems=["a session"]),
        report(tmp_path, "9.6", 7, slow=["x"]),
    ]
    for _ in range(2):  # the one before is replaced
        write_table(paths, doc)
        before, *rows, after = doc.read_text().splitlines()
        assert (before, rows[0], rows[-1], after) == ("before", BEGIN, END, "after")
        assert rows[3:-1] == [
            "| 9.6 | 7 | 1800 s | 7 | 2 | 12 345 | 67 890 | 5 | 6 | 0 | - | slow |",
            "| 18.6 | 1 | 1800 s | 7 | 2 | 12 345 | 67 890 | 5 | 6 | 2 | - | **VIOLATIONS** |",
            "| 18.6 | 2 | 1800 s | 7 | 2 | 12 345 | 67 890 | 5 | 6 | 0 | 4.4 s | good |",
        ]


def test_the_document_has_the_place(tmp_path: Path) -> None:
    text = DOC.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    doc = tmp_path / "doc.md"
    doc.write_text("nothing")
    with pytest.raises(ValueError, match="has no"):
        write_table([report(tmp_path, "18.6", 2)], doc)


def sample(at_s: float, **what: object) -> Sample:
    flat = {
        "memory_kb": {"w": 50_000},
        "files": {"w": 9},
        "table_bytes": {"lease": 8192},
        "latency_s": 0.1,
    }
    return Sample(at_s=at_s, **{**flat, **what})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({}, None),
        ({"memory_kb": {"w": 53_000, "new": 90_000}}, None),
        ({"memory_kb": {"w": 60_000}}, "w has 10000 more kB of memory"),
        ({"files": {"w": 26}}, "w has 17 more descriptors"),
        ({"table_bytes": {"lease": 300_000}}, "lease grew from 8192 to 300000 bytes"),
        ({"latency_s": 0.8}, "the latency grew from 0.10 to 0.80 s"),
    ],
)
def test_what_grew_is_told(last: dict[str, object], said: str | None) -> None:
    """From the middle to the end: what grew before is warming up, who ended is not missed."""
    cold = sample(0, memory_kb={"w": 20_000}, files={"w": 1})
    found = growth([cold, cold, sample(30), sample(50, **last)])
    assert [each.startswith(said) for each in found] == [True] if said else found == []
