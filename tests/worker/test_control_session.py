"""How a supervisor stays a member: beats, looks, is cut off, comes back, and leaves.

Its sessions are real ones, and so is what becomes of them; the member, which writes down what it is
told to do, and the clock, which stands still, are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from gapless.settings import Settings
from gapless.worker import control as module
from gapless.worker.control import Control
from gapless.worker.follow import SourceNews
from gapless.worker.plan import Plan

BEAT_S, LOOK_S, TTL_S = 2.0, 0.5, 10.0


class Peer:
    """A member that writes down what it does, and asks the server each time."""

    def __init__(self, desk: Desk, conn: Connection) -> None:
        self.desk, self.conn = desk, conn
        self.member_id = uuid4()
        self._do("join")

    def _do(self, what: str, *said: object) -> None:
        if what == self.desk.breaks_at:
            self.desk.end(self.conn)
        self.conn.execute(self.desk.statement)
        self.desk.story.append((what, *said) if said else what)

    def beat(self) -> bool:
        self._do("beat")
        return self.desk.is_known

    def reattach(self, conn: Connection) -> bool:
        self.conn = conn
        self._do("reattach")
        return self.desk.is_known

    def watch(self) -> bool:
        self._do("look")
        return self.desk.is_planless

    def evict(self) -> None:
        self._do("evict")

    def sync(self) -> None:
        self._do("sync")

    def drain(self) -> None:
        self._do("drain")

    def leave(self) -> None:
        self._do("leave")

    def end_foreign_locks(self) -> None:
        self._do("end_foreign_locks")

    def change(self, wanted: object) -> None:
        self._do("change", wanted)


class Desk:
    """A control session, what it works with, and the clock.

    is_there: whether a server listens where it connects to. breaks_at: in doing this a member loses
    its session.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dsn: str, **settings: Any) -> None:
        self.now_s = 1000.0
        self.story: list[object] = []
        self.statement = b"select"
        self.breaks_at = ""
        self.is_there = self.is_known = True
        self.is_planless = False
        self.sessions: list[Connection] = []
        self._admin = connect(dsn, role="test")
        self.news = SourceNews()
        for name in ("require_schema", "require_topics", "require_room"):
            monkeypatch.setattr(module, name, self._checks(name))
        monkeypatch.setattr(module, "missing_grant", lambda _conn: "grant is missing")
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "connect", self._connect)
        monkeypatch.setattr(module, "Member", lambda conn, *_, **__: Peer(self, conn))
        every = {"heartbeat_ms": 2000, "presence_poll_ms": 500, "member_ttl_ms": 10_000}
        plan = Plan(
            settings=Settings(**every | settings),
            dsn=dsn,
            handlers={},
            terms={},
            declared=(self,),
        )
        self.control = Control(plan)
        self.control._follower = SimpleNamespace(look=self._look)  # type: ignore[assignment]
        self.control._cut_off = SimpleNamespace(  # type: ignore[assignment]
            failed=lambda _error: 0.5, ended=lambda: self.story.append("back"), is_revoked=False
        )

    def make_known(self, _conn: object) -> bool:
        self.story.append("make_known")
        return True

    def _checks(self, name: str) -> Any:
        return lambda *_, **__: self.story.append(name)

    def _look(self, _conn: object) -> SourceNews:
        news, self.news = self.news, SourceNews()
        return news

    def _connect(self, dsn: str, **said: Any) -> Connection:
        nobody = {} if self.is_there else {"host": "127.0.0.1", "port": "1"}
        self.sessions.append(connect(make_conninfo(dsn, **nobody), **said))
        return self.sessions[-1]

    def end(self, conn: Connection) -> None:
        """End a session, as an operator does."""
        self._admin.execute("select pg_terminate_backend(%s, 60000)", [conn.info.backend_pid])

    def refuse(self, sqlstate: str) -> None:
        """Let the server answer with this error from now on."""
        self.statement = f"do $$ begin raise sqlstate '{sqlstate}'; end $$".encode()

    def close(self) -> None:
        for each in (self._admin, *self.sessions):
            each.close()

    def joined(self) -> Control:
        self.control.join()
        self.tend()
        self.control.changed()
        return self.control

    def tend(self, after_s: float = 0.0) -> tuple[str, list[object]]:
        """Tend after so long; return what became of it, and what was done."""
        self.now_s += after_s
        self.story.clear()
        return self.control.tend(), self.story[:]

    def lose(self) -> None:
        """Let the session break, which the next beat notices, and nobody answer from then on."""
        self.end(self.sessions[-1])
        self.is_there = False
        assert self.tend(BEAT_S) == ("cut", [])


@pytest.fixture
def desk_with(monkeypatch: pytest.MonkeyPatch, module_dsn: str) -> Iterator[Callable[..., Desk]]:
    """Make a control session with these settings."""
    with ExitStack() as made:

        def make(**settings: Any) -> Desk:
            return made.enter_context(closing(Desk(monkeypatch, module_dsn, **settings)))

        yield make


@pytest.fixture
def desk(desk_with: Callable[..., Desk]) -> Desk:
    return desk_with()


def test_it_joins_after_all_that_would_forbid_it(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    control = desk.control
    assert (control.is_member, control.member_id, control.filenos()) == (False, None, [])
    assert not control.changed()
    control.join()
    assert desk.story == [
        "require_schema", "make_known", "require_topics", "require_room", "join", "sync",
    ]  # fmt: skip
    assert (control.is_member, control.filenos()) == (True, [desk.sessions[0].fileno()])
    assert isinstance(control.member_id, UUID)
    assert (control.changed(), control.changed()) == (True, False)
    assert "supervisor: grant is missing" in caplog.messages


def test_who_cannot_join_keeps_no_session(desk: Desk) -> None:
    desk.refuse("42501")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        desk.control.join()
    assert desk.sessions[0].closed
    assert not desk.control.is_member


def test_it_beats_and_looks_each_when_it_is_due(desk: Desk) -> None:
    desk.control.join()
    beat = ["beat", "end_foreign_locks"]
    assert desk.tend() == ("joined", [*beat, "look"])
    assert desk.tend(LOOK_S - 0.01) == ("joined", [])
    assert desk.tend(0.01) == ("joined", ["look"])
    assert desk.control.due_s == desk.now_s + LOOK_S
    assert desk.tend(BEAT_S) == ("joined", [*beat, "look"])
    assert desk.tend(BEAT_S - 0.001) == ("joined", ["look"])


def test_when_somebody_is_gone_it_plans_anew(desk: Desk) -> None:
    control = desk.joined()
    assert desk.tend(LOOK_S) == ("joined", ["look"])
    assert not control.changed()
    desk.is_planless = True
    assert desk.tend(LOOK_S) == ("joined", ["look", "evict", "sync"])
    assert control.changed()


def test_who_was_evicted_is_lost_and_joins_as_another(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    control = desk.joined()
    before = control.member_id
    desk.is_known = False
    assert desk.tend(BEAT_S) == ("lost", ["beat", "join", "sync", "back"])
    assert control.member_id not in (None, before)
    assert control.changed()
    assert [each for each in caplog.messages if "was evicted" in each]
    desk.is_known = True
    assert desk.tend()[0] == "joined", "told once"


def test_cut_off_it_comes_back_as_the_same_member(desk: Desk) -> None:
    control = desk.joined()
    before = control.member_id
    desk.lose()
    assert (control.is_member, control.member_id, control.filenos()) == (False, None, [])
    assert desk.sessions[0].closed
    assert control.due_s == desk.now_s + 0.5
    desk.is_there = True
    assert desk.tend(0.49) == ("cut", []), "not before it is time"
    assert desk.tend(0.01) == ("joined", ["reattach", "back"])
    assert control.member_id == before
    assert control.changed()


def test_cut_off_for_longer_than_the_ttl_its_workers_are_lost_once(desk: Desk) -> None:
    desk.joined()
    desk.lose()
    desk.now_s += TTL_S - BEAT_S
    assert desk.tend()[0] == "cut"
    assert desk.tend(0.005)[0] == "lost"
    assert desk.tend(60)[0] == "cut"
    desk.is_there, desk.is_known = True, False
    assert desk.tend(1) == ("lost", ["reattach", "join", "sync", "back"])


@pytest.mark.parametrize(
    ("sqlstate", "exits", "passes"),
    [
        ("40001", False, True),
        ("42P01", False, False),
        ("42501", False, True),
        ("42501", True, False),
    ],
)
def test_what_passes_costs_the_session_and_the_rest_ends_it(
    desk_with: Callable[..., Desk], sqlstate: str, exits: bool, passes: bool
) -> None:
    desk = desk_with(exit_on_revoked=exits)
    desk.joined()
    desk.refuse(sqlstate)
    if passes:
        assert desk.tend(BEAT_S)[0] == "cut"
        assert desk.sessions[0].closed
        return
    with pytest.raises(psycopg.errors.lookup(sqlstate)):
        desk.tend(BEAT_S)


def test_it_drains_now_or_as_soon_as_it_can(desk: Desk) -> None:
    control = desk.joined()
    desk.story.clear()
    control.drain()
    assert desk.story == ["drain"]
    assert desk.tend() == ("joined", ["beat", "end_foreign_locks"]), "its peers are to know"
    desk.lose()
    desk.is_there = True
    assert desk.tend(1)[1] == ["reattach", "drain", "back"]
    desk.is_known = False
    assert desk.tend(BEAT_S)[1] == ["beat", "join", "drain", "sync", "back"]


def test_it_follows_handlers_that_come_and_go_unless_it_drains(desk: Desk) -> None:
    control = desk.joined()
    desk.news = SourceNews(came={("g", "t")}, replaced={("h", "t")})
    assert desk.tend(BEAT_S)[1] == ["beat", "end_foreign_locks", ("change", []), "look"]
    assert control.changed()
    assert (control.replaced(), control.replaced()) == ({("h", "t")}, set())
    control.drain()
    desk.news = SourceNews(came={("g", "t")})
    assert ("change", []) not in desk.tend(BEAT_S)[1]


def test_it_says_goodbye_if_it_can(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    control = desk.joined()
    desk.story.clear()
    control.leave()
    assert desk.story == ["leave"]
    assert desk.sessions[0].closed
    assert not control.is_member
    control.leave()
    assert desk.story == ["leave"], "said once"
    control.join()
    desk.breaks_at = "leave"
    control.leave()
    assert desk.sessions[1].closed
    assert [each for each in caplog.messages if "goodbye" in each]
