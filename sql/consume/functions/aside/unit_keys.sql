-- Return the keys of units of the log, and whether an earlier unit holds them. message_ids are events, first_offsets,
-- of the same length, the units to which they belong. One row for each key of each unit.
create or replace function gapless.unit_keys(
  _group_id text, _topic_id int, _partition_id int, _message_ids bigint[], _first_offsets bigint[]
) returns table (first_offset bigint, key_digest bytea, is_held boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off set plan_cache_mode = force_custom_plan
set jit = off as $$
#variable_conflict use_column
declare
  low bigint := (select min(i) from unnest(_message_ids) i);    -- as in set_aside()
  high bigint := (select max(i) from unnest(_message_ids) i);
  _is_any_held boolean := gapless.holds_keys(_group_id, _topic_id, _partition_id);
begin
  return query
  select t.unit, t.digest,
    _is_any_held and gapless.is_behind(_group_id, _topic_id, _partition_id, t.unit, t.digest)
  from (
    select distinct u.unit, o.digest
    from unnest(_message_ids, _first_offsets) as u (id, unit)
    cross join lateral (
      select gapless.key_digest(m) as digest
      from gapless.outbox_message_t m where m.id = u.id and m.id between low and high
      union all    -- asked only if the log has it no more
      select b.key_digest from gapless.events_beside b where b.id = u.id
      limit 1
    ) o
  ) t;
  if gapless.is_in_default(_message_ids) then
    raise exception using errcode = 'GL000';    -- its locks go, its rows stay
  end if;
exception
  when sqlstate 'GL000' then
    null;
end
$$;
