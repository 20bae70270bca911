-- Copies of slices of the default chunk that are to become chunks (empty_default_chunk.sql): the ids that each covers,
-- from_id inclusive, upto exclusive. beside: the transactions that were open when the copy was there; null: not noted
-- yet.
create or replace view gapless.chunk_copy as
select
  c.relname::text as chunk,
  split_part(c.relname, '_', 3)::bigint as from_id,
  split_part(c.relname, '_', 4)::bigint as upto,
  string_to_array(substr(obj_description(c.oid, 'pg_class'), length('beside ') + 1), ' ') as beside
from pg_class c
where c.relnamespace = 'gapless'::regnamespace and c.relkind = 'r' and not c.relispartition
  and c.relname ~ '^outbox_message_[0-9]+_[0-9]+$';
