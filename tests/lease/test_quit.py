"""Who leaves a group of one topic stays in that of another, and in its other groups."""

from uuid import uuid4

from psycopg import Connection

from gapless.log.topics import ensure_topic


def test_only_that_one_is_left(conn: Connection) -> None:
    places = []
    for topic in ("orders", "stock"):
        made = ensure_topic(conn, topic, partitions=1)
        for group in ("g", "h"):
            conn.execute("select gapless.create_group(%s, %s)", [group, topic])
            places.append((group, made.topic_id))
    members = [uuid4(), uuid4()]
    for member in members:
        conn.execute(
            "insert into gapless.member (member_id, name, ttl, expires_at, backend_pid)"
            " values (%s, 'm', '1 hour', 'infinity', 0)",
            [member],
        )
        for place in places:
            conn.execute("insert into gapless.member_group values (%s, %s, %s)", [member, *place])
    conn.execute("select gapless.quit_group(%s, %s, %s)", [members[0], *places[0]])
    left = conn.execute("select member_id, group_id, topic_id from gapless.member_group").fetchall()
    everything = {(member, *place) for member in members for place in places}
    assert set(left) == everything - {(members[0], *places[0])}
