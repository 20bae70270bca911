-- Return the slice of the default chunk that contains first_id: from the end of the chunk before to the beginning of
-- the next, or chunk_events rows further. upto: null while an event may still come into it (by the floor:
-- close_chunks.sql).
create or replace function gapless.closed_slice(_first_id bigint, out from_id bigint, out upto bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off as $$
  with place as (
    select c.from_id, c.upto from gapless.chunk c
    union all
    select c.from_id, c.upto from gapless.chunk_copy c
  )
  select
    greatest(1, (select max(p.upto) from place p where p.upto <= _first_id)),
    case when x.upto <= s.floor_id + 1 and s.stragglers = '{}' then x.upto end
  from (select * from gapless.sequencer s order by s.run desc limit 1) s
  cross join lateral (
    select least(
      (select min(p.from_id) from place p where p.from_id > _first_id),
      (
        select o.id from gapless.outbox_message_default o
        where o.id >= _first_id
        order by o.id
        offset (select c.chunk_events from gapless.log_config c) limit 1
      )
    ) as upto
  ) x
$$;
