"""Chunks so small that a test fills several."""

from typing import Any

from psycopg import Connection, sql

from gapless.log.sequence import configure_chunks, create_chunks

CHUNK_EVENTS = 1000


def small_chunks(conn: Connection[Any], *, ahead: int = 2) -> None:
    """Let the chunks of an empty log hold CHUNK_EVENTS ids, from the first on."""
    for (chunk,) in conn.execute("select chunk from gapless.chunk").fetchall():
        conn.execute(sql.SQL("drop table gapless.{}").format(sql.Identifier(chunk)))
    configure_chunks(conn, chunk_events=CHUNK_EVENTS, chunks_ahead=ahead)
    create_chunks(conn)


def next_chunk(conn: Connection[Any]) -> None:
    """Let the next event be the first of another chunk."""
    create_chunks(conn)
    conn.execute(
        "select setval('gapless.outbox_message_id_seq', min(c.upto), false)"
        " from gapless.chunk c, gapless.outbox_message_id_seq s where c.upto > s.last_value"
    )
    create_chunks(conn)


def near_the_end(conn: Connection[Any], *, events: int) -> None:
    """Leave room for only this many more events in this chunk."""
    create_chunks(conn)
    conn.execute(
        "select setval('gapless.outbox_message_id_seq', min(c.upto) - %s, false)"
        " from gapless.chunk c, gapless.outbox_message_id_seq s where c.upto > s.last_value",
        [events],
    )
