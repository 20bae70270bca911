"""Who may do what: producers publish, consumers claim, operators do both, nobody else anything."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from gapless.db.migrate import require_schema
from gapless.errors import PublishError, SchemaError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.read import fetch
from gapless.log.sequence import configure_chunks, create_chunks, sequence
from gapless.log.topics import Topic, ensure_topic, require_topic
from support.group import owner

INSERT = "insert into gapless.outbox_message_t"
PARTS = [  # of sequence_events(): alone, they give events of before their offsets once more
    "select gapless.sequence_few(s) from gapless.sequencer s",
    "select gapless.sequence_many(s, true) from gapless.sequencer s",
    "select gapless.rebase(s) from gapless.sequencer s",
]
FORBIDDEN = {
    "producer": [
        f"{INSERT} (id) values (1)",
        f"{INSERT} (xid) values ('1')",
        f"{INSERT} (created_ts) values (now())",
        "select * from gapless.outbox_message_t",
        "select id from gapless.outbox_message_t",
        "select * from gapless.outbox_message_1",
        "select * from gapless.read('outbox', 0)",
        "select * from gapless.trace(gapless.transaction_uuid('3'))",
        "select * from gapless.chain_units(gapless.transaction_uuid('3'))",
        "select * from gapless.log_segment",
        "select gapless.sequence_events()",
        "select gapless.create_topic('mine', 1)",
        "select gapless.create_group('g', 'outbox')",
        "select setval('gapless.outbox_message_id_seq', 1)",
        "select * from gapless.dedupe",
        "select * from gapless.api_key",
        "select * from gapless.find_api_key('0123456789abcdef')",
        "select * from gapless.dedupe_0",
        "insert into gapless.dedupe values (0, 1, 'k', gen_random_uuid(), 1, now())",
        "select * from gapless.dedupe_find(0, 1, 'k')",
        "update gapless.dedupe_state set slot = 1",
        "select gapless.turn_dedupe_slots()",
        "select gapless.set_dedupe_window('outbox', 1)",
        "delete from gapless.outbox_message_t",
        "update gapless.outbox_message_t set key = 'x'",
        "truncate gapless.outbox_message_t",
        "drop table gapless.outbox_message_t",
        "alter table gapless.outbox_message_t disable trigger all",
        "begin; lock table gapless.outbox_message_t in share mode",
        "begin; lock table gapless.outbox_message_t in row exclusive mode",
        "select gapless.adopt_topic(77, 'mine', 1)",
        "insert into gapless.topic (name, partitions) values ('mine', 1)",
        "insert into gapless.unrouted values (5, 1, 1, 1)",
        "create table gapless.mine ()",
    ],
    "consumer": [
        f"{INSERT} (key) values ('k')",
        "select gapless.publish('outbox', '1')",
        "select gapless.publish('outbox', '1', dedupe_key => 'k')",
        "select gapless.publish_once('outbox', '1', 'k')",
        "select gapless.publish_each('outbox', array['1'], dedupe_keys => array['k'])",
        "select gapless.set_dedupe_window('outbox', 1)",
        "select gapless.create_api_key('0123456789abcdef', 'x', sha256('x'), array['operate'])",
        "select gapless.revoke_api_key('0123456789abcdef')",
        "update gapless.api_key set scopes = array['operate']",
        "delete from gapless.outbox_message_t",
        "update gapless.consumer_offsets set next_offset = 1",
        "delete from gapless.dead_letter",
        "update gapless.lease set owner = null",
        "insert into gapless.topic (name, partitions) values ('mine', 1)",
        "drop schema gapless cascade",
        *PARTS,
    ],
    "operator": [
        f"{INSERT} (id) values (1)",
        "update gapless.log_segment set run = 1",
        "delete from gapless.outbox_message_t",
        "drop schema gapless cascade",
        *PARTS,
    ],
    "nobody": [
        f"{INSERT} (key) values ('k')",
        "select gapless.publish('outbox', '1')",
        "select gapless.publish_once('outbox', '1', 'k')",
        "select gapless.partition_of('k', 4)",
        "select gapless.sequence_events()",
        "select * from gapless.topic",
        "select * from gapless.read('outbox', 0)",
    ],
}


@pytest.fixture
def login(
    request: pytest.FixtureRequest, conn: Connection, dsn: str, topic: Topic
) -> Iterator[str]:
    """The DSN of a new role that is a member of gapless_<param>, or of nothing."""
    name, password = f"gapless_test_{uuid4().hex[:12]}", uuid4().hex
    conn.execute(f"create role {name} login password '{password}'")
    if request.param != "nobody":
        conn.execute(f"grant gapless_{request.param} to {name}")
    yield make_conninfo(dsn, user=name, password=password)
    conn.execute(f"drop owned by {name}; drop role {name}")


@pytest.fixture
def mine(login: str) -> Iterator[Connection]:
    """A session of that role."""
    with connect(login, role="test") as made:
        yield made


@pytest.mark.writes_nothing
@pytest.mark.parametrize(
    ("login", "statement"),
    [(role, statement) for role, statements in FORBIDDEN.items() for statement in statements],
    indirect=["login"],
)
def test_forbidden(mine: Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        mine.execute(statement.encode())


@pytest.mark.parametrize("login", ["producer", "operator"], indirect=True)
def test_a_producer_publishes_in_every_way(conn: Connection, mine: Connection) -> None:
    require_schema(mine)
    fields = {"key": "k", "event_type": "t", "headers": {"h": 1}, "host_id": "h", "user_id": "u"}
    publish(mine, "outbox", 1, transaction_id=uuid4(), **fields)
    publish(mine, "outbox", [NewEvent(payload=1), NewEvent(payload=2)])
    publish(mine, "outbox", (NewEvent(payload=n) for n in range(200)))
    mine.execute(f"{INSERT} (key, payload) values ('k', '1')")
    mine.execute("select gapless.publish('outbox', '1', key => 'k')")
    assert require_topic(mine, "outbox").partitions == 4
    with pytest.raises(PublishError, match='topic "nothing" does not exist'):
        publish(mine, "nothing", 1)
    assert sequence(conn) == 205


@pytest.mark.parametrize("login", ["consumer", "operator"], indirect=True)
def test_a_consumer_runs_the_log_and_consumes(
    conn: Connection, mine: Connection, topic: Topic, login: str
) -> None:
    """Everything a supervisor and its workers do."""
    publish(conn, "outbox", [NewEvent(payload=n, key=str(n), event_type=str(n)) for n in range(50)])
    require_schema(mine)
    assert sequence(mine) == 50
    configure_chunks(mine, chunk_events=1_000_000, chunks_ahead=4)
    assert create_chunks(mine) == 2
    assert ensure_topic(mine, "orders", partitions=2).partitions == 2
    ids = [row[0] for row in mine.execute("select id from gapless.outbox_message_t")]
    assert len(fetch(mine, ids)) == 50
    assert mine.execute("select count(*) from gapless.read('outbox', 0)").fetchone() != (0,)
    conn.execute("grant create on schema public to public")
    with owner(login, "g", topic) as group:
        seen = group.consume()
    assert sorted(seen) == sorted(str(n) for n in range(50))


@pytest.mark.parametrize("login", ["consumer"], indirect=True)
def test_a_consumer_dead_letters(conn: Connection, topic: Topic, login: str) -> None:
    publish(conn, "outbox", 1, event_type="bad")
    sequence(conn)
    conn.execute("grant create on schema public to public")
    with owner(login, "g", topic) as group:
        assert group.consume("bad") == []
    dead = conn.execute("select payload, exception from gapless.dead_letter_queue").fetchall()
    assert [(payload, text.splitlines()[-1]) for payload, text in dead] == [
        (1, "ValueError: refused")
    ]


@pytest.mark.parametrize("login", ["nobody"], indirect=True)
def test_nobody_is_told_which_role_to_ask_for(mine: Connection) -> None:
    with pytest.raises(SchemaError, match=f'role "{mine.info.user}" may not use .*: grant it'):
        require_schema(mine)


def test_public_may_call_no_function(conn: Connection) -> None:
    """Also none that was added after the roles were applied last."""
    open_to_all = conn.execute(
        "select p.proname from pg_proc p where p.pronamespace = 'gapless'::regnamespace"
        " and has_function_privilege('public', p.oid, 'execute')"
    ).fetchall()
    assert open_to_all == []


def test_a_definers_function_has_a_fixed_search_path(conn: Connection) -> None:
    """Otherwise its caller could put an object of his own in its way."""
    loose = conn.execute(
        "select p.proname from pg_proc p where p.pronamespace = 'gapless'::regnamespace"
        " and p.prosecdef and not exists (select from unnest(p.proconfig) c where c like"
        " 'search_path=%pg_temp')"
    ).fetchall()
    assert loose == []
