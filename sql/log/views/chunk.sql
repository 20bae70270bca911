-- The chunks of outbox_message_t with the ids they cover: from_id inclusive, upto exclusive.
create or replace view gapless.chunk as
select
  c.relname::text as chunk,
  (regexp_match(b.bound, E'FROM \\(''?(\\d+)''?\\)'))[1]::bigint as from_id,
  (regexp_match(b.bound, E'TO \\(''?(\\d+)''?\\)'))[1]::bigint as upto,
  pg_total_relation_size(c.oid) as bytes
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
cross join lateral (select pg_get_expr(c.relpartbound, c.oid)) as b (bound)
where i.inhparent = 'gapless.outbox_message_t'::regclass
  and b.bound <> 'DEFAULT';
