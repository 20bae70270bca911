"""A batch that was merged is not written again; its folder is asked once, for merged names only."""

from fnmatch import fnmatch
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.errors import GaplessError
from gapless.features.spark.pipeline import files
from gapless.features.spark.pipeline.files import Files

THERE = (
    "cold-0000000000+0000000004-00000.parquet",
    "cold-0000000007-00001.parquet",
    "cold-x-0000000009+0000000010-00000.parquet",
)


class Local:
    """A folder as Hadoop shows it."""

    where = uri = "/data"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []

    def names(self, below: str = "", like: str | None = None) -> list[str]:
        self.asked.append((below, like))
        return [each for each in THERE if fnmatch(each, like or "*")]

    def exists(self, below: str) -> bool:
        return below.removeprefix("day=1/") in THERE


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, r"is there already.*was merged into cold-0000000000[+].* Name another folder$"),
        (4, r"is there already.*was merged into cold-0000000000[+].* Name another folder$"),
        (5, None),
        (7, r"is there already, and is not of this database: .* or take the file away$"),
        (9, None),
    ],
)
def test_a_merged_batch_is_refused(
    monkeypatch: pytest.MonkeyPatch, number: int, said: str | None
) -> None:
    staged = [SimpleNamespace(name=f"day=1/{each}.parquet") for each in "ab"]
    planned: list[Any] = []
    monkeypatch.setattr(files, "write_parquet", lambda *_: staged)
    monkeypatch.setattr(files, "plan_files", lambda *given: planned.append(given))
    target: Any = Files.__new__(Files)
    target._pipeline = SimpleNamespace(name="cold")
    target._target, target._staging = Local(), SimpleNamespace(where="/staging")
    batch: Any = SimpleNamespace(number=number)
    if said is None:
        target.write(None, batch, None)
    else:
        with pytest.raises(GaplessError, match=said):
            target.write(None, batch, None)
    assert len(planned) == (said is None)
    assert target._target.asked == [("day=1", "cold-*+*.parquet")]
