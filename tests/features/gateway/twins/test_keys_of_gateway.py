"""Keys of the gateway: what is written of one, what is none, and until when one counts; beside others."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect

ID, OTHER = "0123456789abcdef", "fedcba9876543210"
CREATE = (
    "select gapless.create_api_key(%(key_id)s, %(name)s, %(digest)s, %(scopes)s::text[], %(requests_s)s,"
    " %(expires_in)s::interval)"
)
PARAMS: dict[str, Any] = {
    "key_id": ID, "name": "shop", "digest": b"d" * 32, "scopes": ["operate"], "requests_s": None, "expires_in": None,
}  # fmt: skip
FIND = "select * from gapless.find_api_key(%s)"
ROWS = "select to_jsonb(k) from gapless.api_key k order by k.key_id"
OTHERS = (
    "insert into gapless.api_key (key_id, name, digest, scopes, last_used_ts, revoked_ts)"
    " select n || %s, 'other', sha256(n::text::bytea), '{operate}', now() - interval '1 hour',"
    " case n when 2 then now() end from generate_series(1, 2) n"
)


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="test") as conn:
        create(conn, key_id=OTHER)
        yield conn


@pytest.fixture
def conn(shared: Connection[Any]) -> Iterator[Connection[Any]]:
    """There are three others, of which one was revoked."""
    with shared.transaction(force_rollback=True):
        shared.execute(OTHERS, [ID[1:]])
        yield shared


def refused(conn: Connection[Any], statement: str, params: Any) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as caught, conn.transaction():
        conn.execute(statement, params)
    return caught.value.sqlstate, caught.value.diag.message_primary


def create(conn: Connection[Any], **more: Any) -> Any:
    ((expires_ts,),) = conn.execute(CREATE, PARAMS | more).fetchall()
    return expires_ts


def rows(conn: Connection[Any]) -> dict[str, Any]:
    return {row["key_id"]: row for (row,) in conn.execute(ROWS)}


def age(conn: Connection[Any], column: str, key_id: str = ID) -> float | None:
    """How long ago a time of a key was, in tens of seconds."""
    query = f"select extract(epoch from clock_timestamp() - {column}) from gapless.api_key where key_id = %s"
    ((seconds,),) = conn.execute(query, [key_id]).fetchall()
    return None if seconds is None else round(float(seconds), -1)


@pytest.mark.parametrize(
    ("rate", "expires_in"), [(None, None), (0.001, "1 us"), (1_000_000, "366 days")]
)
def test_what_is_written_of_a_key(
    conn: Connection[Any], rate: float | None, expires_in: str | None
) -> None:
    before = rows(conn)
    scopes = ["operate", "publish:*", "read:a.*", "consume:b"]
    until = create(conn, scopes=scopes, requests_s=rate, expires_in=expires_in)
    after = rows(conn)
    made = after.pop(ID)
    assert after == before
    ((user, created_ts, expires_ts),) = conn.execute(
        "select session_user, created_ts, expires_ts from gapless.api_key where key_id = %s", [ID]
    ).fetchall()
    assert made == {
        "key_id": ID, "name": "shop", "digest": "\\x" + (b"d" * 32).hex(), "scopes": scopes, "requests_s": rate,
        "created_by": user, "last_used_ts": None, "revoked_ts": None, "created_ts": made["created_ts"],
        "expires_ts": made["expires_ts"],
    }  # fmt: skip
    assert until == expires_ts
    if expires_in is None:
        assert until is None
    elif expires_in == "366 days":
        assert abs(until - created_ts - timedelta(days=366)) < timedelta(seconds=5)


SCOPE = '"{}" is no scope: publish:TOPIC, read:TOPIC, consume:GROUP, with * at the end for any, or operate'
NO_SCOPE = (
    "a key without a scope opens nothing: publish:TOPIC, read:TOPIC, consume:GROUP or operate"
)
NAME = "the name of a key has 1 to 200 characters"
RATE = "a rate is above 0, and at most 1000000 requests a second, not {}"
FORM = "a key has an id of 16 hexadecimal digits, and a digest of 32 bytes"
TIME = "expiry is a time above 0 s, at most 366 days, not {}"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"scopes": []}, NO_SCOPE),
    ({"scopes": None}, NO_SCOPE),
    ({"scopes": ["operate", "operates"]}, SCOPE.format("operates")),
    ({"scopes": ["operate", None, "operate"]}, SCOPE.format("null")),
    ({"scopes": ["write:a"]}, SCOPE.format("write:a")),
    ({"scopes": ["read:"]}, SCOPE.format("read:")),
    ({"scopes": ["read:*a"]}, SCOPE.format("read:*a")),
    ({"scopes": ["x" * 101]}, SCOPE.format("x" * 100)),
    ({"scopes": [f"read:{'x' * 201}"]}, SCOPE.format("read:" + "x" * 95)),
    ({"name": ""}, NAME),
    ({"name": None}, NAME),
    ({"name": "n" * 201}, NAME),
    ({"requests_s": 0.0}, RATE.format("0")),
    ({"requests_s": -1.0}, RATE.format("-1")),
    ({"requests_s": float("nan")}, RATE.format("NaN")),
    ({"requests_s": 1_000_000.5}, RATE.format("1000000.5")),
    ({"expires_in": "0 s"}, TIME.format("00:00:00")),
    ({"expires_in": "-1 s"}, TIME.format("-00:00:01")),
    ({"key_id": ID[:15]}, FORM),
    ({"key_id": ID + "0"}, FORM),
    ({"key_id": ID[:15] + "g"}, FORM),
    ({"key_id": ID[:15] + "A"}, FORM),
    ({"digest": b"d" * 31}, FORM),
    ({"digest": b"d" * 33}, FORM),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_is_no_key(conn: Connection[Any], given: dict[str, Any], message: str) -> None:
    before = rows(conn)
    assert refused(conn, CREATE, PARAMS | given) == ("GL400", message)
    assert rows(conn) == before


@pytest.mark.parametrize("name", ["n", "n" * 200])
def test_the_bounds_of_a_name_and_of_scopes_count(conn: Connection[Any], name: str) -> None:
    create(conn, name=name, scopes=[f"read:{'x' * 200}", f"read:{'x' * 200}*", "consume:x"])
    assert rows(conn)[ID]["name"] == name


def test_a_key_is_made_once(conn: Connection[Any]) -> None:
    create(conn)
    taken = f"there is a key {ID} already"
    assert refused(conn, CREATE, PARAMS | {"name": "else"}) == ("GL409", taken)


def found(key: dict[str, Any]) -> list[Any]:
    return [(ID, "shop", b"d" * 32, ["operate"], key.get("requests_s"))]


# What is so with a key; whether it counts, and whether its use is noted.
COUNTS: list[tuple[str, bool, bool]] = [
    ("last_used_ts = null", True, True),
    ("last_used_ts = clock_timestamp() - interval '61 seconds'", True, True),
    ("last_used_ts = clock_timestamp() - interval '50 seconds'", True, False),
    ("expires_ts = clock_timestamp() + interval '10 seconds'", True, True),
    ("expires_ts = clock_timestamp()", False, False),
    ("expires_ts = clock_timestamp() - interval '1 second'", False, False),
    ("revoked_ts = clock_timestamp()", False, False),
    ("revoked_ts = clock_timestamp(), expires_ts = clock_timestamp() + interval '1 hour'", False, False),
]  # fmt: skip


@pytest.mark.parametrize(("so", "counts", "noted"), COUNTS)
def test_a_key_that_counts_is_found_and_its_use_noted(
    conn: Connection[Any], so: str, counts: bool, noted: bool
) -> None:
    create(conn, requests_s=2.5)
    conn.execute(f"update gapless.api_key set {so} where key_id = %s", [ID])
    before = rows(conn)
    assert conn.execute(FIND, [ID]).fetchall() == (found({"requests_s": 2.5}) if counts else [])
    after = rows(conn)
    if noted:
        assert age(conn, "last_used_ts") == 0.0
        after[ID]["last_used_ts"] = before[ID]["last_used_ts"]
    assert after == before


def test_no_other_key_is_found(conn: Connection[Any]) -> None:
    before = rows(conn)
    assert conn.execute(FIND, [ID]).fetchall() == []
    assert conn.execute(FIND, ["2" + ID[1:]]).fetchall() == []
    assert rows(conn) == before


def test_who_notes_a_use_waits_for_nobody(conn: Connection[Any], module_dsn: str) -> None:
    """Another gateway notes it at this moment."""
    before = rows(conn)
    lock = "select digest from gapless.api_key where key_id = %s for update"
    with connect(module_dsn, role="other") as other, other.transaction(force_rollback=True):
        other.execute(lock, [OTHER])
        conn.execute("set local lock_timeout = '300ms'")
        assert [row[0] for row in conn.execute(FIND, [OTHER])] == [OTHER]
    assert rows(conn) == before


def test_a_key_that_was_revoked_counts_no_more(conn: Connection[Any]) -> None:
    create(conn)
    before = rows(conn)
    revoke = "select gapless.revoke_api_key(%s)"
    assert conn.execute(revoke, [ID]).fetchone() == (True,)
    after = rows(conn)
    assert age(conn, "revoked_ts") == 0.0
    after[ID]["revoked_ts"] = None
    assert after == before
    before = rows(conn)
    assert conn.execute(revoke, [ID]).fetchone() == (False,)
    assert conn.execute(revoke, ["2" + ID[1:]]).fetchone() == (False,)
    assert rows(conn) == before
    assert conn.execute(FIND, [ID]).fetchall() == []


@pytest.mark.parametrize("key_id", [ID, "", "x" * 101])
def test_a_key_that_never_was_is_not_revoked(conn: Connection[Any], key_id: str) -> None:
    before = rows(conn)
    message = f'there is no key "{key_id[:100]}": gapless keys lists them'
    assert refused(conn, "select gapless.revoke_api_key(%s)", [key_id]) == ("GL404", message)
    assert rows(conn) == before
