"""What each role may do, and what is said to one that may not."""

import pytest

from gapless.log.topics import ensure_topic


@pytest.fixture(autouse=True)
def orders(conn) -> None:
    ensure_topic(conn, "orders", partitions=2)


REFUSED = [
    (("topics",), "gapless_consumer"),
    (("publish", "orders", "1"), "gapless_producer"),
    (("tail", "orders"), "gapless_consumer"),
    (("init",), "owns the schema"),
    (("uninstall", "--yes"), "owns the schema"),
]


@pytest.mark.parametrize(("words", "remedy"), REFUSED, ids=lambda x: None)
def test_a_role_without_any_right(bare, role, words: tuple[str, ...], remedy: str) -> None:
    done = bare(*words, "--dsn", role())
    assert done.code == 2
    line = done.err.splitlines()[-1]
    assert line.startswith("gapless: role ")
    assert remedy in line


def test_a_producer_that_waits_is_refused_before_it_publishes(bare, role, conn) -> None:
    complaint = bare("publish", "orders", "1", "--wait", "--dsn", role("gapless_producer"))
    assert "grant it gapless_consumer, or leave --wait out" in complaint.complaint()
    assert conn.execute("select count(*) from gapless.outbox_message_t").fetchone() == (0,)


@pytest.mark.parametrize("table", ["migration", "topic", "outbox_message_t"])
def test_what_row_security_hides_is_not_gone(bare, role, conn, table: str) -> None:
    """No remedy is named that would do harm; producers, who do not read the table, are not refused."""
    conn.execute(f"alter table gapless.{table} enable row level security".encode())
    said = f"alter table gapless.{table} disable row level security"
    for words in (("status",), ("skip", "g/orders/0@1")):
        assert said in bare(*words, "--dsn", role("gapless_operator")).complaint(3)
    done = bare("doctor", "--dsn", role("gapless_consumer"))
    assert f"row security hides rows of {table} from role " in done.out
    assert "gapless skip" not in done.out
    assert "gapless init" not in done.out
    if table == "outbox_message_t":
        conn.execute("alter table gapless.outbox_message_t disable row level security")
        conn.execute("alter table gapless.lease enable row level security")
        assert bare("publish", "orders", "1", "--dsn", role("gapless_producer")).code == 0


@pytest.mark.long
def test_a_consumer(bare, role) -> None:
    dsn = role("gapless_consumer")
    for words in (
        ("topics",),
        ("topics", "create", "bills"),
        ("groups", "create", "g", "orders"),
        ("groups", "show", "g"),
        ("tail", "orders"),
        ("dlq",),
        ("status",),
    ):
        done = bare(*words, "--dsn", dsn)
        assert done.code == 0, (words, done)
    complaint = bare("publish", "orders", "1", "--dsn", dsn).complaint()
    assert complaint.endswith(": grant it gapless_producer")


@pytest.mark.long
def test_an_operator(bare, role) -> None:
    dsn = role("gapless_operator")
    assert bare("publish", "orders", "1", "--wait", "--dsn", dsn).code == 0
    done = bare("doctor", "--json", "--dsn", dsn)
    checks = {check["name"]: check for check in done.json["checks"]}
    assert checks["privileges"]["text"].endswith("may publish, run supervisors and read the log")
    assert not [name for name, check in checks.items() if "may not look" in check["text"]]


@pytest.mark.long
def test_an_owner_that_is_no_superuser(bare, role, empty_dsn: str) -> None:
    """A plain role that owns its database installs everything but the roles that exist already."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    plain = role()
    user = conninfo_to_dict(plain)["user"]
    database = conninfo_to_dict(empty_dsn)["dbname"]
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute(f'alter database "{database}" owner to "{user}"')
        dsn = make_conninfo(plain, dbname=database)
        try:
            done = bare("init", "--partitions", "2", "--dsn", dsn)
            assert done.code == 0, done
            assert bare("publish", "outbox", "1", "--wait", "--dsn", dsn).code == 0
            assert bare("tail", "outbox", "--dsn", dsn).lines[0].endswith(" 1")
            assert bare("uninstall", "--yes", "--dsn", dsn).code == 0
        finally:
            admin.execute(f'alter database "{database}" owner to current_user')
            admin.execute(f'drop owned by "{user}" cascade')
