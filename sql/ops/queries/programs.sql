-- name: list
-- Programs with sessions in this database, by their kind, role and host. Without pg_monitor, the hosts of other roles
-- are unknown.
-- returns: gapless.ops.programs:Program
select substr(a.application_name, length(%(prefix)s::text) + 1) as kind, a.usename::text as role,
  host(a.client_addr) as host, count(*) as sessions, min(a.backend_start) as since
from pg_stat_activity a
where a.datname = current_database() and starts_with(a.application_name, %(prefix)s)
group by 1, 2, 3
order by 1, 2, 3
