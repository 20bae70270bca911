-- Audit skipped offsets, and notify sessions that wait for the partition.
create or replace function gapless.tell_skip(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _last_offset bigint, _missing bigint
) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
  values (
    'skip', _group_id, _topic_id, _partition_id,
    jsonb_build_object('from', _first_offset, 'to', _last_offset + 1, 'missing', _missing)
  );
  select pg_notify('gapless_p_' || _topic_id || '_' || _partition_id, '');
$$;
