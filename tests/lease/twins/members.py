"""Members of twins: those that are there, suspected and gone."""

ME = "00000000-0000-0000-0000-0000000000aa"


YOU = "00000000-0000-0000-0000-0000000000bb"


THIRD = "00000000-0000-0000-0000-0000000000cc"


MEMBER = (
    "insert into gapless.member (member_id, member_no, name, ttl, expires_at, backend_pid, kind, token_digest,"
    " suspect_at, beat, state, capacity) overriding system value"
    " values ('{id}', {no}, 'm{no}', {ttl}, {expires}, 0, '{kind}',"
    " case when '{kind}' = 'client' then 'x'::bytea end, {suspect}, 3, '{state}', {capacity})"
)


UP = (
    "greatest(pg_postmaster_start_time(),"
    " (select min(a.backend_start) from pg_stat_activity a where a.backend_type = 'walwriter'))"
)


NOW = "clock_timestamp()"


TTL = "interval '100 s'"


def row(member: str, no: int, **more: object) -> str:
    words: dict[str, object] = {
        "ttl": TTL, "expires": f"{NOW} + {TTL}", "kind": "supervisor", "suspect": "null",
        "state": "active", "capacity": "null",
    }  # fmt: skip
    return MEMBER.format(id=member, no=no, **{**words, **more})


SUSPECT: dict[str, object] = {"suspect": UP}


OVER = f"{NOW} - interval '1 ms'"
