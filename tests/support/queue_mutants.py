"""The SQL of queue groups, with one guard taken out."""

from psycopg import Connection

from gapless.db.queries import sql_root

_LOCK = (
    "pg_try_advisory_xact_lock(7427006,"
    " ((_lease_no::bigint * 1000003 + block_no) & 2147483647)::int)"
)


MUTANTS = {
    "look before lock": {
        "take_next": (
            (f"    if {_LOCK} then", "    if true then"),
            (
                "exit when first_offset <= log_last;",
                f"exit when first_offset <= log_last and (select pg_sleep(1)) is not null and {_LOCK};",
            ),
        )
    },
    "sweep over an unfinished range": {
        "sweep": (
            ("if each.is_finished and each.first_offset = upto", "if each.first_offset = upto"),
            ("bool_or(a.is_finished and a.first", "bool_or(a.first"),
        )
    },
    "acknowledge without token": {
        "lock_taken": ((" and r.token = _token", ""),),
        "settle_receipt": ((" and r.token = held.token\n", "\n"),),
    },
}


def infect(conn: Connection, name: str | None) -> None:
    for function, edits in MUTANTS.get(name or "", {}).items():
        text = (sql_root() / "features/queue/functions" / f"{function}.sql").read_text()
        for old, new in edits:
            assert old in text, f"{function}.sql has changed: mend the mutant"
            text = text.replace(old, new)
        conn.execute(text.encode())
