"""Both sides of the log's pipe, in one process: what is written, what is read, and when it has ended."""

import logging
import os
from collections.abc import Iterator

import pytest

from gapless.worker.log_pipe import _LAST_LINES, LogPipe

LOG = logging.getLogger("gapless.supervisor")


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[LogPipe]:
    """One that is written to here, and can be read here all the same."""
    log = logging.getLogger("gapless")
    monkeypatch.setattr(logging, "raiseExceptions", True)
    former = log.handlers, log.level, log.propagate
    made = LogPipe()
    assert made.is_closed
    assert not any(map(os.get_blocking, (made._reader, made._writer))), "nobody waits"
    spare = os.dup(made._reader)
    made.write_here()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(made._reader)
    made._reader, made._supervisor_pid = spare, os.getppid()
    yield made
    made.close()
    os.close(spare)
    log.handlers, log.propagate = former[0], former[2]
    log.setLevel(former[1])


def test_a_line_is_read_once_and_comes_nowhere_else(
    pipe: LogPipe, capfd: pytest.CaptureFixture[str]
) -> None:
    assert not pipe.is_closed
    assert pipe.fileno() == pipe._reader
    assert (pipe.collect(), pipe.has_ended) == ([], False), "nobody waits for a line"
    LOG.info("joined")
    LOG.debug("a detail")
    assert pipe.collect() == ["joined"]
    assert pipe.collect() == []
    assert list(pipe.last) == ["joined"]
    assert capfd.readouterr() == ("", "")
    assert not logging.getLogger("gapless").propagate


def test_lines_are_put_together_and_the_newest_ones_kept(pipe: LogPipe) -> None:
    writer = pipe._writer
    os.write(writer, b"one\ntw")
    assert pipe.collect() == ["one"]
    os.write(writer, b"o\n\xff\n")
    assert pipe.collect() == ["two", "\ufffd"]
    os.write(writer, b"".join(b"%d\n" % n for n in range(_LAST_LINES)))
    pipe.collect()
    assert list(pipe.last) == [str(n) for n in range(_LAST_LINES)]


def test_the_lines_end_when_it_is_closed(pipe: LogPipe) -> None:
    LOG.info("drained")
    handler = pipe._handler
    for _ in range(2):
        pipe.close()
        assert pipe.is_closed
    assert handler not in logging.getLogger("gapless").handlers
    assert (pipe.collect(), pipe.has_ended) == (["drained"], True)


def test_or_with_the_process_that_writes_though_another_keeps_it_open(pipe: LogPipe) -> None:
    LOG.info("the last")
    pipe._supervisor_pid = os.getppid() + 1
    assert (pipe.collect(), pipe.has_ended) == (["the last"], True)


def test_a_full_pipe_keeps_nobody_and_is_no_complaint(
    pipe: LogPipe, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(300):
        LOG.info("x" * 1000)
    assert capfd.readouterr() == ("", "")
    assert 0 < len(pipe.collect()) < 300


def test_the_reader_writes_nothing() -> None:
    made = LogPipe()
    made.read_here(7)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(made._writer)
    assert made._supervisor_pid == 7
    os.close(made._reader)
